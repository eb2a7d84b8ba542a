"""Watches how long room takes: volumes to leave a node, and nodes to come up once asked for.

A volume is released when the last pod that used it on its node is gone; the time counts from there,
or from the mark on its VolumeAttachment if that was seen first.
"""

from collections.abc import Callable, Mapping

import msgspec

from tonnage.autoscaler.world import ClusterView
from tonnage.cluster.watch_events import Change, EventType
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.readiness import READY, Readiness
from tonnage.groups.registry import ScaleRequest
from tonnage.objects import timestamps, volumes
from tonnage.objects.nodes import Node
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import PersistentVolumeClaim, VolumeAttachment

_CLOCKS_APART = 5.0
"""Seconds by which a node may seem older than the request it came from."""


class RoomObserver:
    """`released` has exactly the attachments that are there and whose last pod was seen to go."""

    def __init__(self, world: ClusterView, *, now: Callable[[], float]) -> None:
        self._claims = world.cache(PersistentVolumeClaim)
        self._nodes = world.cache(Node)
        self._now = now
        self._attached: dict[tuple[str, str], str] = {}
        """By volume and node, the name of the attachment."""
        self._marked: dict[str, float] = {}
        self.released: dict[str, float] = {}
        self._detached: list[tuple[str, float]] = []
        self._started: dict[str, set[str]] = {}
        """Nodes that have come up since they were asked for, by group."""
        world.cache(Pod).subscribe(self._pod)
        world.cache(VolumeAttachment).subscribe(self._attachment)

    def renewed(self, memory: TemplateMemory) -> TemplateMemory:
        """The memory with what was seen since the last time."""
        if not self._detached:
            return memory
        times = memory.times
        for driver, seconds in self._detached:
            times = times.with_detach(driver, seconds)
        self._detached = []
        return msgspec.structs.replace(memory, times=times)

    def with_starts(
        self,
        memory: TemplateMemory,
        readiness: Readiness,
        requests: Mapping[str, ScaleRequest],
        *,
        now: float,
    ) -> TemplateMemory:
        """The memory with the times of nodes that have come up since the last look."""
        asked = {name: one.at for name, one in requests.items() if not one.found}
        self._started = {name: self._started.get(name, set()) for name in asked}
        if not asked:
            return memory
        times = memory.times
        for name, node in readiness.nodes.items():
            at = asked.get(node.group or "")
            if at is None or node.group is None or node.state != READY:
                continue
            seen = self._started[node.group]
            if name not in seen and self._is_new(name, at):
                times = times.with_start(node.group, now - at)
            seen.add(name)
        return memory if times is memory.times else msgspec.structs.replace(memory, times=times)

    def _is_new(self, name: str, at: float) -> bool:
        node = self._nodes.get(name)
        created = timestamps.moment(node.metadata.creation_timestamp) if node is not None else None
        return created is not None and created >= at - _CLOCKS_APART

    def _pod(self, change: Change[Pod]) -> None:
        pod = change.object
        if not pod.spec.volumes or not pod.spec.node_name:
            return
        gone = change.type is EventType.DELETED or pod.status.phase in FINISHED
        if not gone and change.before is not None and change.before.spec.node_name:
            return
        for volume in volumes.of_pod(pod):
            claim = self._claims.get(volume.claim, namespace=pod.metadata.namespace)
            if claim is None or not claim.spec.volume_name:
                continue
            name = self._attached.get((claim.spec.volume_name, pod.spec.node_name))
            if name is None:
                continue
            if gone:
                self.released.setdefault(name, self._now())
            else:
                self.released.pop(name, None)

    def _attachment(self, change: Change[VolumeAttachment]) -> None:
        attachment = change.object
        name, spec = attachment.metadata.name, attachment.spec
        key = (spec.source.persistent_volume_name or "", spec.node_name)
        if change.type is not EventType.DELETED:
            self._attached[key] = name
            if attachment.metadata.deletion_timestamp is not None:
                self._marked.setdefault(name, self._now())
            return
        if self._attached.get(key) == name:
            del self._attached[key]
        marked = self._marked.pop(name, None)
        since = self.released.pop(name, marked)
        if since is not None:
            self._detached.append((spec.attacher, self._now() - since))
