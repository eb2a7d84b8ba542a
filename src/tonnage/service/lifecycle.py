"""How a shell runs: beside its helpers, and until a signal comes."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

_log = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def until_signalled(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do the work; a signal cancels it, and what it cleans up is waited for."""
    loop = asyncio.get_running_loop()
    working = asyncio.ensure_future(work())
    told = False

    def stop(number: signal.Signals) -> None:
        nonlocal told
        told = True
        _log.info("stopping", extra={"signal": number.name})
        working.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        await working
    except asyncio.CancelledError:
        if not told:
            raise
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


@asynccontextmanager
async def beside(*helpers: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run helpers for as long as the block lasts; one that fails ends the block with its error."""
    tasks = [asyncio.ensure_future(helper) for helper in helpers]
    main = asyncio.current_task()
    assert main is not None
    failed: list[BaseException] = []

    def ended(task: "asyncio.Future[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not failed:
            failed.append(error)
            main.cancel()

    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if failed:
            main.uncancel()
            raise failed[0] from None
        raise
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task
