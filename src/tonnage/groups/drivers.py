"""Which CSI drivers the nodes of a group register: what is expected of them, and who lacks what."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from tonnage.groups import limits
from tonnage.groups.memory import RememberedDriver
from tonnage.groups.node_state import NodeState
from tonnage.groups.policy import GroupPolicy
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode, NodeDriver, NodeDriverAllocatable

EXPECTED_DRIVERS = "tonnage.dev/expected-csi-drivers"
"""On a node, as label or annotation: drivers it is not ready without.

Names are parted by `_` in a label, which cannot hold a comma, and by `,` or `_` in an annotation.
"""

_SEPARATORS = r"[_,\s]+"
_NONE: frozenset[str] = frozenset()


class Member(msgspec.Struct, frozen=True):
    """A registered node of a group."""

    node: Node
    state: NodeState
    csinode: CSINode | None

    @property
    def counts(self) -> bool:
        """Whether what it shows says anything about the group's nodes."""
        return self.state.ready and not self.state.deleting


class UsualDrivers:
    """The drivers that most nodes of the cluster have: what is to be expected of a group that has
    nothing of its own to go by.

    Nodes that list some driver are asked, those that had time to register all of them rather than
    others, and those of the same instance type rather than others.
    """

    def __init__(self, members: Iterable[Member], *, policy: GroupPolicy, now: float) -> None:
        """The members are looked at when the first question is asked."""
        self._members = members
        self._timeout = policy.driver_registration_timeout
        self._now = now

    def of(self, instance_type: str) -> frozenset[str]:
        """On a node of this type; of another one if there is none."""
        nodes, having = self._counted.get(instance_type) or self._counted.get("", (0, Counter()))
        return frozenset(name for name, count in having.items() if 2 * count > nodes)

    @cached_property
    def _counted(self) -> dict[str, tuple[int, Counter[str]]]:
        """By instance type, and of all nodes by none: the nodes that are asked, and what of."""
        showing = [one for one in self._members if one.counts and by_name(one.csinode)]
        seasoned = [one for one in showing if one.state.is_seasoned(self._now, self._timeout)]
        nodes: Counter[str] = Counter()
        having: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for member in seasoned or showing:
            for kind in {limits.instance_type(member.node), ""}:
                nodes[kind] += 1
                having[kind].update(by_name(member.csinode).keys())
        return {kind: (count, having[kind]) for kind, count in nodes.items()}


class DriverEvidence(msgspec.Struct, frozen=True):
    """What a group's own nodes, provider and past say about its drivers.

    `seen` are the drivers on its ready nodes. `conclusive` means that a node which lists some
    drivers is old enough that those it does not list are not merely late.
    """

    expected: frozenset[str]
    seen: Mapping[str, NodeDriver]
    conclusive: bool


def by_name(csinode: CSINode | None) -> dict[str, NodeDriver]:
    """The drivers of a CSINode; of two entries of one name the first."""
    if csinode is None:
        return {}
    return {driver.name: driver for driver in reversed(csinode.spec.drivers)}


def expected_by(node: Node) -> frozenset[str]:
    """The drivers that the node itself says it is not ready without."""
    label = node.metadata.labels.get(EXPECTED_DRIVERS, "")
    annotation = node.metadata.annotations.get(EXPECTED_DRIVERS, "")
    if not label and not annotation:
        return _NONE
    text = f"{label},{annotation}"
    return frozenset(name for name in re.split(_SEPARATORS, text) if name)


def missing_on(
    member: Member,
    expected: frozenset[str],
    *,
    blind: bool,
    policy: GroupPolicy,
    now: float,
) -> tuple[str, ...]:
    """The drivers a node is not ready without and has not registered, in order of name.

    `blind` says that no CSINode of the whole cluster is known: nobody dumped them, or nobody may
    read them. A node that is no longer young is then taken for what its conditions say; otherwise
    every node there is would count as broken. Upstream excuses any node without a CSINode, and
    goes by the provider's template alone.
    """
    if not policy.csi_aware:
        return ()
    timeout = policy.driver_registration_timeout
    if member.csinode is None and (
        policy.as_upstream or (blind and member.state.is_seasoned(now, timeout))
    ):
        return ()
    if not policy.as_upstream:
        expected = expected | expected_by(member.node)
    if not expected:
        return ()
    return tuple(sorted(expected.difference(by_name(member.csinode))))


def evidence(
    members: Sequence[Member],
    *,
    provider: CSINode | None,
    remembered: Mapping[str, RememberedDriver],
    policy: GroupPolicy,
    now: float,
    usual: Callable[[], frozenset[str]] = lambda: _NONE,
) -> DriverEvidence:
    """Weigh what is known of a group's drivers.

    Expected is what the provider lists, what at least half of the ready nodes list that had time
    to register it, and what was seen as recently as a registration may take. One odd node among
    many thus does not make the others unready, a driver that drops out for a moment is missed,
    and one that was uninstalled is forgotten.

    While no node had that time, nodes that have begun to register speak for the others, and so do
    those that the group had last; if its provider lists no driver, what is `usual` elsewhere or
    comes with a DaemonSet. If that was wrong, it is over when the first of the nodes is old enough.
    """
    timeout = policy.driver_registration_timeout
    showing = [member for member in members if member.counts]
    seasoned = [member for member in showing if member.state.is_seasoned(now, timeout)]
    voters = seasoned or [member for member in showing if by_name(member.csinode)]
    votes = Counter(name for member in voters for name in by_name(member.csinode))
    expected = {name for name, count in votes.items() if 2 * count >= len(voters)}
    expected.update(by_name(provider))
    last = now if seasoned else max((one.seen for one in remembered.values()), default=now)
    expected.update(name for name, driver in remembered.items() if last - driver.seen <= timeout)
    if members and not seasoned and not by_name(provider):
        expected |= usual()
    return DriverEvidence(
        frozenset(expected), _typical(showing), any(by_name(m.csinode) for m in seasoned)
    )


def _typical(members: Iterable[Member]) -> dict[str, NodeDriver]:
    """Each driver on the nodes, with the number most of them give."""
    first: dict[str, NodeDriver] = {}
    counts: dict[str, list[int | None]] = {}
    for member in members:
        for name, driver in by_name(member.csinode).items():
            first.setdefault(name, driver)
            counts.setdefault(name, []).append(driver.limit)
    return {
        name: with_count(driver, limits.typical(counts[name])) for name, driver in first.items()
    }


def with_count(driver: NodeDriver, count: int | None) -> NodeDriver:
    """The driver with another limit; `None` is no limit."""
    if driver.limit == count:
        return driver
    allocatable = NodeDriverAllocatable(count=count) if count is not None else None
    return msgspec.structs.replace(driver, allocatable=allocatable)
