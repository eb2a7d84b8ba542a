"""Which changes matter: what templates and readiness come from, and what need not wait for a scan.

Every node gives a sign of life now and then, and its object changes with it; in a large cluster
there is never a second without. Whoever looked at all nodes again for that would always be looking.
"""

from collections.abc import Callable
from typing import Any

from tonnage.cluster.watch_events import Change, EventType
from tonnage.groups import daemons
from tonnage.objects import attach_errors
from tonnage.objects.conditions import is_ready
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSINode, VolumeAttachment


class ChangeFilter:
    """`revision` moves with every change that templates or readiness may come out different for.

    `daemon_revision` moves when pods that come with their nodes have changed where they are: that
    can wait for a while. `wake` is called when a node comes, turns Ready or has one more driver
    registered. `refusals` are the attachments that machines refuse for lack of room, each with the
    time of its error.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.revision = 0
        self.daemon_revision = 0
        self._wake = wake
        self.refusals: dict[str, str | None] = {}

    def node(self, change: Change[Node]) -> None:
        node, before = change.object, change.before
        if change.type is EventType.DELETED:
            self.revision += 1
        elif before is None or not _same(before, node):
            self.revision += 1
            if before is None or (is_ready(node) and not is_ready(before)):
                self._wake()

    def csinode(self, change: Change[CSINode]) -> None:
        csinode, before = change.object, change.before
        if change.type is EventType.DELETED:
            self.revision += 1
        elif before is None or _told(before) != _told(csinode):
            self.revision += 1
            if _registered(csinode) - (_registered(before) if before is not None else set()):
                self._wake()

    def pod(self, change: Change[Pod]) -> None:
        """Pods that come with their node are part of what its next one would be."""
        pod, before = change.object, change.before
        node = "" if change.type is EventType.DELETED else pod.spec.node_name
        stood = before.spec.node_name if before is not None else ""
        if (node or stood) and (daemons.is_daemon(pod.metadata) or daemons.is_mirror(pod)):
            if node != stood:
                self.revision += 1
            else:
                self.daemon_revision += 1

    def attachment(self, change: Change[VolumeAttachment]) -> None:
        """A machine that refuses a volume tells how many the next one will take."""
        name, error = change.object.metadata.name, change.object.status.attach_error
        if change.type is EventType.DELETED or not attach_errors.without_room(change.object):
            self.refusals.pop(name, None)
        elif error is not None and self.refusals.get(name, "") != error.time:
            self.refusals[name] = error.time
            self.revision += 1

    def other(self, _: Change[Any]) -> None:
        """Of kinds that change rarely, or always in ways that matter."""
        self.revision += 1


def _same(one: Node, other: Node) -> bool:
    """Whether two versions differ at most in signs of life."""
    return (
        one.spec == other.spec
        and one.metadata.labels == other.metadata.labels
        and one.metadata.annotations == other.metadata.annotations
        and one.metadata.deletion_timestamp == other.metadata.deletion_timestamp
        and one.status.capacity == other.status.capacity
        and one.status.allocatable == other.status.allocatable
        and one.status.declared_features == other.status.declared_features
        and _conditions(one) == _conditions(other)
    )


def _conditions(node: Node) -> list[tuple[str, str, str | None]]:
    return [
        (condition.type, condition.status, condition.last_transition_time)
        for condition in node.status.conditions
    ]


def _told(csinode: CSINode) -> tuple[object, ...]:
    return csinode.spec, csinode.metadata.annotations


def _registered(csinode: CSINode) -> set[str]:
    return {driver.name for driver in csinode.spec.drivers}
