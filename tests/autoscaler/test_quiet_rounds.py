"""Rounds in which nothing can be found that the last one has not found."""

import pytest

from tests.autoscaler.harness import Cloud, autoscaling, group, put_node, put_pod, started, status
from tests.cluster.apiserver import ApiServer, until
from tonnage.autoscaler.assessor import Assessor
from tonnage.scaleup.assessment import Assessment
from tonnage.testing.clock import VirtualClock


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the whole cluster was looked at."""
    seen: list[float] = []
    look = Assessor.look

    def noted(self: Assessor, *args: object, **others: object) -> Assessment:
        seen.append(others["now"])  # type: ignore[arg-type]
        return look(self, *args, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(Assessor, "look", noted)
    return seen


async def test_nothing_is_looked_at_again_while_nothing_changes(
    clock: VirtualClock, looks: list[float]
) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "n")
        async with autoscaling(server, Cloud(server, group()), clock):
            await clock.sleep(100)
            before, told = len(looks), status(server)["time"]
            await clock.sleep(300)
            assert 4 <= len(looks) - before <= 6
            assert status(server)["time"] > told


async def test_a_node_that_comes_ends_the_quiet(clock: VirtualClock, looks: list[float]) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "n")
        async with autoscaling(server, Cloud(server, group()), clock):
            await clock.sleep(100)
            before = len(looks)
            put_node(server, clock, "m")
            await clock.sleep(2)
            assert len(looks) == before + 1


async def test_pods_that_wait_end_the_quiet(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, clock, "n")
        cloud = Cloud(server, group())
        async with autoscaling(server, cloud, clock):
            await clock.sleep(300)
            put_pod(server, "one", cpu="3")
            put_pod(server, "another", cpu="3")
            await until(lambda: cloud.asked == [("increase", "g", 1)], clock=clock, within=1)
