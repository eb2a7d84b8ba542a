"""The extender leaves pods that scale-down moves their places, and sends them there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.scheduler.extender.harness import Stage, a_claim, a_node, a_pod, extending
from tests.scheduler.extender.test_booked_room import request
from tests.scheduler.moving import LASTS, OWNER, REPLICAS, SET, drained, note_of
from tonnage.objects.pods import Pod
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

KEPT = "node(s) have only room that is kept for pods that are moving (PlaceKept)"
ELSEWHERE = "another node is kept for the pod, which is moving (PlaceElsewhere)"


def replica(uid: str = "old", **more: Any) -> Pod:
    return make.pod("db-0", uid=uid, owner=SET, pvcs=["db-0"], **more)


@asynccontextmanager
async def moving(
    clock: VirtualClock, *, there: bool = True, slots: int = 1, **note: Any
) -> AsyncIterator[Stage]:
    """A replica moves from its node to `a`, which has a slot for it; `b` has as many."""
    old = replica(on="from")
    node = drained("from", note_of(clock, {"a": old}, **note))
    async with extending(
        clock,
        OWNER,
        node,
        *a_node("a", slots),
        *a_node("b", slots),
        a_claim("db-0"),
        *[old] * there,
    ) as stage:
        yield stage


async def asked(stage: Stage, name: str = "other", **more: Any) -> list[str]:
    *claims, pod = a_pod(name, **more)
    await stage.put(*claims)
    return (await stage.filter(pod, "a", "b")).nodes


async def test_a_slot_is_held_from_before_the_eviction_until_the_next_pod_is_there(
    clock: VirtualClock,
) -> None:
    async with moving(clock) as stage:
        *claims, other = a_pod("other")
        await stage.put(*claims)
        for old in (replica(on="from"), replica(on="from", deleting=True), None):
            await (stage.put(old) if old is not None else stage.delete(replica()))
            answer = await stage.filter(other, "a")
            assert (answer.nodes, answer.unresolvable) == ([], {"a": KEPT})
        answer = await stage.filter(replica("new"), "a", "b")
        assert (answer.nodes, answer.unresolvable) == (["a"], {"b": ELSEWHERE})


async def test_all_else_that_the_pod_takes_is_held_too(clock: VirtualClock) -> None:
    old = make.pod("web-1", owner=REPLICAS, on="from", cpu="3")
    nodes = (make.node("a", cpu="4"), make.node("b", cpu="4"))
    async with extending(clock, drained("from", note_of(clock, {"a": old})), old, *nodes) as stage:
        assert (await stage.filter(make.pod("large", cpu="2"), "a", "b")).nodes == ["b"]
        assert (await stage.filter(make.pod("small", cpu="1"), "a", "b")).nodes == ["a", "b"]


async def test_pods_of_a_set_of_replicas_are_sent_to_the_place_of_one_that_leaves(
    clock: VirtualClock,
) -> None:
    old = make.pod("web-1", owner=REPLICAS, on="from", cpu="3")
    nodes = (make.node("a", cpu="4"), make.node("b", cpu="4"))
    async with extending(clock, drained("from", note_of(clock, {"a": old})), old, *nodes) as stage:
        early = make.pod("web-2", owner=REPLICAS, cpu="3")
        assert (await stage.filter(early, "a", "b")).nodes == ["b"]
        await stage.put(make.pod("web-1", owner=REPLICAS, on="from", cpu="3", deleting=True))
        late = make.pod("web-3", owner=REPLICAS, cpu="3")
        assert (await stage.filter(late, "a", "b")).nodes == ["a"]


async def test_where_its_place_is_not_to_be_had_any_other_will_do(clock: VirtualClock) -> None:
    async with moving(clock) as stage:
        await stage.put(replica(on="from", deleting=True))
        await stage.delete(replica())
        assert (await stage.filter(replica("new"), "b")).nodes == ["b"]


async def test_a_more_important_pod_may_have_the_place(clock: VirtualClock) -> None:
    async with moving(clock) as stage:
        assert await asked(stage, priority=1) == ["a", "b"]


async def test_a_drain_that_is_called_off_frees_the_place(clock: VirtualClock) -> None:
    async with moving(clock) as stage:
        await stage.put(make.node("from"))
        assert await asked(stage) == ["a", "b"]


async def test_the_place_is_held_when_the_node_goes_before_the_next_pod_comes(
    clock: VirtualClock,
) -> None:
    async with moving(clock) as stage:
        await stage.delete(replica())
        await stage.delete(make.node("from"))
        assert await asked(stage) == ["b"]


async def test_who_starts_after_the_pod_is_gone_holds_its_place_too(clock: VirtualClock) -> None:
    async with moving(clock, there=False) as stage:
        assert await asked(stage) == ["b"]


async def test_who_starts_after_the_next_pod_has_come_knows_where_it_goes(
    clock: VirtualClock,
) -> None:
    new = replica("new")
    born = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    meta = msgspec.structs.replace(new.metadata, creation_timestamp=born)
    new = msgspec.structs.replace(new, metadata=meta)
    node = drained("from", note_of(clock, {"a": replica(on="from")}))
    nodes = (node, *a_node("a", 1), *a_node("b", 1))
    async with extending(clock, OWNER, *nodes, a_claim("db-0"), new) as stage:
        assert (await stage.filter(new, "a", "b")).nodes == ["a"]
        assert await asked(stage) == ["b"]


@pytest.mark.parametrize(
    ("there", "seconds"),
    [
        pytest.param(True, LASTS, id="the time of the note"),
        pytest.param(False, 120.0, id="two minutes after the pod"),
    ],
)
async def test_a_place_is_not_held_for_ever(
    clock: VirtualClock, there: bool, seconds: float
) -> None:
    async with moving(clock, there=there) as stage:
        await clock.sleep(seconds - 5)
        assert await asked(stage, "early") == ["b"]
        await clock.sleep(6)
        assert await asked(stage, "late") == ["a"]


async def test_a_place_that_nobody_comes_for_is_booked_before_others_get_it(
    clock: VirtualClock,
) -> None:
    note = note_of(clock, {"a": replica(on="from")}, lasts=30.0)
    nodes = (drained("from", note), *a_node("a", 1))
    objects = (OWNER, *nodes, a_claim("db-0"), a_claim("pattern"), replica(on="from"))
    async with extending(clock, *objects, provisioningRequests=True) as stage:
        await request(stage, 1, claims=["pattern"])
        *claims, other = a_pod("other")
        await stage.put(*claims)
        assert (await stage.filter(other, "a")).unresolvable == {"a": KEPT}
        await clock.sleep(31)
        assert "RoomBooked" in (await stage.filter(other, "a")).unresolvable["a"]


@pytest.mark.parametrize("note", ["", "{", "[]", '{"since": 0, "until": 9e9, "pods": [{}]}'])
async def test_a_note_that_cannot_be_read_changes_nothing(clock: VirtualClock, note: str) -> None:
    async with extending(clock, drained("from", note), *a_node("a", 1)) as stage:
        assert await asked(stage) == ["a"]
