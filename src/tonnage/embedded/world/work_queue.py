"""Objects that a controller has to look at, each by one look at a time."""

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from tonnage.embedded.world.keyed_tasks import WorldContext

K = TypeVar("K", bound=Hashable)

_GATHER = 0.1
"""Seconds from the first change to the look, which sees what else has changed by then."""


class WorkQueue(Generic[K]):
    """Whatever is noted is looked at once more after that; a look that fails is repeated."""

    def __init__(
        self, name: str, look: Callable[[K], Awaitable[None]], context: WorldContext
    ) -> None:
        self._name = name
        self._look = look
        self._context = context
        self._noted: set[K] = set()

    def note(self, key: K) -> None:
        self._noted.add(key)
        self._context.chores.start((self._name, key), partial(self._work, key))

    async def _work(self, key: K) -> None:
        while key in self._noted:
            await self._context.clock.sleep(_GATHER)
            self._noted.discard(key)
            try:
                await self._look(key)
            except BaseException:
                self._noted.add(key)
                raise
