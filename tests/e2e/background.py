"""An event loop in a thread of its own: what goes on while a test waits or calls kubectl."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Background:
    """Coroutines run here from `start` on; none of them runs after `cancel` or the block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="background")
        self._started: list[concurrent.futures.Future[Any]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.cancel()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        self._started.append(asyncio.run_coroutine_threadsafe(work, self._loop))

    def run(self, work: Coroutine[Any, Any, T], *, within: float = 180.0) -> T:
        """Wait for what it gives; an error of anything that was started is raised here too."""
        for one in self._started:
            if one.done():
                one.result()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(within)

    def call(self, look: Callable[[], T]) -> T:
        """Look at something that changes there, while it stands still."""

        async def looking() -> T:
            return look()

        return self.run(looking())

    def cancel(self) -> None:
        """End all that was started."""
        self._started.clear()
        self.run(_cancel_others())


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
