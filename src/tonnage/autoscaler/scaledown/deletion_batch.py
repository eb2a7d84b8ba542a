"""Deletions of a group gathered into one call: whoever comes within the interval goes along."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tonnage.autoscaler.scaledown.removals import NodeRemoval
from tonnage.clock import Clock


class _Joined(NamedTuple):
    removals: Sequence[NodeRemoval]
    deleted: "asyncio.Future[None]"


class DeletionBatches:
    """A batch of a group is open from its first node on, for the interval; then all are asked for.

    `check` raises where a node had better stay by then; the others go without it.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        check: Callable[[NodeRemoval], object],
        delete: Callable[[Sequence[NodeRemoval]], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._check = check
        self._delete = delete
        self._open: dict[str, list[_Joined]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def delete(self, removals: Sequence[NodeRemoval], *, interval: float) -> None:
        """Delete the nodes, which are of one group, with all that join within the interval."""
        if interval <= 0:
            await self._delete(removals)
            return
        group = removals[0].group
        joined = _Joined(removals, asyncio.get_running_loop().create_future())
        if group in self._open:
            self._open[group].append(joined)
        else:
            self._open[group] = [joined]
            task = asyncio.ensure_future(self._send(group, interval))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await joined.deleted

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._open.clear()

    async def _send(self, group: str, interval: float) -> None:
        await self._clock.sleep(interval)
        going = [one for one in self._open.pop(group) if self._may_go(one)]
        if not going:
            return
        try:
            await self._delete([removal for one in going for removal in one.removals])
        except Exception as error:
            for one in going:
                one.deleted.set_exception(error)
        else:
            for one in going:
                one.deleted.set_result(None)

    def _may_go(self, joined: _Joined) -> bool:
        if joined.deleted.done():
            return False
        try:
            for removal in joined.removals:
                self._check(removal)
        except Exception as error:
            joined.deleted.set_exception(error)
            return False
        return True
