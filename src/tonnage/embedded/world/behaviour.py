"""What the world is like: how long things take, and what goes wrong where.

Nodes are meant by patterns (`*`, `?`, `[...]`) on their own name or their group's.
"""

import random
from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

from tonnage.errors import InputError
from tonnage.objects import quantities
from tonnage.objects.nodes import Node
from tonnage.providers.kwok_objects import GROUP_LABEL


class Delay(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Seconds, anything from `least` to `most` being as likely; `most` is `least` if not given."""

    least: float = 0.0
    most: float = 0.0

    def __post_init__(self) -> None:
        if self.least < 0 or (self.most and self.most < self.least):
            raise InputError(
                f"delay from {self.least:g} to {self.most:g} s: expected 0 <= least <= most"
            )


def check_chances(**chances: float) -> None:
    """Refuse what is no chance; names are those of the records' fields."""
    for name, chance in chances.items():
        if not 0.0 <= chance <= 1.0:
            raise InputError(f"`{_in_files(name)}`: {chance:g}: expected a chance from 0 to 1")


def _check_limits(**limits: int | None) -> None:
    for name, limit in limits.items():
        if limit is not None and limit < 0:
            raise InputError(f"`{_in_files(name)}`: {limit}: expected 0 or more")


def _in_files(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class _Settings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class DriverLimitChange(_Settings, frozen=True, kw_only=True):
    """A limit that changes while the driver runs, as when network interfaces take slots."""

    after: Delay
    """Counted from the driver's registration on the node."""
    limit: int | None
    nodes: tuple[str, ...] = ("*",)
    reported_after: Delay = Delay()
    """From the change to the CSINode telling of it."""

    def __post_init__(self) -> None:
        _check_limits(limit=self.limit)


class DriverBehaviour(_Settings, frozen=True, kw_only=True):
    """A CSI driver's part on each node: what it reports, when it registers, how it fails."""

    name: str
    limit: int | None = None
    """Volumes per node, as reported; `None` is no limit."""
    real_limit: int | None = None
    """Volumes that can really be attached to a node, where that is not what is reported."""
    changes: tuple[DriverLimitChange, ...] = ()
    capacity: str | None = None
    """Space of each node, or each segment of `topology`, published as CSIStorageCapacity; more than
    this no driver can make volumes of. `None` is a driver that publishes nothing."""
    published_after: Delay = Delay(1.0)
    """From a volume made or deleted to the published capacity telling of it."""
    topology: dict[str, str] = {}
    """Topology keys, each with the node label its value is taken from. With a capacity and without
    keys it is `topology.NAME/node`, whose value is the node's name."""
    nodes: tuple[str, ...] = ("*",)
    registers_after: Delay = Delay()
    """Counted from the node being Ready."""
    never_on: tuple[str, ...] = ()
    never_chance: float = 0.0
    startup_taint: str = ""
    """The key of a taint that the driver takes off a node once it has registered there."""
    untaints_blindly: bool = False
    """It writes back the taints it read when it began, whatever others wrote meanwhile: of two
    drivers that do so at once, one puts the other's taint back, as it happens in the field."""
    crashes_after: Delay | None = None
    """Again and again, counted from each registration."""
    down_for: Delay = Delay(10.0)

    def __post_init__(self) -> None:
        check_chances(never_chance=self.never_chance)
        _check_limits(limit=self.limit, real_limit=self.real_limit)
        try:
            enough = self.capacity is None or quantities.value(self.capacity) >= 0
        except quantities.QuantityError as error:
            raise InputError(f"`capacity`: {error}") from None
        if not enough:
            raise InputError(f"`capacity`: {self.capacity}: expected 0 or more")

    def segment(self, node: Node) -> dict[str, str]:
        """The topology that the driver puts the node in: its labels there."""
        if self.capacity is not None and not self.topology:
            return {f"topology.{self.name}/node": node.metadata.name}
        labels = node.metadata.labels
        return {key: labels[source] for key, source in self.topology.items() if source in labels}


class Flapping(_Settings, frozen=True, kw_only=True):
    """Nodes that are Ready for a while, then not for a while, for ever."""

    nodes: tuple[str, ...]
    up: Delay = Delay(60.0)
    down: Delay = Delay(30.0)


class WorldBehaviour(_Settings, frozen=True, kw_only=True):
    """Everything about the world that a scenario may choose."""

    node_label: str = GROUP_LABEL
    """Only nodes that have this label are played; all of them if it is empty."""
    start: Delay = Delay(1.0)
    """From the Node object to Ready."""
    never_start: tuple[str, ...] = ()
    never_start_chance: float = 0.0
    flapping: tuple[Flapping, ...] = ()
    csi_node_at_start: bool = True
    """A kubelet publishes a CSINode without drivers before it is Ready; drivers do otherwise."""
    heartbeat: float | None = 20.0
    """Seconds between renewals of a node's Lease; a real node lifecycle controller waits 50 s.
    Nobody reads Leases where `controllers` is on: `None` then saves most of what a day costs."""
    pod_start: Delay = Delay(0.5)
    pod_stop: Delay = Delay(0.5)
    drivers: tuple[DriverBehaviour, ...] = ()
    storage_drivers: tuple[str, ...] = ("*",)
    """Patterns of the drivers whose volumes are provisioned and attached here."""
    provision: Delay = Delay(0.5)
    attach: Delay = Delay(0.5)
    detach: Delay = Delay(0.5)
    attach_failure_chance: float = 0.0
    """Of every single attempt; it is repeated."""
    controllers: bool = False
    """Play the kube-controller-manager's part too, where the server has none: workloads have
    pods, claims are bound, volumes are attached to where pods are, and taints follow conditions.
    Kubelets then start a pod only when its volumes are there."""

    def __post_init__(self) -> None:
        check_chances(
            never_start_chance=self.never_start_chance,
            attach_failure_chance=self.attach_failure_chance,
        )


class SeededChance:
    """What chance has in store, fixed by the seed and by what it is about."""

    def __init__(self, rng: random.Random) -> None:
        self._seed = rng.getrandbits(64)

    def seconds(self, delay: Delay, *about: object) -> float:
        if delay.most <= delay.least:
            return delay.least
        return self.dice(*about).uniform(delay.least, delay.most)

    def befalls(self, chance: float, *about: object) -> bool:
        return chance > 0 and self.dice(*about).random() < chance

    def dice(self, *about: object) -> random.Random:
        return random.Random("/".join(map(str, (self._seed, *about))))


def is_meant(node: Node, patterns: Iterable[str]) -> bool:
    """Whether a pattern fits the node's name or its group's."""
    names = (node.metadata.name, node.metadata.labels.get(GROUP_LABEL, ""))
    return any(name and fnmatchcase(name, pattern) for pattern in patterns for name in names)


def is_played(node: Node, behaviour: WorldBehaviour) -> bool:
    return not behaviour.node_label or behaviour.node_label in node.metadata.labels
