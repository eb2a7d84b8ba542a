"""How long volumes take to be detached and attached again, by driver, as seen in this cluster."""

from collections.abc import Callable, Mapping

from tonnage.autoscaler.world import ClusterView
from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects.storage import VolumeAttachment

_NEWEST = 0.2
"""How much the newest observation counts."""
_LONGEST = 3600.0
"""Seconds past which something else was the matter."""
_MOST = 10_000
"""Attachments that are followed at once."""


class VolumeTimes:
    """Follows attachments: from the wish to be attached to being so, and from the wish to leave."""

    def __init__(self, world: ClusterView, *, now: Callable[[], float]) -> None:
        self._now = now
        self._attaching: dict[str, float] = {}
        self._detaching: dict[str, float] = {}
        self._attach: dict[str, float] = {}
        self._detach: dict[str, float] = {}
        self._before: dict[str, float] = {}
        world.cache(VolumeAttachment).subscribe(self._see)

    def restore(self, seconds: Mapping[str, float]) -> None:
        """Begin with what was observed by who led before."""
        self._before = dict(seconds)

    @property
    def seconds(self) -> dict[str, float]:
        """To detach and to attach a volume, by driver."""
        seen = {
            driver: round(self._detach[driver] + self._attach[driver], 1)
            for driver in sorted(self._detach.keys() & self._attach.keys())
        }
        return {**self._before, **seen}

    def _see(self, change: Change[VolumeAttachment]) -> None:
        attachment = change.object
        name, driver = attachment.metadata.name, attachment.spec.attacher
        now = self._now()
        if change.type is EventType.DELETED:
            self._attaching.pop(name, None)
            began = self._detaching.pop(name, None)
            if began is not None:
                _note(self._detach, driver, now - began)
        elif attachment.metadata.deletion_timestamp is not None:
            if name not in self._detaching and len(self._detaching) < _MOST:
                self._detaching[name] = now
        elif not attachment.status.attached:
            if name not in self._attaching and len(self._attaching) < _MOST:
                self._attaching[name] = now
        else:
            began = self._attaching.pop(name, None)
            if began is not None:
                _note(self._attach, driver, now - began)


def _note(times: dict[str, float], driver: str, seconds: float) -> None:
    if 0 <= seconds <= _LONGEST:
        known = times.get(driver, seconds)
        times[driver] = known + _NEWEST * (seconds - known)
