"""Where a decision is made: here, while all else waits, or in a thread beside it.

In virtual time it is made here, so that the same seed does the same. A live program makes it in a
thread: leases are renewed, watches read and health told meanwhile.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Worker(Protocol):
    """Does work that does not wait for anything, and gives what comes of it."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


async def here(work: Callable[[], T], /) -> T:
    """Do it at once."""
    return work()


async def in_thread(work: Callable[[], T], /) -> T:
    """Do it in a thread; whoever is cancelled meanwhile waits for its end all the same.

    A thread cannot be cancelled, and as long as it has the snapshot nobody else may.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait((working,))
