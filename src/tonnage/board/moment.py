"""Everything that the page shows of one moment, handed in by who knows it."""

from collections.abc import Sequence
from typing import NamedTuple

from tonnage.autoscaler.report import LoggedDecision
from tonnage.autoscaler.scaledown.report import ScaleDownDocument
from tonnage.groups.inputs import Inputs
from tonnage.groups.readiness import Readiness
from tonnage.scaleup.plan import Plan


class Moment(NamedTuple):
    """`inputs` hold the snapshot, which nobody may change while a moment is being read.

    `plan` is the newest one, `None` before the first. `notes` are what somebody who looks has to
    know, `held` why nothing is decided. `starts` are seconds that nodes of a group take to come.
    """

    now: float
    inputs: Inputs
    plan: Plan | None = None
    readiness: Readiness | None = None
    scale_down: ScaleDownDocument | None = None
    decisions: Sequence[LoggedDecision] = ()
    held: str = ""
    notes: tuple[str, ...] = ()
