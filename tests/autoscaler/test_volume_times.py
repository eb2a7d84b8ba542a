"""How long volumes take to be detached and attached, as it was seen."""

from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from tonnage.autoscaler.consolidation.volume_times import VolumeTimes
from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects.storage import AttachmentStatus
from tonnage.testing import builders as make

DRIVER = "disk.example.com"


class Watched:
    """Attachments come and go at moments that the test says."""

    def __init__(self) -> None:
        self.now = 0.0
        world: Any = Mock()
        self.times = VolumeTimes(world, now=lambda: self.now)
        (self._see,) = world.cache.return_value.subscribe.call_args.args

    def see(self, at: float, *, attached: bool, deleting: bool = False, gone: bool = False) -> None:
        self.now = at
        made = make.attachment("pv", "n", attacher=DRIVER)
        stamp = "2026-01-01T00:00:00Z" if deleting or gone else None
        meta = msgspec.structs.replace(made.metadata, deletion_timestamp=stamp)
        status = AttachmentStatus(attached=attached)
        made = msgspec.structs.replace(made, metadata=meta, status=status)
        self._see(Change(EventType.DELETED if gone else EventType.MODIFIED, made))


def test_from_the_wish_to_leave_to_being_attached_again() -> None:
    watched = Watched()
    watched.see(10, attached=True, deleting=True)
    watched.see(14, attached=True, deleting=True)
    watched.see(22, attached=False, gone=True)
    assert watched.times.seconds == {}
    watched.see(30, attached=False)
    watched.see(38, attached=True)
    assert watched.times.seconds == {DRIVER: 20.0}


def test_a_new_observation_moves_what_is_known_a_little() -> None:
    watched = Watched()
    for begin, took in ((0, 10), (1000, 20)):
        watched.see(begin, attached=True, deleting=True)
        watched.see(begin + took, attached=False, gone=True)
        watched.see(begin + 100, attached=False)
        watched.see(begin + 100 + took, attached=True)
    assert watched.times.seconds == {DRIVER: pytest.approx(24.0)}


def test_what_takes_for_ever_is_not_counted_and_what_was_known_before_stays() -> None:
    watched = Watched()
    watched.times.restore({DRIVER: 33.0})
    watched.see(0, attached=False)
    watched.see(5000, attached=True)
    assert watched.times.seconds == {DRIVER: 33.0}
