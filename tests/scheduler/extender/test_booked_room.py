"""The extender lets pods through to what ProvisioningRequests have left of nodes."""

from typing import Any

import msgspec

from tests.scheduler.bookings import booked, taking, template
from tests.scheduler.extender.harness import Stage, a_claim, a_node, a_pod, extending
from tonnage.groups.provisioning_requests import BOOKED_FOR
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
RESPECTING: dict[str, Any] = {"provisioningRequests": True}
BOOKED = "node(s) have only room that ProvisioningRequests have booked (RoomBooked)"


async def request(stage: Stage, count: int, *, ago: float = 0.0, **shape: Any) -> None:
    made = booked(stage.clock, count, ago=ago)
    stage.server.put(TEMPLATES, msgspec.to_builtins(template(**shape)))
    stage.server.put(REQUESTS, msgspec.to_builtins(made))
    await stage.heard()


async def test_slots_that_are_booked_are_not_given_to_others(clock: VirtualClock) -> None:
    async with extending(
        clock, *a_node("a", 2), *a_node("b", 2), a_claim("pattern"), **RESPECTING
    ) as stage:
        await request(stage, 2, claims=["pattern"])
        *claims, web = a_pod("web")
        await stage.put(*claims)
        answer = await stage.filter(web, "a", "b")
        assert answer.nodes == ["b"]
        assert answer.unresolvable == {"a": BOOKED}


async def test_a_pod_that_takes_them_is_let_through(clock: VirtualClock) -> None:
    async with extending(clock, *a_node("a", 2), a_claim("pattern"), **RESPECTING) as stage:
        await request(stage, 2, claims=["pattern"])
        for name in ("job-0", "job-1"):
            *claims, pod = a_pod(name)
            await stage.put(*claims)
            assert (await stage.filter(taking(pod), "a")).nodes == ["a"]
        *claims, pod = a_pod("job-2")
        await stage.put(*claims)
        # Two have come for two slots; the third finds them reserved, and not booked.
        assert "SlotsReserved" in (await stage.filter(taking(pod), "a")).failed["a"]


async def test_pods_on_their_way_and_bookings_are_added_up(clock: VirtualClock) -> None:
    async with extending(clock, *a_node("a", 3), a_claim("pattern"), **RESPECTING) as stage:
        await request(stage, 2, claims=["pattern"])
        found = []
        for name in ("web-0", "web-1"):
            *claims, pod = a_pod(name)
            await stage.put(*claims)
            found.append((await stage.filter(pod, "a")).nodes)
        assert found == [["a"], []]


async def test_processors_are_left_too_by_pods_without_volumes(clock: VirtualClock) -> None:
    async with extending(
        clock, make.node("a", cpu="4"), make.node("b", cpu="4"), **RESPECTING
    ) as stage:
        await request(stage, 3, cpu="1")
        answer = await stage.filter(make.pod("large", cpu="2"), "a", "b")
        assert (answer.nodes, answer.unresolvable) == (["b"], {"a": BOOKED})
        assert (await stage.filter(make.pod("small-0", cpu="1"), "a")).nodes == ["a"]
        # The first may be on its way to the node, and nobody has seen it there.
        assert (await stage.filter(make.pod("small-1", cpu="1"), "a")).nodes == []
        assert (await stage.filter(taking(make.pod("job", cpu="1")), "a")).nodes == ["a"]


async def test_all_is_let_through_once_the_time_is_over(clock: VirtualClock) -> None:
    async with extending(clock, make.node("a", cpu="1"), **RESPECTING) as stage:
        await request(stage, 1, cpu="1", ago=BOOKED_FOR - 5)
        assert (await stage.filter(make.pod("web", cpu="1"), "a")).nodes == []
        await clock.sleep(6)
        assert (await stage.filter(make.pod("web", cpu="1"), "a")).nodes == ["a"]


async def test_requests_are_not_read_unless_asked_for(clock: VirtualClock) -> None:
    async with extending(clock, make.node("a", cpu="1")) as stage:
        await request(stage, 1, cpu="1")
        assert (await stage.filter(make.pod("web", cpu="1"), "a")).nodes == ["a"]
        assert not stage.server.asked("GET", "/apis/autoscaling.x-k8s.io/v1/provisioningrequests")
