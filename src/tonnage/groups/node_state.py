"""What one Node says of itself: ready or not, since when, starting, leaving."""

from collections.abc import Iterable, Iterator

import msgspec

from tonnage.groups import passing_taints
from tonnage.groups.policy import GroupPolicy
from tonnage.objects import timestamps
from tonnage.objects.nodes import Node

STABLE_AFTER = 60.0
"""Seconds after its last change of readiness from which a node can stand for its group."""

_REGISTERS_WITHIN = 10.0
"""Seconds from the creation of a node to what it first says of itself; clocks differ a little."""

_TELLING_CONDITIONS = ("Ready", "DiskPressure", "NetworkUnavailable")
_TELLING_TAINTS = frozenset(
    {
        passing_taints.NOT_READY,
        passing_taints.DISK_PRESSURE,
        passing_taints.NETWORK_UNAVAILABLE,
    }
)


class NodeState(msgspec.Struct, frozen=True):
    """A node by its own account; its drivers are another question.

    `reason` says why it is not ready, and is empty when it is. `since` is the last change of
    what readiness was read from, `created` the creation; `None` is so long ago that nobody
    wrote it down. `was_up` says that it is not ready and has been before. `problems` are fields
    that could not be read.
    """

    ready: bool
    reason: str
    deleting: bool
    suspended: bool
    since: float | None
    created: float | None
    problems: tuple[str, ...]
    was_up: bool = False

    def is_stable(self, now: float) -> bool:
        """Ready long enough to be taken for what nodes of its group are like."""
        settled = self.since is None or now - self.since > STABLE_AFTER
        return self.ready and settled and not self.deleting and not self.suspended

    def is_seasoned(self, now: float, timeout: float) -> bool:
        """Old enough that what it lacks is not merely late."""
        born = self.created if self.created is not None else self.since
        return born is None or now - born >= timeout

    def comes_of_age(self, timeout: float) -> Iterator[float]:
        """The moments at which it becomes stable, and seasoned, by the passing of time alone."""
        if self.since is not None:
            yield self.since + STABLE_AFTER
        born = self.created if self.created is not None else self.since
        if born is not None:
            yield born + timeout


class States:
    """The states of all nodes; of a node that is as it was, the state is not read again."""

    def __init__(self) -> None:
        self._policy: GroupPolicy | None = None
        self._known: dict[str, tuple[Node, NodeState]] = {}

    def of(self, nodes: Iterable[Node], policy: GroupPolicy) -> dict[str, NodeState]:
        """By name."""
        before = self._known if policy == self._policy else {}
        self._policy, self._known = policy, {}
        for node in nodes:
            name = node.metadata.name
            known = before.get(name)
            if known is None or known[0] is not node:
                known = (node, of(node, policy))
            self._known[name] = known
        return {name: state for name, (_, state) in self._known.items()}


def of(node: Node, policy: GroupPolicy) -> NodeState:
    """Read a node's state from its conditions, taints and timestamps."""
    problems: list[str] = []
    since: float | None = None
    down: float | None = None
    reason = ""
    found_ready = False
    suspended = False
    for condition in node.status.conditions:
        if condition.type not in _TELLING_CONDITIONS:
            if condition.type == "Suspended":
                suspended = condition.status == "True"
            continue
        at = _moment(node, f"condition {condition.type}", condition.last_transition_time, problems)
        if at is not None and (since is None or at > since):
            since = at
        if condition.type == "Ready":
            found_ready = True
            bad = condition.status in ("False", "Unknown")
        else:
            bad = condition.status == "True"
        if bad and not reason:
            reason, down = f"condition {condition.type} is {condition.status}", at
    if not reason and not found_ready and (node.status.conditions or policy.conditions_required):
        reason = "it has no condition Ready"
    deleting = node.metadata.deletion_timestamp is not None and not policy.as_upstream
    for taint in node.spec.taints:
        if taint.key == passing_taints.TO_BE_DELETED:
            deleting = True
        if not reason and (
            taint.key in _TELLING_TAINTS or passing_taints.is_startup(taint, policy)
        ):
            reason = f"taint {taint.key}"
    created = _moment(node, "creationTimestamp", node.metadata.creation_timestamp, problems)
    was_up = down is not None and created is not None and down > created + _REGISTERS_WITHIN
    return NodeState(
        not reason, reason, deleting, suspended, since, created, tuple(problems), was_up
    )


def _moment(node: Node, what: str, text: str | None, problems: list[str]) -> float | None:
    if not text:
        return None
    try:
        return timestamps.parse(text)
    except timestamps.TimestampError as error:
        problems.append(f"node {node.metadata.name}: {what}: {error}; taken as long ago")
        return None
