"""One soak of a live cluster: start, rest, churn with interruptions, churn alone, the end.

In the first half of the time the API server is killed, the API server stands still, changes come in
a storm while the autoscaler hears nothing, its clock jumps by an hour to and fro, its provider is
slow, and it is killed itself. In the second half there is churn alone, and memory is compared.
"""

import asyncio
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec

from benchmarks.clusters import SEED, LargeCluster, Size, items_of
from benchmarks.soak_churn import Churn
from benchmarks.soak_faults import NONE, Faults
from benchmarks.soak_judge import UNNEEDED_TIME, ChurnReport
from benchmarks.soak_process import SoakedAutoscaler

SETTINGS: dict[str, object] = {
    "scaleDownEnabled": True,
    "scaleDownUnneededTime": f"{UNNEEDED_TIME:.0f}s",
    "scaleDownDelayAfterAdd": "10s",
}
_STANDSTILL = 20.0
_DEAF = 8.0
"""Seconds for which the autoscaler hears nothing of a storm; its lease is for 15."""
_STORM = 6_000
"""More changes than the embedded API remembers: watches begin anew."""
_HOUR = 3600.0
_JUMPED = 45.0
"""Seconds that the clock stays wrong: longer than nodes have to be unneeded."""
_SLOW = Faults(provider=8.0)
_SLOWNESS = 60.0
_BREATH = 15.0
"""Seconds between two interruptions at least."""
_SETTLING = 600.0
"""Seconds until everything that was bought has to be given back."""


class SoakedApi(Protocol):
    """The API server: of its own process, whoever made it."""

    def start(self) -> float: ...

    def kill(self) -> None: ...

    def held_up(self) -> AbstractContextManager[None]: ...

    @property
    def resident(self) -> int: ...


class Moment(NamedTuple):
    at: float
    processor: float
    resident: int


class Soak(msgspec.Struct, kw_only=True):
    """Figures of one run, in seconds and bytes."""

    size: Size
    cold_start: float
    cold_start_cpu: float
    at_rest: float
    """Seconds of processor per second when nothing happens."""
    quiet: dict[str, float]
    rounds: dict[str, float]
    """The mean of each part of a round, at rest and during churn."""
    half: Moment
    end: Moment
    largest: int
    api_resident: int
    minutes: float
    interruptions: int
    churn: ChurnReport


class Start(NamedTuple):
    """What is known of the autoscaler before anything happens."""

    cold: float
    cold_cpu: float
    at_rest: float
    quiet: dict[str, float]


def started(autoscaler: SoakedAutoscaler, *, rest: float) -> Start:
    cold = autoscaler.start()
    cold_cpu = autoscaler.processor
    say(f"tonnage run is ready after {cold:.1f} s")
    # What comes late, such as kinds that are only watched once they are wanted, is not rest.
    time.sleep(rest / 2)
    processor, before = autoscaler.processor, autoscaler.metrics()
    time.sleep(rest)
    used = autoscaler.processor - processor
    return Start(cold, cold_cpu, used / rest, means(before, autoscaler.metrics()))


async def churned(
    size: Size,
    churn: Churn,
    api: SoakedApi,
    autoscaler: SoakedAutoscaler,
    start: Start,
    *,
    minutes: float,
) -> Soak:
    # Watches fail, and are meant to.
    logging.getLogger("tonnage").setLevel(logging.ERROR)
    playing = asyncio.ensure_future(churn.run())
    chaos = list(_interruptions(api, autoscaler, churn))
    began, half_time = time.monotonic(), minutes * 60 / 2
    try:
        for number, (what, act) in enumerate(chaos, start=1):
            due = began + half_time * number / (len(chaos) + 1)
            await _wait(max(due - time.monotonic(), _BREATH), playing)
            say(what)
            await act()
        await _wait(max(began + half_time - time.monotonic(), _BREATH), playing)
        half, before = _moment(autoscaler), autoscaler.metrics()
        largest = half.resident
        until = time.monotonic() + half_time
        while time.monotonic() < until:
            await _wait(min(10.0, half_time / 4), playing)
            largest = max(largest, autoscaler.resident)
        end, after = _moment(autoscaler), autoscaler.metrics()
        churn.finish()
        say("no more pods come; waiting until every node is given back")
        until = time.monotonic() + _SETTLING
        while not churn.settled and time.monotonic() < until:
            await _wait(0.5, playing)
        if not churn.settled:
            churn.judge.report.wrong.append(f"not all was given back: {churn.left}")
        await churn.check_the_rest(size)
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
    return Soak(
        size=size,
        cold_start=start.cold,
        cold_start_cpu=start.cold_cpu,
        at_rest=start.at_rest,
        quiet=start.quiet,
        rounds=means(before, after),
        half=half,
        end=end,
        largest=largest,
        api_resident=api.resident,
        minutes=minutes,
        interruptions=len(chaos),
        churn=churn.judge.report,
    )


