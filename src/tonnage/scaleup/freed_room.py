"""Room that is being freed: pods that are ending and volumes that are being detached, with a time.

Only what does not come back counts. A pod of a DaemonSet or a StatefulSet makes room for its own
successor, unless its set has shrunk; that of a ReplicaSet or a Job has its successor already, which
waits like others do. What is overdue is stuck, and nobody waits for it.
"""

from collections.abc import Callable, Iterator

import msgspec

from tonnage.groups.inputs import Inputs
from tonnage.objects import timestamps
from tonnage.objects.storage import VolumeAttachment
from tonnage.objects.volumes import VolumeUse
from tonnage.objects.workloads import StatefulSet
from tonnage.snapshot.snapshot import PodRecord, Snapshot

_OVERDUE = 30.0
"""Seconds after its time at which something that should be gone is taken to be stuck."""

_HAS_SUCCESSOR = frozenset({"ReplicaSet", "ReplicationController", "Job"})
"""Controllers that replace a pod as soon as it begins to end."""

ALL_OF_START = 1.0
HALF_OF_START = 0.5


class Leaving(msgspec.Struct, frozen=True):
    """Something that takes room of a node, and is gone in so many seconds."""

    what: str
    node: str
    seconds: float
    pod: PodRecord | None = None
    attachments: tuple[VolumeAttachment, ...] = ()

    def leave(self, snapshot: Snapshot) -> None:
        """Take it out of the snapshot; meant for a trial."""
        if self.pod is not None:
            snapshot.drop_pod(self.pod.meta.namespace, self.pod.meta.name)
        for attachment in self.attachments:
            if attachment.metadata.name in snapshot.attachments:
                snapshot.apply("DELETED", attachment)


class FreedRoom(msgspec.Struct, frozen=True):
    """What is leaving, the soonest first, and how long a new node of each group takes.

    Who waits gives up to `share` of a new node's time for it.
    """

    leaving: tuple[Leaving, ...]
    start_time: Callable[[str], float]
    share: float
    now: float


def find(inputs: Inputs) -> FreedRoom | None:
    """The room that is being freed; nothing if nobody is to wait for it."""
    mode = inputs.options.wait_for_freed_room
    if inputs.options.as_upstream or mode == "never":
        return None
    careful = mode == "careful"
    times = inputs.memory.times
    found = sorted(
        (*_ending(inputs, careful=careful), *_detaching(inputs, careful=careful)),
        key=lambda one: (one.seconds, one.what),
    )
    if not found:
        return None
    return FreedRoom(
        tuple(found),
        lambda group: times.start_time(group, careful=careful),
        HALF_OF_START if careful else ALL_OF_START,
        inputs.now,
    )


def _ending(inputs: Inputs, *, careful: bool) -> Iterator[Leaving]:
    """Pods that are ending, with the volumes that only they use."""
    snapshot, now = inputs.cluster.snapshot, inputs.now
    attached: dict[tuple[str, VolumeUse], VolumeAttachment] | None = None
    for record in snapshot.ending_pods.values():
        if record.node_name not in snapshot.nodes:
            continue
        if _comes_back(record, inputs.cluster.stateful_set, careful=careful):
            continue
        deadline = timestamps.moment(record.meta.deletion_timestamp)
        if deadline is None or now > deadline + _OVERDUE:
            continue
        seconds = max(deadline - now, 0.0)
        own: list[VolumeAttachment] = []
        if record.volumes:
            attached = _by_use(snapshot) if attached is None else attached
            uses = [use for use in record.slots.uses if snapshot.slots.users(use)[record.row] == 1]
            own = [found for use in uses if (found := attached.get((record.node_name, use)))]
            seconds += max(
                (inputs.memory.times.detach_time(use.driver, careful=careful) for use in uses),
                default=0.0,
            )
        yield Leaving(f"pod {record.key}", record.node_name, seconds, record, tuple(own))


def _detaching(inputs: Inputs, *, careful: bool) -> Iterator[Leaving]:
    """Volumes that no pod of their node uses any more, and that are on their way off it."""
    snapshot, now = inputs.cluster.snapshot, inputs.now
    released = inputs.released
    names = snapshot.leaving_attachments | released.keys()
    # Nearly always all volumes stay attached.
    leaving = [one for name, one in snapshot.attachments.items() if name in names] if names else []
    for attachment in leaving:
        meta = attachment.metadata
        since = released.get(meta.name) or timestamps.moment(meta.deletion_timestamp)
        if since is None:
            continue
        node, use = (
            snapshot.nodes.get(attachment.spec.node_name),
            snapshot.storage.use_of(attachment),
        )
        if node is None or use is None or snapshot.slots.users(use).get(node.row):
            continue
        usual = inputs.memory.times.detach_time(attachment.spec.attacher, careful=careful)
        if now - since <= usual + _OVERDUE:
            seconds = max(usual - (now - since), 0.0)
            volume = attachment.spec.source.persistent_volume_name
            yield Leaving(f"volume {volume}", node.name, seconds, attachments=(attachment,))


def _comes_back(
    record: PodRecord, find_set: Callable[[str], StatefulSet | None], *, careful: bool
) -> bool:
    """Whether a successor will take the room that the pod leaves."""
    owner = record.meta.controller
    if owner is None or owner.kind in _HAS_SUCCESSOR:
        return False
    if owner.kind == "StatefulSet":
        found = find_set(f"{record.meta.namespace}/{owner.name}")
        ordinal = record.meta.name.rpartition("-")[2]
        if found is None or not ordinal.isdecimal():
            return True
        first = found.spec.ordinals.start if found.spec.ordinals is not None else 0
        wanted = 1 if found.spec.replicas is None else found.spec.replicas
        return first <= int(ordinal) < first + wanted
    return owner.kind == "DaemonSet" or careful


def _by_use(snapshot: Snapshot) -> dict[tuple[str, VolumeUse], VolumeAttachment]:
    return {
        (attachment.spec.node_name, use): attachment
        for attachment in snapshot.attachments.values()
        if (use := snapshot.storage.use_of(attachment)) is not None
    }
