"""A sign of life on a terminal while something takes long."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tonnage.cli import console

PATIENCE = 1.0
"""Seconds that nobody needs to be told about."""


@contextmanager
def shown(text: str | Callable[[], str], *, patience: float = PATIENCE) -> Iterator[None]:
    """Say what is being done and for how long, on standard error if that is a terminal.

    A text that changes is given as a function. The line is gone when it is over.
    """
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(text, patience, over), daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _tell(text: str | Callable[[], str], patience: float, over: threading.Event) -> None:
    started = time.monotonic()
    width = 0
    while not over.wait(patience if not width else 0.5):
        said = text if isinstance(text, str) else text()
        line = f"{said}, {time.monotonic() - started:.0f} s"
        width = max(width, len(line))
        console.progress(line.ljust(width))
    if width:
        console.progress(f"{' ' * width}")
        console.progress("")
