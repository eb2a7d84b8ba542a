"""What is wrong with a group is told where operators look, and costs no other group anything."""

import math

import msgspec
import pytest

from tests.autoscaler.harness import (
    Cloud,
    autoscaling,
    events,
    group,
    metric,
    put_pod,
    settled,
    started,
    status,
)
from tests.cluster.apiserver import ApiServer, until
from tonnage.errors import ProviderError
from tonnage.objects.scenarios import GroupTemplate
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

PROBLEM = "group bad: spec.minSize 5 is above spec.maxSize 1"


async def test_a_problem_of_a_group_is_a_line_of_the_status(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group("bad", least=5, most=1))
        async with autoscaling(server, cloud, clock) as program:
            await settled(program, clock)
            assert any(PROBLEM in one for one in status(server)["tonnage"]["problems"])


async def test_a_problem_of_a_group_is_an_event_once(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group("bad", least=5, most=1))
        async with autoscaling(server, cloud, clock) as program:
            await settled(program, clock)
            await until(lambda: bool(events(server, "NodeGroupProblem")), clock=clock)
            await clock.sleep(60)
            (event,) = events(server, "NodeGroupProblem")
    assert PROBLEM in event["message"]
    assert (event["type"], event["count"]) == ("Warning", 1)


class Odd(Cloud):
    """Two groups, of which nobody can say what a node of `bad` would be, for a reason."""

    def __init__(self, server: ApiServer, why: Exception | GroupTemplate) -> None:
        bad = group("bad")
        nothing = msgspec.structs.replace(bad.spec, template=None)
        super().__init__(server, msgspec.structs.replace(bad, spec=nothing), group("good"))
        self._why = why

    async def template(self, group: str) -> GroupTemplate | None:
        if group != "bad":
            return await super().template(group)
        if isinstance(self._why, Exception):
            raise self._why
        return self._why


def template(*, cpu: str = "4", count: int = 10) -> GroupTemplate:
    return GroupTemplate(
        node=builders.node("t", cpu=cpu), csi_node=builders.csinode("t", {"d": count})
    )


NO_TEMPLATE = ProviderError("AWS: there is no launch template lt-1")
WRONG = {
    "a launch template that is gone": (NO_TEMPLATE, f"group bad: {NO_TEMPLATE}"),
    "an answer nobody thought of": (KeyError("VCpuInfo"), "group bad: KeyError: 'VCpuInfo'"),
    "a quantity that is none": (
        template(cpu="four"),
        "group bad: its template: node.status.capacity.cpu: expected a quantity such as",
    ),
    "less than no slots": (
        template(count=-1),
        "group bad: its template: csiNode.spec.drivers[0].allocatable.count: expected a whole",
    ),
}


@pytest.mark.parametrize(("why", "problem"), WRONG.values(), ids=WRONG)
async def test_a_group_of_which_nobody_can_say_what_a_node_is_leaves_the_others_alone(
    clock: VirtualClock, why: Exception | GroupTemplate, problem: str
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Odd(server, why)
        async with autoscaling(server, cloud, clock) as program:
            put_pod(server, "p")
            await until(lambda: bool(cloud.asked), clock=clock)
            assert cloud.asked == [("increase", "good", 1)]
            await until(lambda: bool(events(server, "NodeGroupProblem")), clock=clock)
            (event,) = events(server, "NodeGroupProblem")
            assert event["message"].startswith(problem)
            assert event["message"] in status(server)["tonnage"]["problems"]
            assert metric(program, "tonnage_node_group_problems") == 1


async def test_what_passes_by_itself_is_a_line_of_the_status_and_no_event(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Odd(server, ProviderError("throttled", cause="transient"))
        async with autoscaling(server, cloud, clock) as program:
            await clock.sleep(30)
            assert "group bad: throttled" in status(server)["tonnage"]["problems"]
            assert events(server, "NodeGroupProblem") == []
            assert metric(program, "tonnage_node_group_problems") == 0


class Pricing(Cloud):
    """A provider that has its own idea of what `bad` costs; of `good` it says 1."""

    def __init__(self, server: ApiServer, price: float) -> None:
        super().__init__(server, group("bad"), group("good"))
        self._price = price

    async def price(self, group: str) -> float | None:
        return self._price if group == "bad" else 1.0


@pytest.mark.parametrize("price", [0.0, -1.0, math.nan, math.inf])
async def test_a_price_of_a_provider_that_is_none_is_told_and_the_loop_goes_on(
    clock: VirtualClock, price: float
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Pricing(server, price)
        async with autoscaling(server, cloud, clock, expander="price") as program:
            put_pod(server, "p")
            await settled(program, clock)
            await until(lambda: bool(events(server, "NodeGroupProblem")), clock=clock)
            (problem,) = status(server)["tonnage"]["problems"]
            assert problem.startswith("group bad: price per hour: expected a price of an hour")
            assert metric(program, "tonnage_node_group_problems") == 1
            await until(lambda: bool(cloud.asked), clock=clock)
    assert cloud.asked == [("increase", "good", 1)]
