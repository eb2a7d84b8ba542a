"""Commands that run until they are stopped: started as printed, and stopped once they are ready."""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

ELECTS = ("run", "scheduler", "capacity-templates")
"""Those that do nothing before they lead, unless they only say what they would do."""
READY = {"embedded": "listens on http", "board": "The board is at http"}
"""What others print once they answer; a log says `listening`."""
ENDS = frozenset({"--once", "--uninstall", "uninstall", "--config-schema"})
PATIENCE = 60.0
"""Seconds until a service is ready; only a failure waits so long."""


def serves(words: Sequence[str]) -> bool:
    """Whether these arguments of `tonnage` start something that does not end by itself."""
    return words[0] in (*ELECTS, *READY, "extender", "node-agent") and not ENDS.intersection(words)


def start_and_stop(
    words: Sequence[str], *, directory: Path, environment: Mapping[str, str]
) -> None:
    """Start, wait until it is ready and answers, interrupt it, and see it end in peace."""
    # As a shell would, with the home of the folder.
    given = [re.sub(r"^~(?=/)", str(directory), word) for word in words]
    # Ports of the page may be taken on this machine.
    given = [re.sub(r"^127\.0\.0\.1:\d+$", "127.0.0.1:0", word) for word in given]
    if "--address" not in given and words[0] != "embedded":
        given += ["--address", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tonnage", *given],
        cwd=directory,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said: list[str] = []
    try:
        lines = _lines(process)
        port = ""
        awaited = ["leading"] if words[0] in ELECTS and "--dry-run" not in words else []
        end = time.monotonic() + PATIENCE
        while not port or awaited:
            line = lines.get(timeout=max(end - time.monotonic(), 0.001))
            assert line is not None, f"ended by itself: {''.join(said)}"
            said.append(line)
            if words[0] in READY and READY[words[0]] in line:
                break
            if found := re.search(r'listening(?:"| ).*port"?[:=](\d+)', line):
                port = found[1]
            awaited = [one for one in awaited if not re.search(rf'[" ]{one}[" ]', line)]
        if port:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:
                assert answer.status == 200
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE)
        assert code in (0, 130), f"exit code {code}: {''.join(said)}"
    finally:
        process.kill()
        process.wait()


def _lines(process: "subprocess.Popen[str]") -> "queue.Queue[str | None]":
    """What it prints, line by line, and `None` at the end."""
    found: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found.put(line)
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    return found


class Background:
    """Programs of a page that go on beside its next lines; addresses are free ones."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[subprocess.Popen[str]] = []
        self._addresses: dict[str, str] = {}

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def start(self, words: Sequence[str]) -> None:
        """Run Python with these arguments, and wait for the port that it tells."""
        printed = words[words.index("--address") + 1]
        process = subprocess.Popen(
            [sys.executable, *(("127.0.0.1:0" if word == printed else word) for word in words)],
            cwd=self._directory,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        line = _lines(process).get(timeout=PATIENCE)
        assert line is not None, f"{' '.join(words)}: ended by itself"
        self._addresses[printed] = f"127.0.0.1:{line.split()[-1]}"

    def where(self, text: str) -> str:
        """The text with the addresses that programs really have."""
        for printed, real in self._addresses.items():
            text = text.replace(printed, real)
        return text
