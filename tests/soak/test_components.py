"""Weeks of churn in virtual time: no table and no descriptor of a component is left behind.

`make soak` plays more of it, and looks at resident memory too.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.autoscaler import harness as autoscaler
from tests.capacity import harness as capacity
from tests.capacity import making
from tests.cluster.apiserver import ApiServer
from tests.growth import grown, sizes
from tonnage.objects.pods import PodAffinityTerm
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

DAYS = int(os.environ.get("TONNAGE_SOAK_DAYS", "15"))
SETTLED = 7200.0
"""Seconds after which nothing of what is gone is waited for, learned from or reported any more."""

BOUNDED = ("RowTable._log", "VirtualClock._timers")
"""Tables with a limit of their own."""


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def resident() -> int:
    """Bytes of memory."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * 4096 if pages.exists() else 0


async def left_behind(
    component: Any, day: Callable[[int], Awaitable[None]], clock: VirtualClock
) -> dict[str, tuple[int, int]]:
    """What a component has more of after many days than after a few."""

    async def after(days: range) -> Any:
        for number in days:
            await day(number)
        await clock.sleep(SETTLED)
        standing = getattr(component, "world", None) or getattr(component, "standing", None)
        if standing is not None:
            standing.snapshot.tidy()
        return sizes(component), descriptors(), resident()

    before, opened, used = await after(range(DAYS // 3))
    tables, still_open, still_used = await after(range(DAYS // 3, DAYS))
    found = grown(before, tables, by=3)
    found = {way: counts for way, counts in found.items() if not way.endswith(BOUNDED)}
    if still_open > opened + 2:
        found["descriptors"] = (opened, still_open)
    if still_used > used * 1.2 + (8 << 20):
        found["resident bytes"] = (used, still_used)
    return found


async def test_run(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        autoscaler.started(server)
        cloud = autoscaler.Cloud(server)

        async def day(number: int) -> None:
            pod, claim, node = f"p{number}", f"c{number}", f"node-{number}"
            labels = {"build": str(number)}
            term = PodAffinityTerm(
                topology_key=make.HOSTNAME, label_selector=make.selecting(labels)
            )
            autoscaler.put_pod(server, pod, cpu="3", claims=[claim], labels=labels, apart=[term])
            autoscaler.put_node(server, clock, node, labels={f"rack-{number}": "yes"})
            await clock.sleep(20)
            server.remove(f"{autoscaler.PODS}/{pod}")
            server.remove(f"{autoscaler.CLAIMS}/{claim}")
            server.remove(f"{autoscaler.NODES}/{node}")
            server.remove(f"{autoscaler.CSINODES}/{node}")
            await clock.sleep(20)

        async with autoscaler.autoscaling(server, cloud, clock) as program:
            assert await left_behind(program, day, clock) == {}


async def test_capacity_templates(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        capacity.started(server)

        async def day(number: int) -> None:
            node, kind = making.a_node(f"n{number}", f"m{number}"), making.a_class(f"fast-{number}")
            capacity.put(server, capacity.NODES, node)
            capacity.put(server, capacity.CLASSES, kind)
            await clock.sleep(30)
            server.remove(f"{capacity.NODES}/n{number}")
            server.remove(f"{capacity.CLASSES}/fast-{number}")
            await clock.sleep(30)

        async with capacity.controlling(server, clock) as program:
            assert await left_behind(program, day, clock) == {}
