"""What pods need at any moment of a soak, and whether what the autoscaler did was right by it.

Each pod needs a node of its own, so that one node too many, a node taken from under a pod, and a
node given back too soon can all be told from what is right, interruptions or not.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from tonnage.clock import Clock

UNNEEDED_TIME = 30.0
"""Seconds that a node has to be without pods before it may go; what the autoscaler is told."""

_GRACE = 10.0
"""Seconds within which somebody who has not heard of a change yet is not wrong."""
_ROUNDING = 1.0


class ChurnReport(msgspec.Struct, kw_only=True):
    """What was done, how long it took, and what should not have been done."""

    pods: int = 0
    bought: int = 0
    removed: int = 0
    changes: int = 0
    """Of pods that have nothing to do with it."""
    latencies: list[float] = []
    """Seconds from a pod to the node that is bought for it, where no interruption was near."""
    wrong: list[str] = []


class Judge:
    """Told of everything by whoever plays; `report` is true at any moment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waiting: dict[str, float] = {}
        """Pods without a node, with the moment since which they are there."""
        self.running: dict[str, str] = {}
        """The node of each pod that is bound."""
        self.nodes: dict[str, float] = {}
        """When each node was first seen."""
        self._empty: dict[str, float] = {}
        """When the last pod of a node ended."""
        self._began = self._over = -math.inf
        self.report = ChurnReport()

    # What the pods do

    def needs(self, pod: str) -> None:
        self.report.pods += 1
        self.waiting[pod] = self._clock.monotonic()

    def bound(self, pod: str, node: str) -> None:
        self.waiting.pop(pod, None)
        self.running[pod] = node

    def ended(self, pod: str) -> None:
        self._empty[self.running.pop(pod)] = self._clock.monotonic()

    # What the autoscaler does

    def bought(self, node: str, *, leaving: int) -> None:
        """A node has come; `leaving` of all that are there are on their way out."""
        now = self._clock.monotonic()
        self.report.bought += 1
        self.nodes[node] = now
        free = len(self.nodes) - len(set(self.running.values())) - leaving
        # A node whose pod ended a moment ago was still taken for whoever decided.
        since = self._known_since(now)
        if free > len(self.waiting) + sum(moment > since for moment in self._empty.values()):
            self._wrong(f"{node} bought: {free} free, {len(self.waiting)} waiting")
        elif self.waiting:
            moments = sorted(self.waiting.values())
            # The oldest are served first; those before it have nodes that boot.
            began = moments[min(max(free - 1, 0), len(moments) - 1)]
            if began > self._over + _GRACE:
                self.report.latencies.append(now - began)

    def removed(self, node: str) -> None:
        now = self._clock.monotonic()
        self.report.removed += 1
        for pod in [pod for pod, place in self.running.items() if place == node]:
            self._wrong(f"{node} removed while {pod} ran on it")
            del self.running[pod]
        free_since = max(self.nodes.pop(node, -math.inf), self._empty.pop(node, -math.inf))
        # During an interruption, nobody here knows when a node came or its pod ended.
        hidden = self._began <= free_since <= self._over + _GRACE
        if now - free_since < UNNEEDED_TIME - _ROUNDING and not hidden:
            why = f"removed after {now - free_since:.1f} s without pods"
            self._wrong(f"{node} {why}, {UNNEEDED_TIME:.0f} s are wanted")

    # What happens to both

    def trouble(self) -> None:
        """Somebody does not answer this moment."""
        now = self._clock.monotonic()
        if now > self._over + _GRACE:
            self._began = now
        self._over = now

    @contextmanager
    def troubled(self) -> Iterator[None]:
        """Somebody does not answer, or takes his time, inside the block."""
        self.trouble()
        began = self._began
        self._over = math.inf
        try:
            yield
        finally:
            self._began, self._over = began, self._clock.monotonic()

    def _wrong(self, what: str) -> None:
        """Something should not have been done; with what is needed to look for its cause."""
        trouble = f", the last trouble began at {self._began:.0f} s" if self._began >= 0 else ""
        self.report.wrong.append(f"{self._clock.monotonic():.0f} s: {what}{trouble}")

    def _known_since(self, now: float) -> float:
        """Of what happened up to this moment, everybody has heard."""
        return (self._began if now <= self._over + _GRACE else now) - _GRACE
