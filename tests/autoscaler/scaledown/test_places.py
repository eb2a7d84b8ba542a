"""Places of evicted pods are held for those that come in their stead."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from tonnage.autoscaler.scaledown.places import COMES_WITHIN, HELD, NOMINATED, HeldPlaces
from tonnage.autoscaler.scaledown.removals import NodeRemoval
from tonnage.clock import virtual
from tonnage.clock.virtual import VirtualClock
from tonnage.cluster.cache import Cache
from tonnage.cluster.resources import of
from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects.meta import OwnerReference
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make


class Stage:
    """A cluster of two nodes, and what is written about nominations."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._caches: dict[type, Cache[Any]] = {
            kind: Cache(of(cast(Any, kind)), clock=clock, stale_after=60.0) for kind in (Pod, Node)
        }
        for name in ("old", "new"):
            self._caches[Node].apply(Change(EventType.ADDED, make.node(name)))
        self.said: list[tuple[str, str | None]] = []
        world = SimpleNamespace(
            cache=self._caches.__getitem__,
            node=self._caches[Node].get,
            pod=self._pod,
            snapshot=Snapshot.of([]),
        )
        context = SimpleNamespace(
            world=world,
            actuator=SimpleNamespace(check=lambda _: None),
            client=SimpleNamespace(patch=self._patch),
            clock=clock,
            now=clock.monotonic,
            write_down=lambda: asyncio.sleep(0),
        )
        self.places = HeldPlaces(cast(Any, context))

    def comes(self, name: str, *, kind: str = "ReplicaSet", uid: str = "rs", **more: Any) -> Pod:
        owner = OwnerReference(kind=kind, name=uid, uid=uid, controller=True)
        pod = make.pod(name, owner=owner, **more)
        self._caches[Pod].apply(Change(EventType.ADDED, pod))
        return pod

    def goes(self, pod: Pod) -> None:
        self._caches[Pod].apply(Change(EventType.DELETED, pod))

    def taken(self, *removals: NodeRemoval) -> list[tuple[str, str]]:
        """Places that count as taken, by the pod to come and the node."""
        return [(entry.holder, entry.node) for entry in self.places.taken(removals)]

    def is_nominated(self, pod: Pod, node: str) -> None:
        """The server tells of what was written."""
        status = msgspec.structs.replace(pod.status, nominated_node_name=node)
        meta = msgspec.structs.replace(pod.metadata, resource_version="2")
        told = msgspec.structs.replace(pod, metadata=meta, status=status)
        self._caches[Pod].apply(Change(EventType.MODIFIED, told))

    def _pod(self, key: str) -> Pod | None:
        namespace, _, name = key.partition("/")
        found: Pod | None = self._caches[Pod].get(name, namespace=namespace)
        return found

    async def _patch(self, _: type, name: str, change: Any, **where: str) -> None:
        assert where == {"namespace": "default", "subresource": "status"}
        self.said.append((name, change["status"]["nominatedNodeName"]))


def played(act: Any) -> Stage:
    clock = VirtualClock()

    async def main() -> Stage:
        stage = Stage(clock)
        await act(stage)
        await clock.sleep(0.1)
        return stage

    return virtual.run(main, clock=clock)


def test_the_next_pod_of_the_controller_is_nominated() -> None:
    async def act(stage: Stage) -> None:
        stage.places.hold(stage.comes("web-1", on="old"), "new")
        stage.comes("web-2")

    assert played(act).said == [("web-2", "new")]


def test_only_as_many_as_were_evicted_are() -> None:
    async def act(stage: Stage) -> None:
        stage.places.hold(stage.comes("web-1", on="old"), "new")
        stage.comes("web-2")
        stage.comes("web-3")

    assert played(act).said == [("web-2", "new")]


def test_a_replica_of_a_set_is_known_by_its_name() -> None:
    async def act(stage: Stage) -> None:
        stage.places.hold(stage.comes("db-1", kind="StatefulSet", on="old"), "new")
        stage.comes("db-2", kind="StatefulSet")

    assert played(act).said == []


def test_pods_of_others_are_left_alone() -> None:
    async def act(stage: Stage) -> None:
        stage.places.hold(stage.comes("web-1", on="old"), "new")
        stage.comes("other", uid="another")

    assert played(act).said == []


def test_a_place_is_not_held_for_ever() -> None:
    async def act(stage: Stage) -> None:
        stage.places.hold(stage.comes("web-1", on="old"), "new")
        await stage.clock.sleep(HELD + 1)
        await stage.places.expire()
        stage.comes("web-2")

    assert played(act).said == []


def test_a_pod_that_cannot_have_its_place_is_let_go() -> None:
    async def act(stage: Stage) -> None:
        stage.places.hold(stage.comes("web-1", on="old"), "new")
        pod = stage.comes("web-2")
        await stage.clock.sleep(1)
        stage.is_nominated(pod, "new")
        await stage.clock.sleep(NOMINATED + 1)
        await stage.places.expire()

    assert played(act).said == [("web-2", "new"), ("web-2", None)]


REMOVAL = NodeRemoval(
    node="old",
    uid="u",
    group="g",
    reason="underutilized",
    drain=True,
    since=0.0,
    started=0.0,
    at=0.0,
    moves={"default/web-1": "new"},
)


def test_a_place_is_taken_while_the_pod_is_still_where_it_was() -> None:
    async def act(stage: Stage) -> None:
        stage.comes("web-1", on="old")
        assert stage.taken(REMOVAL) == [("default/web-1:next", "new")]

    played(act)


def test_a_place_is_taken_between_the_end_of_a_pod_and_the_next_one() -> None:
    async def act(stage: Stage) -> None:
        pod = stage.comes("web-1", on="old")
        stage.places.hold(pod, "new")
        assert len(stage.taken(REMOVAL)) == 1
        stage.goes(pod)
        assert stage.taken(REMOVAL) == [("default/web-1:next", "new")]
        stage.comes("web-2")
        assert stage.taken(REMOVAL) == []

    played(act)


def test_a_place_that_nobody_comes_for_is_free_soon_after_the_pod_is_gone() -> None:
    async def act(stage: Stage) -> None:
        pod = stage.comes("web-1", on="old")
        stage.places.hold(pod, "new")
        await stage.clock.sleep(COMES_WITHIN + 1)
        await stage.places.expire()
        assert stage.taken()
        stage.goes(pod)
        await stage.places.expire()
        await stage.clock.sleep(COMES_WITHIN + 1)
        await stage.places.expire()
        assert stage.taken() == []

    played(act)
