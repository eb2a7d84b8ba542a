"""`tonnage` on a machine whose clock is wrong, with a provider that takes its time.

    python -m benchmarks.soak_faults FILE run ...

The file says how much of both there is this moment, so that it can be changed while the program
runs. All of the product asks `SystemClock` for the time, and nothing here is known to it.
"""

import asyncio
import functools
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from tonnage.cli import main
from tonnage.clock import SystemClock
from tonnage.providers.kwok import KwokProvider

_LOOK = 0.1
"""Seconds between two looks at the file."""


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds."""

    clock: float = 0.0
    """By which the wall clock is ahead."""
    provider: float = 0.0
    """For which the provider thinks before it does something, and again before it says so."""


NONE = Faults()


def write(path: Path, faults: Faults) -> None:
    """In one go: the program may be reading."""
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(faults))
    new.replace(path)


class _FaultFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked = -_LOOK
        self._found = NONE

    def current(self) -> Faults:
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            self._found = msgspec.json.decode(self._path.read_bytes(), type=Faults)
        return self._found


def _install(file: _FaultFile) -> None:
    right = SystemClock.now

    def now(clock: SystemClock) -> datetime:
        return right(clock) + timedelta(seconds=file.current().clock)

    def slow(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(call)
        async def called(*arguments: Any) -> Any:
            await asyncio.sleep(file.current().provider)
            answer = await call(*arguments)
            await asyncio.sleep(file.current().provider)
            return answer

        return called

    setattr(SystemClock, "now", now)  # noqa: B010 - a method is not to be assigned to
    for name in ("refresh", "increase", "delete", "decrease_target"):
        setattr(KwokProvider, name, slow(getattr(KwokProvider, name)))


if __name__ == "__main__":
    _install(_FaultFile(Path(sys.argv[1])))
    sys.argv[:2] = ["tonnage"]
    main()
