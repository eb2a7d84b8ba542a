"""Deletions of a group are gathered into one call, and none waits for ever."""

import asyncio
from collections.abc import Sequence

import pytest

from tonnage.autoscaler.scaledown.deletion_batch import DeletionBatches
from tonnage.autoscaler.scaledown.removals import NodeRemoval, RemovalCancelled, RemovalFailed
from tonnage.clock import virtual
from tonnage.clock.virtual import VirtualClock


class Stage:
    """Calls to the provider, with their moment; nodes in `needed` are to stay."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.calls: list[tuple[float, list[str]]] = []
        self.needed: set[str] = set()
        self.failure: Exception | None = None
        self.batches = DeletionBatches(clock, check=self._check, delete=self._delete)

    def deletion(
        self, node: str, group: str = "g", *, interval: float = 10.0
    ) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.batches.delete([removal(node, group)], interval=interval))

    def _check(self, one: NodeRemoval) -> None:
        if one.node in self.needed:
            raise RemovalCancelled(f"{one.node} is needed")

    async def _delete(self, removals: Sequence[NodeRemoval]) -> None:
        self.calls.append((self.clock.monotonic(), [one.node for one in removals]))
        if self.failure is not None:
            raise self.failure


def removal(node: str, group: str) -> NodeRemoval:
    return NodeRemoval(
        node=node, uid=node, group=group, reason="empty", drain=False, since=0, started=0, at=0
    )


def played(act: object) -> Stage:
    clock = VirtualClock()

    async def main() -> Stage:
        stage = Stage(clock)
        await act(stage)  # type: ignore[operator]
        return stage

    return virtual.run(main, clock=clock)


def test_who_comes_within_the_interval_goes_along() -> None:
    async def act(stage: Stage) -> None:
        first = stage.deletion("a")
        await stage.clock.sleep(4)
        second, other = stage.deletion("b"), stage.deletion("c", "another")
        await asyncio.gather(first, second, other)
        await stage.deletion("d")

    calls = played(act).calls
    began = calls[0][0] - 10
    assert [(round(at - began), nodes) for at, nodes in calls] == [
        (10, ["a", "b"]), (14, ["c"]), (24, ["d"]),
    ]  # fmt: skip


def test_without_an_interval_nobody_waits() -> None:
    async def act(stage: Stage) -> None:
        began = stage.clock.monotonic()
        await asyncio.gather(stage.deletion("a", interval=0), stage.deletion("b", interval=0))
        assert stage.clock.monotonic() == began

    assert [nodes for _, nodes in played(act).calls] == [["a"], ["b"]]


def test_a_node_that_is_needed_by_then_stays_and_the_others_go() -> None:
    async def act(stage: Stage) -> None:
        first, second = stage.deletion("a"), stage.deletion("b")
        stage.needed = {"a"}
        with pytest.raises(RemovalCancelled):
            await first
        await second

    assert [nodes for _, nodes in played(act).calls] == [["b"]]


def test_a_call_that_fails_fails_for_all() -> None:
    async def act(stage: Stage) -> None:
        stage.failure = RemovalFailed("no")
        first, second = stage.deletion("a"), stage.deletion("b")
        for one in (first, second):
            with pytest.raises(RemovalFailed):
                await one

    assert len(played(act).calls) == 1


def test_whoever_is_stopped_asks_for_nothing() -> None:
    async def act(stage: Stage) -> None:
        first = stage.deletion("a")
        await stage.clock.sleep(1)
        first.cancel()
        await stage.batches.stop()
        await stage.clock.sleep(20)

    assert played(act).calls == []
