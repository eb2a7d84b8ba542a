"""Windows in which nodes may be given back: a cron line for their beginning, and how long they are.

    scaleDownWindows:
    - {start: "0 1 * * *", lasts: 4h, timeZone: Europe/Berlin, reasons: [underutilized]}

A reason that no window speaks of is allowed at any time.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from tonnage.groups.cron_windows import CronWindow

Reason: TypeAlias = Literal["empty", "underutilized", "unready", "consolidation"]
"""Why a node goes, in upstream's words where it has one."""

REASONS: tuple[Reason, ...] = ("empty", "underutilized", "unready", "consolidation")


class Window(CronWindow, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A window that speaks of some reasons."""

    reasons: tuple[Reason, ...] = ()
    """What may be done in it; all of it, if nothing is named."""

    def speaks_of(self, reason: Reason) -> bool:
        return not self.reasons or reason in self.reasons


def allowed(windows: Sequence[Window], *, now: float) -> frozenset[Reason]:
    """The reasons for which nodes may go now."""
    return frozenset(reason for reason in REASONS if _allows(windows, reason, now))


def _allows(windows: Iterable[Window], reason: Reason, now: float) -> bool:
    about = [window for window in windows if window.speaks_of(reason)]
    return not about or any(window.is_open(now) for window in about)
