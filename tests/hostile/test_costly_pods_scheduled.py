"""`tonnage scheduler` and pods with very many rules: one of them in a turn, after all others."""

from collections.abc import Iterator

import pytest

from tests.scheduler.harness import a_pod, scheduling
from tonnage.objects.pods import Toleration
from tonnage.scheduler import placer
from tonnage.scheduler.placer import PlacedPod, Placer, RefusedPod
from tonnage.snapshot.snapshot import PodRecord
from tonnage.testing.clock import VirtualClock

MANY = [Toleration(key=f"example.com/{n}", operator="Exists") for n in range(1_100)]


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The pods of every turn, in the order they were decided on."""
    found: list[list[str]] = []
    decide = Placer.decide

    def noted(self: Placer, records: list[PodRecord]) -> Iterator[PlacedPod | RefusedPod]:
        found.append([record.meta.name for record in records])
        return decide(self, records)

    monkeypatch.setattr(placer.Placer, "decide", noted)
    return found


async def test_they_are_decided_on_one_in_a_turn_after_all_others(
    clock: VirtualClock, turns: list[list[str]]
) -> None:
    async with scheduling(clock) as cluster:
        costly = [a_pod(f"costly-{n}", tolerations=MANY) for n in range(3)]
        await cluster.add(*costly, a_pod("a"), a_pod("b"))
        await cluster.node("n1")
        await cluster.bound("a", "b", "costly-0", "costly-1", "costly-2")
    last = [turn for turn in turns if turn][-3:]
    assert [sum(name.startswith("costly") for name in turn) for turn in last] == [1, 1, 1]
    assert all(not name.startswith("costly") for turn in turns for name in turn[:-1])


async def test_nobody_is_preempted_for_them(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="1")
        await cluster.pod("low", cpu="1", priority=0)
        await cluster.bound("low")
        await cluster.pod("high", cpu="1", priority=10, tolerations=MANY)
        assert "preemption" not in await cluster.refused("high")
        assert await cluster.where("low") == "n1"
