"""Variants that are played: simulations with other options and seeds, seeds of the explorer."""

import logging
from collections.abc import Sequence
from math import inf
from typing import Any

import msgspec

from tonnage.errors import InputError
from tonnage.report.figures import FIGURES
from tonnage.simulation import comparison, explorer, runner, settings
from tonnage.simulation.scenario import Simulation
from tonnage.sweep.bundle import SweptCluster
from tonnage.sweep.definition import Ask
from tonnage.sweep.variants import Variant

_SILENT = logging.NullHandler()


def answer(ask: Ask, cluster: SweptCluster, variant: Variant, *, whole: bool) -> dict[str, Any]:
    """Play a variant, and say what came of it."""
    # What the components log is of no use here: their times are not the reader's.
    logging.getLogger("tonnage").addHandler(_SILENT)
    logging.getLogger("tonnage").propagate = False
    if ask == "explore":
        return _explored(variant.changes)
    assert isinstance(cluster, Simulation)
    timeline = runner.simulate(_changed(cluster, variant.changes))
    values = {figure.key: figure.of(timeline.summary) for figure in FIGURES}
    figures = {key: None if value == inf else value for key, value in values.items()}
    found: dict[str, Any] = {"figures": figures}
    if whole:
        found["timeline"] = msgspec.to_builtins(timeline)
    return found


def _changed(simulation: Simulation, changes: Sequence[str]) -> Simulation:
    for text in changes:
        name, _, value = text.partition("=")
        if name == "seed":
            simulation = simulation.with_seed(_seed(text))
        elif name == "duration":
            seconds = settings.seconds(value)
            if not seconds:
                raise InputError(f"{text}: expected a duration such as 90m")
            simulation = simulation.with_duration(seconds)
        elif name == "option":
            option, _, setting = value.rpartition(":")
            simulation = comparison.with_options(simulation, comparison.options({option: setting}))
        else:
            raise InputError(f"{text}: a simulation has seed, duration and option to vary")
    return simulation


def _explored(changes: Sequence[str]) -> dict[str, Any]:
    seeds = [_seed(text) for text in changes if text.startswith("seed=")]
    if len(seeds) != 1 or len(changes) != 1:
        raise InputError("the explorer has seeds to vary, and nothing else: seed=0..499")
    outcome = explorer.explored(seeds[0])
    figures = {
        "violations": len(outcome.violations),
        "changes": outcome.changes,
        "nodesRemoved": outcome.removed,
        "podsEvicted": outcome.evicted,
        "excused": sum(outcome.excused.values()),
    }
    told = [str(one) for one in outcome.violations]
    return {"figures": figures, **({"violations": told} if told else {})}


def _seed(text: str) -> int:
    value = text.partition("=")[2]
    if not value.isascii() or not value.isdigit():
        raise InputError(f"{text}: expected a whole number, 0 or more")
    return int(value)
