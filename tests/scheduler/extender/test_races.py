"""Schedulers that race: whatever they choose and however long their bindings take, limits hold and
everybody gets a place."""

import asyncio
import random
from collections import Counter

import pytest

from tests.scheduler.extender.harness import Stage, a_node, a_pod, extending
from tonnage.objects.pods import Pod
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

LIMITS = {f"n{number}": 1 + number % 4 for number in range(10)}
PODS = sum(LIMITS.values())
"""As many as there are slots: the last ones have to find the last."""


class Scheduler:
    """One pod at a time, a random one of the nodes it is given, binding in the background."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        self._stage = stage
        self._rng = rng
        self._binding: list[asyncio.Task[None]] = []
        self.refusals = 0

    async def schedule(self, pods: list[Pod]) -> None:
        waiting = list(pods)
        while waiting:
            pod = waiting.pop(0)
            answer = await self._stage.filter(pod, *LIMITS)
            if answer.nodes:
                node = self._rng.choice(answer.nodes)
                self._binding.append(asyncio.ensure_future(self._bind(pod, node)))
            else:
                self.refusals += 1
                waiting.append(pod)
                await self._stage.clock.sleep(0.1)
        await asyncio.gather(*self._binding)

    async def _bind(self, pod: Pod, node: str) -> None:
        await self._stage.clock.sleep(self._rng.choice((0.01, 0.05, 0.3, 3.0)))
        name = pod.metadata.name
        await self._stage.put(make.pod(name, pvcs=[name], on=node))


@pytest.mark.parametrize("seed", range(2))
async def test_no_node_goes_over_its_limit_and_no_pod_is_stuck(
    clock: VirtualClock, seed: int
) -> None:
    rng = random.Random(seed)
    made = [a_pod(f"db-{number}") for number in range(PODS)]
    nodes = [one for name, limit in LIMITS.items() for one in a_node(name, limit)]
    async with extending(clock, *nodes, *(claim for claim, _ in made)) as stage:
        pods = [pod for _, pod in made]
        schedulers = [Scheduler(stage, rng) for _ in range(3)]
        await asyncio.gather(
            *(one.schedule(pods[number::3]) for number, one in enumerate(schedulers))
        )
        snapshot = stage.program.standing.snapshot
        placed = Counter(record.node_name for record in snapshot.pods.values())
    assert placed == LIMITS
