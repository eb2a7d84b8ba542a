"""The external-attacher's part: attachments that someone asked for become true, and end.

No more of them than the node can have: the storage refuses those beyond its limit.
"""

from collections import defaultdict
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial

from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.objects.storage import VolumeAttachment
from tonnage.objects.timestamps import rfc3339

_RESOURCE_EXHAUSTED = 8
"""As gRPC counts its codes."""
_LONGEST_WAIT = 300.0
"""Seconds between attempts on a node that is full."""


class ExternalAttacher:
    """Attaches what is asked for and keeps it, by a finalizer, until it is detached."""

    def __init__(
        self,
        context: WorldContext,
        caches: WorldCaches,
        *,
        limit: Callable[[str, str], int | None],
    ) -> None:
        """`limit` says how many volumes a node can really have of a driver's."""
        self._client, self._clock, self._behaviour, self._chance, self._chores = context
        self._limit = limit
        self._taken: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        """Attachments that have a slot, by node and driver."""
        caches.attachments.subscribe(self._changed)

    def _changed(self, change: Change[VolumeAttachment]) -> None:
        attachment, uid = change.object, change.object.metadata.uid
        patterns = self._behaviour.storage_drivers
        if not any(fnmatchcase(attachment.spec.attacher, pattern) for pattern in patterns):
            return
        taken = self._taken[attachment.spec.node_name, attachment.spec.attacher]
        if attachment.status.attached:
            taken.add(attachment.metadata.name)
        if change.type is EventType.DELETED:
            taken.discard(attachment.metadata.name)
            self._chores.stop(("attach", uid))
            self._chores.stop(("detach", uid))
        elif attachment.metadata.deletion_timestamp is not None:
            self._chores.stop(("attach", uid))
            if _finalizer(attachment) in attachment.metadata.finalizers:
                self._chores.start(("detach", uid), partial(self._detach, attachment))
        elif not attachment.status.attached:
            self._chores.start(("attach", uid), partial(self._attach, attachment))

    async def _attach(self, attachment: VolumeAttachment) -> None:
        name = attachment.metadata.name
        held = {"metadata": {"finalizers": sorted({*_others(attachment), _finalizer(attachment)})}}
        await self._client.patch(VolumeAttachment, name, held)
        attempt, told = 0, ""
        while True:
            attempt += 1
            about = ("attach", name, attempt)
            await self._clock.sleep(self._chance.seconds(self._behaviour.attach, *about))
            error = self._refusal(attachment)
            if not error and self._chance.befalls(
                self._behaviour.attach_failure_chance, "failure", *about
            ):
                error = {"message": "simulated"}
            if not error:
                break
            if error["message"] != told:
                told = str(error["message"])
                error["time"] = rfc3339(self._clock.now())
                await self._report({"attachError": error}, name)
            if "errorCode" in error:
                await self._clock.sleep(min(2.0 ** (attempt - 1), _LONGEST_WAIT))
        self._taken[attachment.spec.node_name, attachment.spec.attacher].add(name)
        await self._report({"attached": True, "attachError": None}, name)

    def _refusal(self, attachment: VolumeAttachment) -> dict[str, object]:
        node, driver = attachment.spec.node_name, attachment.spec.attacher
        limit, taken = self._limit(node, driver), len(self._taken[node, driver])
        if limit is None or taken < limit:
            return {}
        message = (
            f"rpc error: code = ResourceExhausted desc = node {node} has {taken} volumes of"
            f" {driver} attached and can have {limit}"
        )
        return {"message": message, "errorCode": _RESOURCE_EXHAUSTED}

    async def _detach(self, attachment: VolumeAttachment) -> None:
        name = attachment.metadata.name
        await self._clock.sleep(self._chance.seconds(self._behaviour.detach, "detach", name))
        newest = await self._client.get(VolumeAttachment, name)
        if newest.metadata.uid != attachment.metadata.uid:
            return
        released = {
            "metadata": {
                "resourceVersion": newest.metadata.resource_version,
                "finalizers": list(_others(newest)),
            }
        }
        await self._client.patch(VolumeAttachment, name, released)

    async def _report(self, status: dict[str, object], name: str) -> None:
        # `attached` has to be there, whatever else is reported.
        told = {"status": {"attached": False, **status}}
        await self._client.patch(VolumeAttachment, name, told, subresource="status")


def _finalizer(attachment: VolumeAttachment) -> str:
    return f"external-attacher/{attachment.spec.attacher.replace('.', '-')}"


def _others(attachment: VolumeAttachment) -> tuple[str, ...]:
    own = _finalizer(attachment)
    return tuple(finalizer for finalizer in attachment.metadata.finalizers if finalizer != own)
