"""The story of `tonnage demo`, in real time: the same burst with Tonnage and without.

An act is an ensemble on the machine's clock. Whoever watches is handed a `Scene` several times a
second, and decides how to show it.
"""

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import msgspec

from tonnage.clock import Clock
from tonnage.report.timeline import Decided, Sample, Timeline
from tonnage.simulation import scenario_files
from tonnage.simulation.disks import DiskUse
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Simulation


class NodeSlots(NamedTuple):
    """One node's slots of one driver; `limit` is `None` where there is no number (yet)."""

    node: str
    driver: str
    used: int
    limit: int | None


class Scene(NamedTuple):
    """A moment of an act."""

    act: str
    sample: Sample
    nodes: tuple[NodeSlots, ...]
    disks: tuple[DiskUse, ...]
    decisions: tuple[Decided, ...]


class Act(NamedTuple):
    """A title and a sentence for the audience, and what is played."""

    title: str
    about: str
    simulation: Simulation


_WITH = (
    "24 databases want a volume each, and a machine attaches 5; 6 caches want 40 GiB of local disk"
    " each, and a machine has 100. Drivers register seconds after their node is ready; they opted"
    " in, so no pod is placed there before."
)
_WITHOUT = (
    "The same pods where nobody counts slots or waits for drivers, and nobody says what disks the"
    " next machine would have."
)


def acts() -> tuple[Act, Act]:
    """The burst with everything on; and as it goes without.

    There nobody counts slots or waits for drivers, and nobody publishes what the disks of machines
    hold that do not exist yet.
    """
    story = _story()
    without = msgspec.structs.replace(
        story.spec,
        capacity_templates=False,
        feature_gates={**story.spec.feature_gates, "VolumeLimitScaling": False},
        options={
            **story.spec.options,
            "csiAware": False,
            "compatibility": "cluster-autoscaler-1.37",
        },
        scheduler={**story.spec.scheduler, "countPledgedStorage": False},
    )
    return (
        Act("with Tonnage", _WITH, story),
        Act("without CSI awareness", _WITHOUT, msgspec.structs.replace(story, spec=without)),
    )


async def perform(
    act: Act,
    *,
    clock: Clock,
    show: Callable[[Scene], None],
    prepare: Callable[[Ensemble], None] | None = None,
) -> Timeline:
    """Play an act to its end, and tell what came of it."""

    def watch(sample: Sample) -> None:
        accounts = ensemble.accounts
        disks = accounts.disks.by_node(accounts.slots.limits)
        decisions = tuple(ensemble.decisions)
        show(Scene(act.title, sample, _slots(ensemble), tuple(disks), decisions))

    ensemble = Ensemble(act.simulation, clock=clock, label=act.title, watch=watch)
    if prepare is not None:
        prepare(ensemble)
    await ensemble.run()
    return ensemble.timeline()


def endless(act: Act) -> Act:
    """The same act for whoever wants to look around in it: with status, and reasons to ask for."""
    options = {
        **act.simulation.spec.options,
        "writeStatusConfigmap": True,
        "decisionRecordingSize": 1_000_000,
        # All nodes are in use and stay; it can be asked why.
        "scaleDownEnabled": True,
    }
    spec = msgspec.structs.replace(act.simulation.spec, duration=30 * 86_400.0, options=options)
    return act._replace(simulation=msgspec.structs.replace(act.simulation, spec=spec))


def _story() -> Simulation:
    folder = resources.files("tonnage.simulation").joinpath("data")
    data = folder.joinpath("demo.yaml").read_bytes()
    return scenario_files.parse(data, file="demo.yaml", beside=Path(str(folder)))


def _slots(ensemble: Ensemble) -> tuple[NodeSlots, ...]:
    return tuple(
        NodeSlots(node, driver, used, limit)
        for node, driver, used, limit in ensemble.accounts.slots.by_node()
    )
