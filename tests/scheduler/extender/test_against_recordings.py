"""On recorded clusters: what the extender and the scheduler's other filters allow together is
exactly what kube-scheduler allowed.

The chosen sixty do not say what each filter answered on its own, so the others are those of the
model; `make parity` takes them from the recordings, for all clusters (tests/parity).
"""

from tests.scaleup import recorded
from tests.scheduler.extender.recorded_verdicts import allowed_by_modelled_others, differences


def test_extender_and_other_filters_allow_what_kube_scheduler_allows() -> None:
    count, differing = differences(recorded.CHOSEN, allowed_by_modelled_others)
    assert (count > 500, differing) == (True, [])
