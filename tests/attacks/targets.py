"""A process under attack, as it is seen from outside: its port, its memory, its health."""

import http.client
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.e2e.processes import Program

HOST = "127.0.0.1"
PROBE_TIMEOUT = 5.0
"""Seconds; the shortest of the probes that are shipped in `deploy/`."""
PROBE_PAUSE = 0.1


class Target(NamedTuple):
    """One port of a program; `tls` is a client's side of it, without a certificate."""

    program: Program
    port: int
    tls: ssl.SSLContext | None = None

    @property
    def name(self) -> str:
        return self.program.name

    def megabytes(self) -> float:
        """Memory that is in use now."""
        told = Path(f"/proc/{self.program.pid}/status").read_text()
        return int(told.partition("VmRSS:")[2].split()[0]) / 1024

    def is_healthy(self) -> bool:
        """What a probe finds that opens a connection of its own."""
        connection = (
            http.client.HTTPConnection(HOST, self.port, timeout=PROBE_TIMEOUT)
            if self.tls is None
            else http.client.HTTPSConnection(
                HOST, self.port, context=self.tls, timeout=PROBE_TIMEOUT
            )
        )
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Observation:
    """What came of a target while it was watched; memory is in MB, waits are in seconds."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.before = self.most = self.after = target.megabytes()
        self.probes = 0
        self.failed = 0
        self.longest = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"probe of {target.name}")

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Probes follow one another inside the block, and one more comes after it."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()
        self._probe()
        self.after = self.target.megabytes()

    def _watch(self) -> None:
        while not self._over.wait(PROBE_PAUSE):
            self._probe()

    def _probe(self) -> None:
        began = time.monotonic()
        healthy = self.target.is_healthy()
        self.longest = max(self.longest, time.monotonic() - began)
        self.probes += 1
        self.failed += not healthy
        self.most = max(self.most, self.target.megabytes())
