"""What a round of scale-down came to, for status, metrics and whoever asks about a node."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tonnage.autoscaler.scaledown.removals import Removal
from tonnage.scaledown.plan import ScaleDownPlan


class ScaleDownReport(NamedTuple):
    """`held` says why nothing was decided; `last_failure` is of the last removal that failed."""

    enabled: bool = False
    held: str = ""
    plan: ScaleDownPlan | None = None
    unneeded: Mapping[str, float] = MappingProxyType({})
    removals: Mapping[str, Removal] = MappingProxyType({})
    closed: tuple[str, ...] = ()
    """Reasons for which nodes may not go now, because no window is open."""
    last_failure: str = ""
    problems: tuple[str, ...] = ()
