"""How far many pieces of work are, and how much is left, in one line of a terminal."""

import sys
import time

from tonnage.cli import console

_EVERY = 0.2  # seconds
_WIDTH = 24


class Progress:
    """A bar on standard error, if that is a terminal and the answers do not go there too.

    It is drawn by who works, not by a thread of its own: processes are forked beside it.
    """

    def __init__(self, total: int, what: str, *, done: int = 0) -> None:
        self._total, self._what = total, what
        self._begun = self._done = done
        self._failed = 0
        self._started = self._said = time.monotonic()
        self._shown = sys.stderr.isatty()
        self._longest = 0

    def advance(self, count: int, *, failed: int = 0) -> None:
        self._done += count
        self._failed += failed
        now = time.monotonic()
        if self._shown and now - self._said >= _EVERY:
            self._said = now
            self._say(self.line(now - self._started))

    def finish(self) -> None:
        """Leave the line clean for what is printed next."""
        if self._longest:
            self._say("")
            console.progress("")

    def line(self, seconds: float) -> str:
        """The bar after so many seconds: what is done, how fast, and what is left."""
        share = self._done / self._total if self._total else 1.0
        bar = ("#" * int(share * _WIDTH)).ljust(_WIDTH, ".")
        parts = [f"[{bar}] {self._done:,} of {self._total:,} {self._what}"]
        rate = (self._done - self._begun) / seconds if seconds else 0.0
        if rate:
            parts += [f"{rate:,.3g}/s", f"{_duration((self._total - self._done) / rate)} left"]
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        return ", ".join(parts)

    def _say(self, line: str) -> None:
        self._longest = max(self._longest, len(line))
        console.progress(line.ljust(self._longest))


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return (
        f"{minutes} min {rest:02d} s"
        if minutes < 60
        else f"{minutes // 60} h {minutes % 60:02d} min"
    )
