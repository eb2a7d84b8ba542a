"""The race explorer: clusters made by chance, each checked after every change in the API.

Trouble ends after a while, so that at the end it can be asked whether everybody found their place.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tonnage.simulation import (
    random_bookings,
    random_disks,
    random_gangs,
    random_headroom,
    random_removals,
    random_scenarios,
    random_spread,
    runner,
)
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.invariants import Invariants, Violation
from tonnage.simulation.scenario import Simulation

COMING_WITHIN = random_scenarios.PATIENCE - 30.0
SETTLED = random_scenarios.PATIENCE + 2 * random_scenarios.LONGEST_BACKOFF


class SeedOutcome(NamedTuple):
    """What came of one seed."""

    seed: int
    violations: tuple[Violation, ...]
    excused: Counter[str]
    changes: int
    removed: int = 0
    evicted: int = 0
    killed: int = 0
    """How often the autoscaler was killed in the middle of a removal."""


def explore(seeds: Iterable[int]) -> Iterator[SeedOutcome]:
    """Play these seeds, one after the other."""
    for seed in seeds:
        yield explored(seed)


def scenario(seed: int, *, scale_down: bool | None = None) -> Simulation:
    """The cluster of a seed; in every second one the first nodes are old when trouble begins.

    From every second one nodes are given back, unless it is said whether they are.
    """
    made = random_disks.with_disks(random_scenarios.by_chance(seed))
    if random_removals.is_chosen(seed) if scale_down is None else scale_down:
        made = random_removals.with_removals(made)
    if random_headroom.is_chosen(seed):
        made = random_headroom.with_headroom(made)
    else:
        made = random_spread.with_spread(made)
    if random_gangs.is_chosen(seed):
        made = random_gangs.with_gangs(made)
    if random_bookings.is_chosen(seed):
        made = random_bookings.with_bookings(made)
    return random_scenarios.aged(made) if random.Random(f"age {seed}").random() < 0.5 else made


def explored_with_scale_down(seed: int) -> SeedOutcome:
    """Play one seed to its end, giving nodes back in any case."""
    return explored(seed, scale_down=True)


def explored(seed: int, *, scale_down: bool | None = None) -> SeedOutcome:
    """Play one seed to its end."""
    found: list[Invariants] = []
    killers: list[random_removals.Killer] = []

    def listen(ensemble: Ensemble) -> None:
        if ensemble.simulation.spec.options.get("scaleDownEnabled"):
            killers.append(random_removals.Killer(ensemble))
        found.append(Invariants(ensemble, coming_within=COMING_WITHIN, settled=SETTLED))

    ensemble = runner.played(scenario(seed, scale_down=scale_down), prepare=listen)
    invariants = found[0]
    invariants.at_the_end()
    return SeedOutcome(
        seed,
        tuple(invariants.violations),
        invariants.excused,
        ensemble.accounts.changes,
        invariants.removals.removed,
        invariants.removals.evicted,
        sum(killer.killed for killer in killers),
    )
