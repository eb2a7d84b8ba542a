"""Things to be done for one object each, over and over until they work."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import NamedTuple

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.backoff import Backoff
from tonnage.cluster.client import Client
from tonnage.embedded.world.behaviour import SeededChance, WorldBehaviour
from tonnage.errors import ClusterError

Work = Callable[[], Awaitable[None]]

_log = logging.getLogger(__name__)


class KeyedTasks:
    """At most one task per key; one that an API server fails is tried again, later each time.

    An object that is not there any more ends the chore: that is no failure.
    """

    def __init__(self, *, clock: Clock, chance: SeededChance) -> None:
        self._clock = clock
        self._chance = chance
        self._running: dict[Hashable, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Chores run in this task group and end with it; before the first `start`."""
        self._tasks = tasks

    def start(self, key: Hashable, work: Work) -> None:
        """Begin, unless the same is being done already."""
        running = self._running.get(key)
        # One that has just ended is forgotten a moment later, and is no reason not to begin.
        if running is not None and not running.done():
            return
        task = self._tasks.create_task(self._carry_out(key, work))
        self._running[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))

    def stop(self, key: Hashable) -> None:
        """Leave it as it is, if it is being done."""
        task = self._running.pop(key, None)
        if task is not None:
            task.cancel()

    async def insist(self, work: Work, *about: object) -> None:
        """One step of a chore, until the server agrees, so that the steps before stay done."""
        backoff: Backoff | None = None
        while True:
            try:
                return await work()
            except errors.NotFound:
                raise
            except ClusterError as error:
                if backoff is None:
                    backoff = Backoff(self._chance.dice("retry", *about), first=0.1, most=10.0)
                wait = backoff.next()
                _log.info("chore failed", extra={"chore": str(about), "error": str(error)})
            await self._clock.sleep(wait)

    async def _carry_out(self, key: Hashable, work: Work) -> None:
        with suppress(errors.NotFound):
            await self.insist(work, key)

    def _forget(self, key: Hashable, done: asyncio.Task[None]) -> None:
        if self._running.get(key) is done:
            del self._running[key]


class WorldContext(NamedTuple):
    """What every part of the world is given."""

    client: Client
    clock: Clock
    behaviour: WorldBehaviour
    chance: SeededChance
    chores: KeyedTasks