Interruption = tuple[str, Callable[[], Awaitable[None]]]


def _interruptions(
    api: SoakedApi, autoscaler: SoakedAutoscaler, churn: Churn
) -> Iterator[Interruption]:
    judge = churn.judge

    async def restart(process: SoakedApi) -> None:
        with judge.troubled():
            process.kill()
            took = await asyncio.to_thread(process.start)
        say(f"  it is back after {took:.0f} s")

    async def stand_still() -> None:
        with judge.troubled(), api.held_up():
            await asyncio.sleep(_STANDSTILL)

    async def storms() -> None:
        with judge.troubled():
            began = time.monotonic()
            coming = asyncio.ensure_future(churn.storm(_STORM))
            with autoscaler.held_up():
                await asyncio.sleep(_DEAF)
            await coming
        say(f"  {_STORM / (time.monotonic() - began):,.0f} changes a second")

    async def jumps(seconds: float) -> None:
        # Judged like any other time: nobody notices a clock that jumps.
        autoscaler.suffer(Faults(clock=seconds))
        await asyncio.sleep(_JUMPED)
        autoscaler.suffer(NONE)
        await asyncio.sleep(_JUMPED)

    async def slow_provider() -> None:
        with judge.troubled():
            autoscaler.suffer(_SLOW)
            await asyncio.sleep(_SLOWNESS)
            autoscaler.suffer(NONE)
            # Calls that have begun take their time still.
            await asyncio.sleep(2 * _SLOW.provider)

    yield "the API server is killed", lambda: restart(api)
    yield f"the API server stands still for {_STANDSTILL:.0f} s", stand_still
    yield f"{_STORM:,} changes come at once, unheard for {_DEAF:.0f} s", storms
    yield "the clock jumps an hour ahead, and back", lambda: jumps(_HOUR)
    yield "the clock jumps back an hour, and ahead", lambda: jumps(-_HOUR)
    yield f"the provider takes {2 * _SLOW.provider:.0f} s for everything", slow_provider
    yield "tonnage run is killed", lambda: restart(autoscaler)


def others_of(cluster: LargeCluster) -> list[tuple[str, str]]:
    """Pods whose status changes all the time."""
    pods = [page for page in cluster.pages() if page.kind.kind == "Pod"]
    names = [_name(bytes(item)) for page in pods for item in items_of(page)]
    return random.Random(SEED).sample(names, min(len(names), 2_000))


def means(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """The mean time of each part of the loop between two readings."""
    found = {}
    name = "cluster_autoscaler_function_duration_seconds"
    for key, count in after.items():
        if key.startswith(f"{name}_count"):
            labels = key.removeprefix(f"{name}_count")
            times = count - before.get(key, 0.0)
            total = after[f"{name}_sum{labels}"] - before.get(f"{name}_sum{labels}", 0.0)
            if times > 0:
                found[labels.split('"')[1]] = total / times
    return found


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _name(item: bytes) -> tuple[str, str]:
    meta = msgspec.json.decode(item)["metadata"]
    return meta["namespace"], meta["name"]


async def _wait(seconds: float, playing: "asyncio.Future[None]") -> None:
    """So long, unless playing has failed."""
    done, _ = await asyncio.wait([playing], timeout=seconds)
    if done:
        playing.result()


def _moment(process: SoakedAutoscaler) -> Moment:
    return Moment(time.monotonic(), process.processor, process.resident)
