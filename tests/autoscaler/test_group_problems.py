"""What is wrong with the declaration of a group is told where operators look."""

from tests.autoscaler.harness import Cloud, autoscaling, events, group, settled, started, status
from tests.cluster.apiserver import ApiServer, until
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
