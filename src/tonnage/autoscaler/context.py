"""What the parts of the autoscaler have in common: the cluster, the ways to change it, and time.

It is made once and handed to each of them, as upstream hands on its context of the same name.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tonnage import clock as clocks
from tonnage.autoscaler.actuator import Actuator, EventReason
from tonnage.autoscaler.metrics import AutoscalerMetrics
from tonnage.autoscaler.world import ClusterView
from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.records import InvolvedObject
from tonnage.service.workers import Worker


class AutoscalingContext(NamedTuple):
    """`now` is the wall clock that never jumps. `about` is what events are about that concern no
    object of their own. `write_down` saves what has to survive a restart."""

    world: ClusterView
    actuator: Actuator
    client: Client
    clock: Clock
    now: Callable[[], float]
    worker: Worker
    metrics: AutoscalerMetrics
    about: Callable[[], InvolvedObject]
    write_down: Callable[[], Awaitable[None]]

    def tell(self, reason: EventReason, message: str, *, warning: bool = False) -> None:
        """An event about the autoscaler itself."""
        self.actuator.tell(self.about(), reason, message, warning=warning)

    async def poll(self, done: Callable[[], bool], *, within: float, doing: str) -> bool:
        """Whether it came about `within` so many seconds; ended by who no longer leads."""
        return await clocks.poll(
            done, clock=self.clock, within=within, check=lambda: self.actuator.check(doing)
        )
