"""What happened in the cluster, in the words that filters name their cures by.

Each filter says what can cure its refusal, as "Kind.what". A change of an object comes to some of
these events, and wakes the pods that one of the filters concerned stands in the way of; where it
is cheap to see that a change cannot help a pod, the pod sleeps on.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tonnage.objects import volumes
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
from tonnage.rules.pipeline import FILTERS
from tonnage.snapshot.counting import selects
from tonnage.snapshot.snapshot import PodRecord, Snapshot
from tonnage.snapshot.storage import limit_of

NODE_ADDED = "Node.add"
POD_ADDED, POD_DELETED = "Pod.add", "Pod.delete"
MORE_STORAGE = "CSIStorageCapacity.update"

_ALL = tuple(one.name for one in FILTERS)
_WANTING_VOLUMES = frozenset(("NodeVolumeLimits", "VolumeRestrictions"))


class Happening(NamedTuple):
    """An event, and the object it happened to: a pod as the snapshot held it."""

    event: str
    subject: object

    @property
    def cured(self) -> tuple[str, ...]:
        """The filters whose refusals it can cure."""
        # A node nobody has looked at yet may suit whoever no other did.
        return _ALL if self.event == NODE_ADDED else _CURED_BY.get(self.event, ())


def _cured_by() -> dict[str, tuple[str, ...]]:
    events = dict.fromkeys(event for one in FILTERS for event in one.cures)
    return {event: tuple(one.name for one in FILTERS if event in one.cures) for event in events}


_CURED_BY = _cured_by()


def happenings(old: object | None, new: object | None) -> Iterator[Happening]:
    """What a change of an object comes to; it was not there before, or is not any more: `None`."""
    subject = new if new is not None else old
    for what in _told(old, new):
        yield Happening(f"{type(subject).__name__}.{what}", subject)


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
    happening: Happening, by: str, waiting: PodRecord, snapshot: Snapshot
) -> bool:
    """Whether what happened can help this pod, whom the filter `by` refused."""
    match happening.subject:
        case PersistentVolumeClaim(metadata=meta):
            claims = {volume.claim for volume in waiting.volumes}
            return meta.namespace == waiting.meta.namespace and meta.name in claims
        case PodRecord() as other:
            return _pod_helps(happening.event, by, waiting, other)
        case CSIDriver(metadata=meta) if by == "NodeVolumeLimits":
            return meta.name in _drivers_of(waiting, snapshot)
    return True


def _pod_helps(event: str, by: str, waiting: PodRecord, other: PodRecord) -> bool:
    if event == POD_DELETED:
        if by in _WANTING_VOLUMES:
            return bool(other.volumes)
        return bool(other.pod_class.ports) if by == "NodePorts" else True
    pod_class = waiting.pod_class
    if event == POD_ADDED and by == "PodTopologySpread":
        wanted = [one.label_selector for one in pod_class.spread]
    elif event == POD_ADDED and by == "InterPodAffinity":
        wanted = [one.label_selector for one in pod_class.affinity]
    else:
        return True
    return any(selects(one, other.meta.labels) for one in wanted)


def _drivers_of(waiting: PodRecord, snapshot: Snapshot) -> frozenset[str]:
    found = volumes.slots(waiting.meta, waiting.volumes, snapshot.storage, placed=False)
    return frozenset(use.driver for use in (*found.uses, *found.migrated))
