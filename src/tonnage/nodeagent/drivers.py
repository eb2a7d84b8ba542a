"""The drivers registered with the kubelet: found by their sockets, each asked again and again.

One that hangs keeps nobody waiting but itself. What it said before stays known until it says
something else; when its socket is gone, so is the driver, and what to make of that is not
decided here.
"""

import asyncio
import logging
import random
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.backoff import Backoff
from tonnage.nodeagent.csi import CSI_PLUGIN, Answer, CsiCaller, DriverError, Registration

_log = logging.getLogger(__name__)

_Stamp: TypeAlias = tuple[int, int]
"""Which file a socket is: it is made anew under the same name when its driver restarts."""


class PollPace(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: between looks at the directory, and between questions to a driver."""

    scan: float = 5.0
    poll: float = 30.0
    longest_wait: float = 120.0
    """After failures the questions come less often, down to this."""


class Driver:
    """A registered driver and what is known of it; `problem` says why nothing newer is."""

    def __init__(self, registered: Registration) -> None:
        self.registered = registered
        self.answer: Answer | None = None
        self.problem = ""
        self.ask_now = asyncio.Event()
        """Set by whoever cannot wait until the next question is due."""

    @property
    def name(self) -> str:
        return self.registered.name


class Drivers:
    """Follows the directory of registration sockets; `changed` is called when there is news."""

    def __init__(
        self,
        directory: Path,
        caller: CsiCaller,
        *,
        clock: Clock,
        rng: random.Random,
        changed: Callable[[], None],
        pace: PollPace | None = None,
    ) -> None:
        self._directory = directory
        self._caller = caller
        self._clock = clock
        self._rng = rng
        self._changed = changed
        self._pace = pace or PollPace()
        self._keepers: dict[Path, tuple[_Stamp, asyncio.Task[None]]] = {}
        self._known: dict[Path, Driver] = {}

    @property
    def known(self) -> dict[str, Driver]:
        """By name; of two that claim the same name, the one whose socket comes first."""
        return {driver.name: driver for _, driver in sorted(self._known.items(), reverse=True)}

    def ask_now(self, name: str) -> None:
        """Do not wait until the next question is due."""
        for driver in self._known.values():
            if driver.name == name:
                driver.ask_now.set()

    async def once(self) -> None:
        """Ask every driver once."""
        async with asyncio.TaskGroup() as group:
            for socket, _ in _sockets(self._directory):
                group.create_task(self._once(socket))

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._scan(group)
                await self._clock.sleep(self._pace.scan)

    def _scan(self, group: asyncio.TaskGroup) -> None:
        found = dict(_sockets(self._directory))
        for socket in [
            keeper for keeper in self._keepers if found.get(keeper) != self._keepers[keeper][0]
        ]:
            self._keepers.pop(socket)[1].cancel()
            gone = self._known.pop(socket, None)
            if gone is not None:
                _log.info("driver gone", extra={"driver": gone.name, "socket": str(socket)})
                self._changed()
        for socket, stamp in found.items():
            if socket not in self._keepers:
                self._keepers[socket] = (stamp, group.create_task(self._keep(socket)))

    async def _keep(self, socket: Path) -> None:
        registered = await self._registered(socket)
        if registered is None:
            return
        driver = self._known[socket] = Driver(registered)
        _log.info("driver found", extra={"driver": driver.name, "socket": str(socket)})
        backoff = Backoff(self._rng, first=self._pace.poll, most=self._pace.longest_wait)
        while True:
            await self._ask(driver)
            if driver.problem:
                wait = backoff.next()
            else:
                backoff.reset()
                wait = self._pace.poll
            await self._pause(driver, wait)

    async def _registered(self, socket: Path) -> Registration | None:
        """What is behind the socket, asked for as long as it takes; `None` if it is not CSI."""
        backoff = Backoff(self._rng, first=1.0, most=self._pace.longest_wait)
        while True:
            try:
                registered = await self._caller.registration(socket)
            except DriverError as error:
                _log.warning("plugin not asked", extra={"error": str(error)})
                await self._clock.sleep(backoff.next())
                continue
            return registered if registered.type == CSI_PLUGIN else None

    async def _once(self, socket: Path) -> None:
        try:
            registered = await self._caller.registration(socket)
        except DriverError as error:
            _log.warning("plugin not asked", extra={"error": str(error)})
            return
        if registered.type == CSI_PLUGIN:
            self._known[socket] = Driver(registered)
            await self._ask(self._known[socket])

    async def _ask(self, driver: Driver) -> None:
        before = (driver.answer, driver.problem)
        try:
            driver.answer = await self._caller.ask(driver.registered)
            driver.problem = ""
        except DriverError as error:
            driver.problem = str(error)
            if before[1] != driver.problem:
                _log.warning("driver failed", extra={"driver": driver.name, "error": str(error)})
        if (driver.answer, driver.problem) != before:
            self._changed()

    async def _pause(self, driver: Driver, seconds: float) -> None:
        try:
            async with self._clock.timeout(seconds):
                await driver.ask_now.wait()
        except TimeoutError:
            pass
        driver.ask_now.clear()


def _sockets(directory: Path) -> Iterator[tuple[Path, _Stamp]]:
    """The sockets in a directory and below it; names that begin with a dot are skipped."""
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        try:
            status = entry.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _sockets(entry)
        elif stat.S_ISSOCK(status.st_mode):
            yield entry, (status.st_ino, status.st_ctime_ns)
