"""Scenarios in virtual time."""

from collections.abc import Callable
from datetime import datetime

from tonnage.clock import virtual
from tonnage.clock.virtual import VirtualClock
from tonnage.objects import codec
from tonnage.report.timeline import Sample, Timeline
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Simulation


def simulate(
    simulation: Simulation,
    *,
    label: str = "",
    watch: Callable[[Sample], None] | None = None,
    ended: Callable[[Ensemble], None] | None = None,
) -> Timeline:
    """Play a scenario to its end; `watch` sees every sample when it is taken, `ended` the cluster
    as it was left.

    Deterministic: the same scenario gives the same timeline, byte by byte.
    """
    return played(simulation, label=label, watch=watch, ended=ended).timeline()


def played(
    simulation: Simulation,
    *,
    label: str = "",
    watch: Callable[[Sample], None] | None = None,
    prepare: Callable[[Ensemble], None] | None = None,
    ended: Callable[[Ensemble], None] | None = None,
    start: datetime = virtual.START,
) -> Ensemble:
    """The cluster as it was at the end; `prepare` may listen in before it begins, `ended` look at
    what is left.

    `start` is what the wall clock shows at the beginning.
    """
    clock = VirtualClock(start=start, horizon=simulation.spec.duration + 3600.0)

    async def main() -> Ensemble:
        ensemble = Ensemble(simulation, clock=clock, label=label, watch=watch)
        if prepare is not None:
            prepare(ensemble)
        await ensemble.run()
        return ensemble

    with codec.collector_lazy(), codec.remembered():
        ensemble = virtual.run(main, clock=clock)
    if ended is not None:
        ended(ensemble)
    return ensemble
