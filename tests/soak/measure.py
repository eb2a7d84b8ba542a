"""What a component has more of after many days of churn than after a few."""

import gc
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from tests.growth import grown, sizes
from tonnage.testing.clock import VirtualClock

DAYS = int(os.environ.get("TONNAGE_SOAK_DAYS", "30"))
SETTLED = 7200.0
"""Seconds after which nothing of what is gone is waited for, learned from or reported any more."""

BOUNDED = ("RowTable._log", "VirtualClock._timers", "_Recent._entries")
"""Tables with a limit of their own."""


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def resident() -> int:
    """Bytes of memory."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * 4096 if pages.exists() else 0


async def left_behind(
    components: Sequence[Any],
    day: Callable[[int], Awaitable[None]],
    clock: VirtualClock,
    *,
    settled: float = SETTLED,
) -> dict[str, tuple[int, int]]:
    """Tables, descriptors and memory that have grown, with the figures before and after."""

    async def after(days: range) -> Any:
        for number in days:
            await day(number)
        await clock.sleep(settled)
        for one in components:
            standing = getattr(one, "world", None) or getattr(one, "standing", None)
            if standing is not None:
                standing.snapshot.tidy()
        gc.collect()
        return sizes(list(components)), descriptors(), resident()

    before, opened, used = await after(range(DAYS // 3))
    tables, still_open, still_used = await after(range(DAYS // 3, DAYS))
    found = grown(before, tables, by=3)
    found = {way: counts for way, counts in found.items() if not way.endswith(BOUNDED)}
    if still_open > opened + 2:
        found["descriptors"] = (opened, still_open)
    if still_used > used * 1.2 + (8 << 20):
        found["resident bytes"] = (used, still_used)
    return found
