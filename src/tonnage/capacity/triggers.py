"""Which news calls for a look: little of what happens in a cluster does.

Heartbeats of nodes and the free space that drivers report every minute are not among it; they are
taken in with the next look.
"""

from collections.abc import Callable, Hashable
from typing import Any

from tonnage.capacity import node_kinds
from tonnage.capacity.desired import Rules, is_ours, opted_in
from tonnage.cluster.cache import Cache
from tonnage.cluster.watch_events import Change, EventType
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSIStorageCapacity, StorageClass


def on_classes(cache: Cache[StorageClass], rules: Rules, wake: Callable[[], None]) -> None:
    """Opting in or out, and what is asked for."""

    def facts(one: StorageClass) -> Hashable:
        if not opted_in(one, rules.convention):
            return None
        return one.provisioner, one.metadata.annotations[rules.convention.annotation]

    _wake_on(cache, facts, wake)


def on_nodes(cache: Cache[Node], rules: Rules, wake: Callable[[], None]) -> None:
    """Nodes that come to a group or leave it, be it by a label."""

    def facts(one: Node) -> Hashable:
        labels = one.metadata.labels
        groups = node_kinds.keys_of(labels, rules.groupings)
        return (groups, TEMPLATE_NODE_LABEL in labels) if groups else None

    _wake_on(cache, facts, wake)


def on_objects(cache: Cache[CSIStorageCapacity], rules: Rules, wake: Callable[[], None]) -> None:
    """Whatever happens to an object of ours, or took its name."""

    def facts(one: CSIStorageCapacity) -> Hashable:
        return one.metadata.resource_version if is_ours(one, rules) else None

    _wake_on(cache, facts, wake)


def _wake_on(cache: Cache[Any], facts: Callable[[Any], Hashable], wake: Callable[[], None]) -> None:
    """Wake when the facts of an object are others than before; None is as if it were not there."""

    def take(change: Change[Any]) -> None:
        gone = change.type is EventType.DELETED
        before = facts(change.before) if change.before is not None else None
        if before != (None if gone else facts(change.object)):
            wake()

    cache.subscribe(take)
