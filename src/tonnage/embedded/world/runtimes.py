"""How long a pod that does a piece of work takes for it, as its annotation says."""

import re

from tonnage.objects.pods import Pod

RUNS_FOR = "tonnage.dev/runs-for"
"""Seconds, or a duration such as `90s`, `5m` or `1h30m`. For pods that are not always restarted."""

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[hms])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([hms])")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class RunningTimeError(ValueError):
    """The annotation is no duration."""


def running_time(pod: Pod) -> float | None:
    """Seconds from start to success, `None` for a pod that runs until it is deleted."""
    text = pod.metadata.annotations.get(RUNS_FOR)
    if text is None:
        return None
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        raise RunningTimeError(
            f"metadata.annotations[{RUNS_FOR}]: {text!r}: expected a duration such as 90s or 1h30m"
        )
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
