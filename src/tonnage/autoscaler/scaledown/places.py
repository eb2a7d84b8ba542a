"""Places of evicted pods, held for those that come in their stead.

From when a removal begins nothing else is planned into the places of its pods: each counts as
taken, while the old pod is still there, while it ends, and until the new one comes. The new pod is
nominated for the node that the plan has for it: schedulers try that node first and keep others off
its place, and no node is bought for a pod that is only moving.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.scaledown.coming_pods import ComingPod
from tonnage.autoscaler.scaledown.removals import NodeRemoval
from tonnage.cluster import errors
from tonnage.cluster.watch_events import Change, EventType
from tonnage.errors import ClusterError
from tonnage.objects.pods import Pod
from tonnage.service import moving_pods
from tonnage.snapshot.reservations import Reservation

HELD = 900.0
"""Seconds that a place is kept for a pod that has yet to come: the one before may take its time."""

COMES_WITHIN = 120.0
"""Of these, the most once the one before is gone: a controller that wants another makes it soon."""

NOMINATED = 120.0
"""Seconds after which a pod that could not get its place is free to be helped otherwise."""

_ATTEMPTS = 3

_log = logging.getLogger(__name__)


class _Place(NamedTuple):
    node: str
    evicted: str
    name: str
    """Of the pod that will come, if it is known."""
    until: float
    pod: Pod
    """The evicted one: the next will take as much."""


class HeldPlaces:
    """`nominated` has when each pod that has no node yet was given its place."""

    def __init__(self, context: AutoscalingContext) -> None:
        self._context = context
        self._world = context.world
        self._clock = context.clock
        self._now = context.now
        self._held: dict[tuple[str, str], list[_Place]] = {}
        """By namespace and controller."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.nominated: dict[str, float] = {}
        self.problem = ""
        """Why pods are not nominated, if so."""
        self._world.cache(Pod).subscribe(self._take)

    def hold(self, pod: Pod, node: str) -> None:
        """The pod is about to be evicted, and its successor is to go to the node."""
        controller = pod.metadata.controller
        if controller is None:
            return
        name = pod.metadata.name if controller.kind == "StatefulSet" else ""
        held = self._held.setdefault((pod.metadata.namespace, controller.uid), [])
        if all(place.evicted != pod.metadata.uid for place in held):
            until = self._clock.monotonic() + HELD
            held.append(_Place(node, pod.metadata.uid, name, until, pod))

    def taken(self, removals: Iterable[NodeRemoval]) -> Iterator[Reservation]:
        """The places of pods that are to move with these removals, and of those that were evicted.

        A pod that takes none any more, because its successor has come, is not among them.
        """
        return (one.reservation(self._world.snapshot) for one in self.coming(removals))

    def coming(self, removals: Iterable[NodeRemoval]) -> Iterator[ComingPod]:
        """The pods that these places are for."""
        now, leaving = self._now(), set()
        for removal in removals:
            for key, node in removal.moves.items():
                pod = self._world.pod(key)
                if pod is not None and pod.spec.node_name == removal.node:
                    leaving.add(pod.metadata.uid)
                    yield ComingPod(moving_pods.successor(pod), node, now)
        for places in self._held.values():
            for place in places:
                if place.evicted not in leaving:
                    yield ComingPod(moving_pods.successor(place.pod), place.node, now)

    def restore(self, nominated: Mapping[str, float]) -> None:
        self.nominated = dict(nominated)

    async def expire(self) -> None:
        """Once a round: let go what nobody has come for, or nobody could be put into."""
        moment, now = self._clock.monotonic(), self._now()
        for key, places in list(self._held.items()):
            renewed = map(self._shortened, places)
            self._held[key] = [place for place in renewed if place.until > moment]
            if not self._held[key]:
                del self._held[key]
        for name, since in list(self.nominated.items()):
            pod = self._world.pod(name)
            waits = _waits(pod)
            if pod is not None and waits and now - since > NOMINATED:
                waits = not await self._patch(pod, None)
            if not waits:
                self.nominated.pop(name, None)

    def _shortened(self, place: _Place) -> _Place:
        pod = self._world.pod(place.pod.metadata.key)
        if pod is not None and pod.metadata.uid == place.evicted:
            return place
        return place._replace(until=min(place.until, self._clock.monotonic() + COMES_WITHIN))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, change: Change[Pod]) -> None:
        """A pod that has come may be one that a place is held for."""
        pod = change.object
        if not self._held or change.type is not EventType.ADDED or pod.spec.node_name:
            return
        controller = pod.metadata.controller
        key = (pod.metadata.namespace, controller.uid if controller is not None else "")
        places = self._held.get(key, [])
        place = next((one for one in places if one.name in ("", pod.metadata.name)), None)
        if place is None or place.evicted == pod.metadata.uid:
            return
        places.remove(place)
        if self._world.node(place.node) is not None:
            task = asyncio.ensure_future(self._nominate(pod, place.node))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _nominate(self, pod: Pod, node: str) -> None:
        self.nominated[pod.metadata.key] = self._now()
        try:
            # Who comes after us has to know whose nominations these are.
            await self._context.write_down()
            await self._patch(pod, node)
        except ClusterError as error:
            _log.info("pod not nominated", extra={"pod": pod.metadata.key, "why": str(error)})

    async def _patch(self, pod: Pod, node: str | None) -> bool:
        """Nominate the pod, as long as it has no node; false if it has to be tried again."""
        for _ in range(_ATTEMPTS):
            meta = pod.metadata
            change = {
                "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
                "status": {"nominatedNodeName": node},
            }
            try:
                self._context.actuator.check(f"nominating pod {pod.metadata.key}")
                await self._context.client.patch(
                    Pod, meta.name, change, namespace=meta.namespace, subresource="status"
                )
            except errors.Conflict:
                pod = await self._context.client.get(Pod, meta.name, namespace=meta.namespace)
                if pod.metadata.uid != meta.uid or pod.spec.node_name:
                    return True
                continue
            except errors.NotFound:
                return True
            except errors.Forbidden as error:
                self.problem = f"places of evicted pods are not held: {error.right}"
                return True
            except ClusterError as error:
                _log.info("pod not nominated", extra={"pod": pod.metadata.key, "why": str(error)})
                return False
            self.problem = ""
            return True
        return False


def _waits(pod: Pod | None) -> bool:
    """Whether the pod is nominated and has no node yet."""
    return pod is not None and not pod.spec.node_name and bool(pod.status.nominated_node_name)
