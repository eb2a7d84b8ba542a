"""What the autoscaler asks of its cloud, noted as it happens, and why as soon as that is told."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tonnage.autoscaler.report import Deed, RoundReport
from tonnage.embedded.cloud import SimulatedCloud
from tonnage.errors import ProviderError
from tonnage.report.timeline import Decided


class RecordedCloud(SimulatedCloud):
    """A cloud that notes what is asked of it in `asked`.

    The reasons are the autoscaler's: its report of a round has them, and the next round begins by
    asking the cloud for news, which is when the report is looked at.
    """

    def __init__(self, *parts: Any, now: Callable[[], float]) -> None:
        super().__init__(*parts)
        self._now = now
        self.asked: list[Decided] = []
        self.report: Callable[[], RoundReport | None] = lambda: None
        self.before_increase: Callable[[str, int], None] | None = None
        self.before_delete: Callable[[str, Sequence[str]], None] | None = None
        self._told: RoundReport | None = None

    async def refresh(self) -> None:
        self.take_reasons()
        await super().refresh()

    async def increase(self, group: str, delta: int) -> None:
        if self.before_increase is not None:
            self.before_increase(group, delta)
        await self._noted("increase", group, delta, super().increase(group, delta))

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        if self.before_delete is not None:
            self.before_delete(group, nodes)
        await self._noted("delete", group, len(nodes), super().delete(group, nodes))

    async def decrease_target(self, group: str, delta: int) -> None:
        await self._noted("decreaseTarget", group, delta, super().decrease_target(group, delta))

    def take_reasons(self) -> None:
        """Complete what was noted by what the last round says of it."""
        report = self.report()
        if report is None or report is self._told:
            return
        self._told = report
        pods: Counter[str] = Counter()
        for bought in report.plan.scale_ups if report.plan is not None else ():
            pods[bought.group] += sum(len(node.pods) for node in bought.nodes)
        for done in reversed(report.done):
            position = self._unexplained(done.deed, done.group, done.nodes)
            if position is not None:
                self.asked[position] = msgspec.structs.replace(
                    self.asked[position],
                    reason=done.reason,
                    pods=pods[done.group] if done.deed == "increase" else 0,
                )

    def _unexplained(self, deed: str, group: str, nodes: int) -> int | None:
        for position in range(len(self.asked) - 1, -1, -1):
            one = self.asked[position]
            if (one.deed, one.group, one.nodes, one.reason) == (deed, group, nodes, ""):
                return position
        return None

    async def _noted(self, deed: Deed, group: str, nodes: int, request: Any) -> None:
        error = ""
        try:
            await request
        except ProviderError as refused:
            error = str(refused)
            raise
        finally:
            at = round(self._now(), 3)
            self.asked.append(Decided(at=at, deed=deed, group=group, nodes=nodes, error=error))
