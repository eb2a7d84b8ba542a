import asyncio
import os
import signal
from pathlib import Path

import pytest

from tonnage.errors import InputError
from tonnage.objects.meta import Record
from tonnage.service import lifecycle
from tonnage.service.addresses import split
from tonnage.service.config_file import ConfigFile
from tonnage.service.steady_time import SteadyTime
from tonnage.testing.clock import START, VirtualClock

NOW = START.timestamp()


class Settings(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    size: int = 1


# Time


async def test_steady_time_passes_as_time_does(clock: VirtualClock) -> None:
    steady = SteadyTime(clock)
    await clock.sleep(100)
    assert steady.now() == pytest.approx(NOW + 100)


@pytest.mark.parametrize("step", [3600, -3600])
async def test_a_step_of_the_clock_is_caught_up_with_slowly(clock: VirtualClock, step: int) -> None:
    steady = SteadyTime(clock)
    clock.step(step)
    await clock.sleep(100)
    sign = 1 if step > 0 else -1
    assert steady.now() == pytest.approx(NOW + 100 + sign * 10)


async def test_a_step_of_the_clock_is_caught_up_with_in_the_end(clock: VirtualClock) -> None:
    steady = SteadyTime(clock)
    clock.step(60)
    await clock.sleep(10_000)
    assert steady.now() == pytest.approx(clock.now().timestamp())


# The file


def test_a_file_that_is_not_there_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: No such file"):
        ConfigFile(tmp_path / "none.yaml", Settings)


def test_without_a_file_the_defaults_hold() -> None:
    assert ConfigFile(None, Settings).current == Settings()


def test_a_file_that_goes_away_leaves_the_settings_in_force(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("size: 2")
    file = ConfigFile(path, Settings)
    path.unlink()
    assert not file.check()
    assert (file.current.size, "No such file" in file.problem) == (2, True)


def test_a_mended_file_clears_the_problem(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("size: 2")
    file = ConfigFile(path, Settings)
    path.write_text("size: x")
    file.check()
    broken = file.problem
    path.write_text("size: 3")
    assert file.check()
    assert (bool(broken), file.problem, file.current.size, file.reloads) == (True, "", 3, 1)


def test_a_change_of_comments_alone_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("size: 2")
    file = ConfigFile(path, Settings)
    path.write_text("size: 2 # two")
    assert not file.check()


# Running


async def test_a_signal_ends_the_work_in_good_order() -> None:
    cleaned_up = False

    async def work() -> None:
        nonlocal cleaned_up
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            cleaned_up = True

    await lifecycle.until_signalled(work)
    assert cleaned_up


async def test_a_helper_that_fails_ends_the_block_with_its_error() -> None:
    async def fails() -> None:
        raise InputError("odd")

    with pytest.raises(InputError, match="odd"):
        async with lifecycle.beside(fails()):
            await asyncio.Event().wait()


async def test_helpers_end_with_the_block() -> None:
    ended = False

    async def helper() -> None:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            ended = True

    async with lifecycle.beside(helper()):
        await asyncio.sleep(0)
    assert ended


@pytest.mark.parametrize(
    ("address", "expected"),
    [(":8085", ("", 8085)), ("127.0.0.1:1", ("127.0.0.1", 1)), ("[::1]:80", ("::1", 80))],
)
def test_addresses(address: str, expected: tuple[str, int]) -> None:
    assert split(address) == expected


@pytest.mark.parametrize("address", ["8085", "host:", "host:many", "host:70000"])
def test_a_wrong_address_is_named(address: str) -> None:
    with pytest.raises(InputError, match="expected HOST:PORT"):
        split(address)
