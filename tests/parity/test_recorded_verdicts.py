"""On every recorded cluster: what the extender allows, and what kube-scheduler's other filters said
on their own, together are what kube-scheduler allowed.

A chosen part of them is in `make test` (tests/scheduler/extender/test_against_recordings.py).
"""

from tests.parity.folder import FOLDER
from tests.scheduler.extender.recorded_verdicts import allowed_by_recorded_others, differences


def test_extender_and_recorded_filters_allow_what_kube_scheduler_allows() -> None:
    count, differing = differences(FOLDER, allowed_by_recorded_others)
    assert (count > 10_000, differing) == (True, [])
