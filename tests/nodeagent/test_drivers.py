"""Drivers found by their sockets, asked again and again, over real sockets."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.nodeagent.csidriver import CsiDriver
from tonnage.clock import SystemClock
from tonnage.nodeagent.csi import CsiCaller, CsiPatience
from tonnage.nodeagent.drivers import Drivers, PollPace

EBS = "ebs.csi.aws.com"
PATIENCE = CsiPatience(timeout=5.0, attempts=1)
WITHIN = 30.0
"""Seconds; a quiet machine needs much less than one."""


class Following:
    """`Drivers` that run, and what can be waited for."""

    def __init__(
        self, kubelet_dir: Path, *, patience: CsiPatience = PATIENCE, poll: float = 0.02
    ) -> None:
        clock, rng = SystemClock(), random.Random(1)
        self.changes = 0
        self.drivers = Drivers(
            kubelet_dir / "plugins_registry",
            CsiCaller(clock=clock, rng=rng, patience=patience),
            clock=clock,
            rng=rng,
            changed=self._changed,
            pace=PollPace(scan=0.02, poll=poll, longest_wait=0.1),
        )

    def _changed(self) -> None:
        self.changes += 1

    def limit(self, name: str = EBS) -> int | None:
        driver = self.drivers.known.get(name)
        return driver.answer.max_volumes if driver is not None and driver.answer else None

    def problem(self, name: str = EBS) -> str:
        driver = self.drivers.known.get(name)
        return driver.problem if driver is not None else ""

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN):
            while not condition():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def following(
    kubelet_dir: Path, *, patience: CsiPatience = PATIENCE, poll: float = 0.02
) -> AsyncIterator[Following]:
    follows = Following(kubelet_dir, patience=patience, poll=poll)
    task = asyncio.create_task(follows.drivers.run())
    try:
        yield follows
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_driver_that_is_there_is_found(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25):
        async with following(kubelet_dir) as follows:
            await follows.until(lambda: follows.limit() == 25)
            assert follows.changes == 1


async def test_a_driver_that_comes_later_is_found_in_a_folder_below_too(kubelet_dir: Path) -> None:
    async with following(kubelet_dir) as follows:
        with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
            below = driver.registration.parent / "below"
            below.mkdir()
            driver.registration.rename(below / "reg.sock")
            await follows.until(lambda: follows.limit() == 25)


async def test_a_number_that_changes_is_noticed(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
        async with following(kubelet_dir) as follows:
            await follows.until(lambda: follows.limit() == 25)
            driver.tell(limit=24)
            await follows.until(lambda: follows.limit() == 24)


async def test_a_driver_that_goes_is_gone_and_one_that_restarts_is_back(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
        async with following(kubelet_dir) as follows:
            await follows.until(lambda: follows.limit() == 25)
            driver.stop()
            await follows.until(lambda: not follows.drivers.known)
            driver.tell(limit=12)
            driver.start()
            await follows.until(lambda: follows.limit() == 12)


async def test_a_driver_that_starts_to_fail_keeps_its_last_answer(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
        async with following(kubelet_dir) as follows:
            await follows.until(lambda: follows.limit() == 25)
            driver.tell(behave="error")
            await follows.until(lambda: "INTERNAL" in follows.problem())
            assert follows.limit() == 25
            driver.tell(behave="well")
            await follows.until(lambda: not follows.problem())


async def test_a_driver_that_hangs_keeps_nobody_else_waiting(kubelet_dir: Path) -> None:
    with (
        CsiDriver(kubelet_dir, "a.example.com", limit=1, behave="hang", short="a"),
        CsiDriver(kubelet_dir, EBS, limit=25, short="b"),
    ):
        async with following(kubelet_dir, patience=CsiPatience(timeout=600.0)) as follows:
            await follows.until(lambda: follows.limit() == 25)
            assert follows.limit("a.example.com") is None


async def test_a_plugin_that_is_no_csi_driver_is_left_alone(kubelet_dir: Path) -> None:
    with (
        CsiDriver(kubelet_dir, "gpu.example.com", limit=1, type_="DRAPlugin", short="a"),
        CsiDriver(kubelet_dir, EBS, limit=25, short="b"),
    ):
        async with following(kubelet_dir) as follows:
            await follows.until(lambda: follows.limit() == 25)
            await follows.drivers.once()
            assert set(follows.drivers.known) == {EBS}


async def test_files_hidden_sockets_and_sockets_nobody_serves_harm_nobody(
    kubelet_dir: Path,
) -> None:
    registry = kubelet_dir / "plugins_registry"
    (registry / "file").write_text("not a socket")
    with socket.socket(socket.AF_UNIX) as hidden, socket.socket(socket.AF_UNIX) as nobody:
        hidden.bind(str(registry / ".hidden.sock"))
        nobody.bind(str(registry / "nobody.sock"))
        with CsiDriver(kubelet_dir, EBS, limit=25):
            async with following(kubelet_dir) as follows:
                await follows.until(lambda: follows.limit() == 25)
                assert set(follows.drivers.known) == {EBS}


async def test_a_name_of_200_characters_is_a_name(kubelet_dir: Path) -> None:
    name = "x" * 188 + ".example.com"
    with CsiDriver(kubelet_dir, name, limit=7):
        async with following(kubelet_dir) as follows:
            await follows.until(lambda: follows.limit(name) == 7)


async def test_a_driver_may_be_asked_before_it_is_due(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
        async with following(kubelet_dir, poll=3600.0) as follows:
            await follows.until(lambda: follows.limit() == 25)
            driver.tell(limit=24)
            follows.drivers.ask_now(EBS)
            await follows.until(lambda: follows.limit() == 24)


async def test_a_driver_that_was_asked_once_may_be_wanted_again(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25):
        follows = Following(kubelet_dir)
        await follows.drivers.once()
        follows.drivers.ask_now(EBS)
        assert follows.limit() == 25


async def test_without_the_directory_there_are_no_drivers(kubelet_dir: Path) -> None:
    follows = Following(kubelet_dir / "nowhere")
    await follows.drivers.once()
    assert follows.drivers.known == {}
