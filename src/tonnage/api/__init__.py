"""What a program may ask of Tonnage: load a cluster, explain its pods, count its slots, plan.

Begin with `cluster`: the `Cluster` has every question as a method, on what `cluster_objects` reads.
`overview` and `missing_classes` explain pods, `slots`, `stranded_capacity` and `right_size` are
about attach slots, `plans` and `what_if` about what to buy; `notebook` draws them. The command
line asks through here too, so that both give the same answers. Records say their JSON themselves.

Nothing is decided here: that is in `rules`, `scaleup`, `scaledown` and `consolidation`.
"""

from typing import TYPE_CHECKING

from tonnage.api.cluster import Cluster, Explanation, load
from tonnage.api.cluster_objects import read
from tonnage.api.overview import NodeReasons, Overview
from tonnage.api.slots import DriverTotal, SlotReport, SlotUse
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import Code
from tonnage.rules.pipeline import Verdict

if TYPE_CHECKING:
    from tonnage.api.stranded_capacity import SlotShare, StrandingReport

__all__ = [
    "Cause",
    "Cluster",
    "Code",
    "DriverTotal",
    "Explanation",
    "NodeReasons",
    "Overview",
    "Reason",
    "SlotReport",
    "SlotShare",
    "SlotUse",
    "StrandingReport",
    "Verdict",
    "load",
    "read",
]


def __getattr__(name: str) -> object:
    # Of no use to a plan, and with other packages behind it.
    if name in ("SlotShare", "StrandingReport"):
        from tonnage.api import stranded_capacity

        return getattr(stranded_capacity, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
