"""What happened in the cluster, in the words that rules name their cures by.

Each rule says what can cure its refusal, as "Kind.what". A change of an object comes to some of
these events, and wakes the pods that one of the rules concerned stands in the way of; where it
is cheap to see that a change cannot help a pod, the pod sleeps on.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.storage import (
    MIGRATED_PLUGINS_ANNOTATION,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tonnage.rules import registry
from tonnage.rules.features import Features
from tonnage.rules.framework import EventKind
from tonnage.snapshot.snapshot import PodRecord, Snapshot
from tonnage.snapshot.storage import limit_of

_EVENTS = frozenset(EventKind)


class ClusterEvent(NamedTuple):
    """An event, and the object it happened to: a pod as the snapshot held it."""

    event: EventKind
    subject: object


@lru_cache(maxsize=256)
def cured(event: EventKind, features: Features) -> tuple[str, ...]:
    """The rules whose refusals the event can cure."""
    # A node nobody has looked at yet may suit whoever no other did.
    everybody = event is EventKind.NODE_ADDED
    rules = registry.rules(features)
    return tuple(rule.name for rule in rules if everybody or event in rule.cures)


def happenings(old: object | None, new: object | None) -> Iterator[ClusterEvent]:
    """What a change of an object comes to; it was not there before, or is not any more: `None`."""
    subject = new if new is not None else old
    for what in _told(old, new):
        name = f"{type(subject).__name__}.{what}"
        if name in _EVENTS:
            yield ClusterEvent(EventKind(name), subject)


def _told(old: object | None, new: object | None) -> Iterator[str]:
    match old, new:
        case CSIDriver() | CSINode(), None:
            # With a driver goes what it asked for, with a node's drivers go their limits.
            yield "update"
        case _, None:
            yield "delete"
        case None, CSIDriver():
            yield "update"
        case None, _:
            yield "add"
        case Node(), Node():
            yield from _node_told(old, new)
        case CSINode(), CSINode():
            if _more_slots(old, new) or _plugins(old) != _plugins(new):
                yield "update"
        case CSIStorageCapacity(), CSIStorageCapacity():
            if (limit_of(new) or 0) > (limit_of(old) or 0):
                yield "update"
        case StorageClass(), StorageClass():
            if old.allowed_topologies != new.allowed_topologies:
                yield "update"
        case Namespace(), Namespace():
            if old.metadata.labels != new.metadata.labels:
                yield "label"
        case VolumeAttachment(), _:
            pass
        case _:
            yield "update"


def _node_told(old: Node, new: Node) -> Iterator[str]:
    if old.metadata.labels != new.metadata.labels:
        yield "label"
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        yield "taint"
    if old.status.allocatable != new.status.allocatable:
        yield "allocatable"
    if old.status.declared_features != new.status.declared_features:
        yield "declaredFeatures"


def _more_slots(old: CSINode, new: CSINode) -> bool:
    """Whether a driver is new, has more slots, or has no limit any more.

    Upstream takes a driver without a limit for one without slots, and misses its coming.
    """
    before = {driver.name: driver.limit for driver in old.spec.drivers}
    for driver in new.spec.drivers:
        if driver.name not in before:
            return True
        was, now = before[driver.name], driver.limit
        if was is not None and (now is None or now > was):
            return True
    # A driver that goes takes its limit with it, which lets in who has not opted in to wait.
    return not {driver.name for driver in new.spec.drivers} >= before.keys()


def _plugins(csinode: CSINode) -> str | None:
    return csinode.metadata.annotations.get(MIGRATED_PLUGINS_ANNOTATION)


def worth_another_try(
    happening: ClusterEvent, by: str, waiting: PodRecord, snapshot: Snapshot, features: Features
) -> bool:
    """Whether what happened can help this pod, whom the rule `by` refused."""
    event, subject = happening
    if isinstance(subject, PersistentVolumeClaim):
        claims = {volume.claim for volume in waiting.volumes}
        meta = subject.metadata
        return meta.namespace == waiting.meta.namespace and meta.name in claims
    rule = registry.by_name(features).get(by)
    return rule is None or rule.helps(event, subject, waiting, snapshot)
