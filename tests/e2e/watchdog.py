"""Ends what its parent started when the parent is gone without having done so.

    python watchdog.py DIRECTORY...

Reads `+PID` and `-PID` lines, one process group each, until the pipe from the parent closes; that
happens however the parent ends, also by SIGKILL. Then the groups still listed are killed and the
directories are removed. It is run as a program, because only a process outlives a process.
"""

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterable


def watch(lines: Iterable[str], directories: list[str]) -> None:
    groups: set[int] = set()
    for line in lines:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    watch(sys.stdin, sys.argv[1:])
