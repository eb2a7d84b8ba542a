"""How long a pod that does a piece of work takes for it, as its annotation says."""

from tonnage.objects import durations
from tonnage.objects.pods import Pod

RUNS_FOR = "tonnage.dev/runs-for"
"""Seconds, or a duration such as `90s`, `5m` or `1h30m`. For pods that are not always restarted.
The template of a Job may list several, between commas: one for each pod, the last for the rest."""


class RunningTimeError(ValueError):
    """The annotation is no duration."""


def running_time(pod: Pod) -> float | None:
    """Seconds from start to success, `None` for a pod that runs until it is deleted."""
    text = pod.metadata.annotations.get(RUNS_FOR)
    if text is None:
        return None
    seconds = float(text) if text.isdecimal() else durations.seconds(text)
    if seconds is None:
        raise RunningTimeError(
            f"metadata.annotations[{RUNS_FOR}]: {text!r}: expected a duration such as 90s or 1h30m"
        )
    return seconds
