"""What a Simulation file may say. Times are in seconds here, and Go durations in files."""

from typing import Any, Literal, TypeAlias

import msgspec

from tonnage.embedded.cloud import CapacityShortage, CloudBehaviour
from tonnage.embedded.world import WorldBehaviour
from tonnage.errors import InputError
from tonnage.objects.scenarios import NodeGroup

KIND = "Simulation"

Tree: TypeAlias = dict[str, Any]
"""A manifest as it is written."""

Program: TypeAlias = Literal["autoscaler", "scheduler"]


class _Strict(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    pass


class Target(_Strict, frozen=True, kw_only=True):
    """An object by name."""

    kind: str
    name: str
    namespace: str = "default"


class Scaling(Target, frozen=True, kw_only=True):
    """How many replicas a workload is to have, or how many more or fewer than it has."""

    replicas: int | None = None
    by: int | None = None

    def __post_init__(self) -> None:
        if (self.replicas is None) == (self.by is None):
            raise InputError("`replicas`: expected either replicas or by")
        if self.replicas is not None and self.replicas < 0:
            raise InputError(f"`replicas`: {self.replicas}: expected 0 or more")


class LimitChangeAction(_Strict, frozen=True, kw_only=True):
    """What a driver reports from then on, on nodes that exist; no limit is unlimited."""

    driver: str
    limit: int | None = None
    nodes: tuple[str, ...] = ("*",)


class Crash(_Strict, frozen=True, kw_only=True):
    """A driver that is gone from nodes for a while: its entry leaves their CSINodes."""

    driver: str
    nodes: tuple[str, ...] = ("*",)
    lasts: float = msgspec.field(default=60.0, name="for")


class NodeOutage(_Strict, frozen=True, kw_only=True):
    """Nodes that are not Ready for a while.

    With `orOldestOf`, if none of them is there, the oldest node of that group instead.
    """

    nodes: tuple[str, ...]
    or_oldest_of: str = ""
    lasts: float = msgspec.field(default=60.0, name="for")


class NodeLoss(_Strict, frozen=True, kw_only=True):
    """Nodes that vanish with their machines, as when spot machines are taken back.

    With `orOldestOf`, if none of them is there, the oldest node of that group instead.
    """

    nodes: tuple[str, ...]
    or_oldest_of: str = ""


class OutOfStock(_Strict, frozen=True, kw_only=True):
    """What the cloud has no machines of for a while."""

    groups: tuple[str, ...] = ("*",)
    zones: tuple[str, ...] = ("*",)
    instance_types: tuple[str, ...] = ("*",)
    lasts: float = msgspec.field(default=600.0, name="for")

    def since(self, at: float) -> CapacityShortage:
        return CapacityShortage(
            since=at,
            until=at + self.lasts,
            groups=self.groups,
            zones=self.zones,
            instance_types=self.instance_types,
        )


class Cut(_Strict, frozen=True, kw_only=True):
    """What the autoscaler cannot read for a while, or is told there is nothing of.

    Kinds by name, all of them if none is named. `empty` is the dangerous way: a good answer with
    nothing in it.
    """

    kinds: tuple[str, ...] = ()
    answers: Literal["none", "empty"] = "none"
    lasts: float = msgspec.field(default=60.0, name="for")


class ScenarioAction(_Strict, frozen=True, kw_only=True):
    """One thing that happens at a time, or again and again until another."""

    at: float = 0.0
    every: float | None = None
    until: float | None = None
    apply: tuple[Tree, ...] | None = None
    delete: tuple[Target, ...] | None = None
    scale: Scaling | None = None
    set_limit: LimitChangeAction | None = None
    crash: Crash | None = None
    not_ready: NodeOutage | None = None
    lose: NodeLoss | None = None
    out_of_stock: OutOfStock | None = None
    cut: Cut | None = None
    restart: Program | None = None

    def __post_init__(self) -> None:
        done = [name for name in DEEDS if getattr(self, name) is not None]
        if len(done) != 1:
            names = ", ".join(DEEDS.values())
            found = " and ".join(DEEDS[name] for name in done) or "none"
            raise InputError(f"expected exactly one of {names}; found {found}")
        if self.at < 0:
            raise InputError(f"`at`: {self.at:g}: expected 0 or later")
        if self.every is not None and self.every <= 0:
            raise InputError(f"`every`: {self.every:g}: expected more than 0")
        if self.until is not None and self.every is None:
            raise InputError("`until`: expected every beside it")

    @property
    def deed(self) -> str:
        """The name of the field that says what happens."""
        return next(name for name in DEEDS if getattr(self, name) is not None)

    def times(self, duration: float) -> list[float]:
        """When it happens within a run."""
        if self.every is None:
            return [self.at] if self.at <= duration else []
        end = duration if self.until is None else min(self.until, duration)
        count = int((end - self.at) / self.every + 1e-9) + 1
        return [self.at + self.every * turn for turn in range(max(count, 0))]


DEEDS = {
    "apply": "apply",
    "delete": "delete",
    "scale": "scale",
    "set_limit": "setLimit",
    "crash": "crash",
    "not_ready": "notReady",
    "lose": "lose",
    "out_of_stock": "outOfStock",
    "cut": "cut",
    "restart": "restart",
}
"""Fields of an action that say what happens, with their names in files."""


class Spec(_Strict, frozen=True, kw_only=True):
    """The body of a Simulation file.

    `options` are fields of the autoscaler's configuration, `scheduler` of the scheduler's. A pod
    that has a node and does not run for `stuck_after` is stuck. `files` are read relative to
    this one. Samples are taken `sample_every` so often and kept where something changed. With
    `capacity_templates`, `tonnage capacity-templates` runs beside the autoscaler; with `extender`,
    the scheduler asks `tonnage extender`, so that the opt-in of drivers needs no gate.
    """

    description: str = ""
    seed: int = 1
    duration: float
    kubernetes_version: str = ""
    feature_gates: dict[str, bool] = {}
    options: dict[str, Any] = {}
    scheduler: dict[str, Any] = {}
    capacity_templates: bool = False
    extender: bool = False
    world: WorldBehaviour = WorldBehaviour()
    cloud: CloudBehaviour = CloudBehaviour()
    stuck_after: float = 120.0
    sample_every: float | None = None
    files: tuple[str, ...] = ()
    objects: tuple[Tree, ...] = ()
    script: tuple[ScenarioAction, ...] = ()

    def __post_init__(self) -> None:
        if self.duration <= 0:
            raise InputError(f"`duration`: {self.duration:g}: expected more than 0")
        if self.sample_every is not None and self.sample_every <= 0:
            raise InputError(f"`sampleEvery`: {self.sample_every:g}: expected more than 0")


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario with all that its files say: groups for the cloud, objects for the API."""

    name: str
    spec: Spec
    groups: tuple[NodeGroup, ...] = ()
    objects: tuple[Tree, ...] = ()

    def with_options(self, changes: dict[str, Any]) -> "Simulation":
        """The same with other options of the autoscaler."""
        spec = msgspec.structs.replace(self.spec, options={**self.spec.options, **changes})
        return msgspec.structs.replace(self, spec=spec)

    def with_seed(self, seed: int) -> "Simulation":
        return msgspec.structs.replace(self, spec=msgspec.structs.replace(self.spec, seed=seed))

    def with_duration(self, seconds: float) -> "Simulation":
        spec = msgspec.structs.replace(self.spec, duration=seconds)
        return msgspec.structs.replace(self, spec=spec)
