"""Programs that run beside the tests and never outlive them."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

GRACE = 5.0
"""Seconds a program has to end by itself when asked to."""


class Watchdog:
    """A process that kills what is still running when this one is gone."""

    def __init__(self, *directories: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("watchdog.py"), *directories],
            stdin=subprocess.PIPE,
            # Not to be reached by a Ctrl-C that ends the tests.
            start_new_session=True,
        )

    def started(self, pid: int) -> None:
        self._tell(f"+{pid}\n")

    def ended(self, pid: int) -> None:
        self._tell(f"-{pid}\n")

    def close(self) -> None:
        """Let it do its work, of which there is none left in the usual case."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()


class Program:
    """One program, run in a process group of its own; nothing of it is left after `kill`.

    It may be ended and started again with the same command. What it says is appended to its log.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environ: Mapping[str, str],
        watchdog: Watchdog,
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environ = environ
        self._watchdog = watchdog
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """The code it ended with by itself, while nobody asked it to."""
        return self._process.poll() if self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self.ended is None

    def start(self) -> None:
        assert self._process is None, f"{self.name} is running already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ,
                start_new_session=True,
            )
        self._watchdog.started(self._process.pid)

    def stop(self, *, grace: float = GRACE) -> None:
        """Ask it to end, and kill it when it does not in time."""
        if self._process is not None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._watchdog.ended(self._process.pid)
            self._process = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Not running inside the block, though its connections stay open: a stall, not a crash."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def last_words(self, lines: int = 20) -> str:
        """The end of its log."""
        if not self.log.exists():
            return ""
        said = self.log.read_text(errors="replace").splitlines()
        return "\n".join(line[:400] for line in said[-lines:])

    def _signal(self, number: signal.Signals) -> None:
        # The number of a program that ended by itself may belong to another by now.
        if self.running:
            os.killpg(self.pid, number)
