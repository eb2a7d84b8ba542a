"""Taints and the tolerations that let a pod onto a tainted node all the same."""

import re
from collections.abc import Iterable

from tonnage.objects import selectors
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import Toleration

_FILTERING_EFFECTS = ("NoSchedule", "NoExecute")
_DECIMAL = r"0|-?[1-9][0-9]{0,18}"


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Whether a toleration covers a taint.

    `Lt` and `Gt` cover nothing unless `comparison_operators` (the feature gate
    TaintTolerationComparisonOperators) is on.
    """
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if comparison_operators:
            bound, actual = _number(toleration.value), _number(taint.value)
            if bound is None or actual is None:
                return False
            return actual < bound if toleration.operator == "Lt" else actual > bound
    return False


def untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    *,
    comparison_operators: bool = False,
) -> Taint | None:
    """The first taint that keeps the pod off the node; preferences (PreferNoSchedule) never do."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in _FILTERING_EFFECTS and not any(
            tolerates(t, taint, comparison_operators=comparison_operators) for t in tolerations
        ):
            return taint
    return None


def _number(text: str) -> int | None:
    """A 64-bit integer as people write it: no leading zeros, no plus sign."""
    return selectors.integer(text) if re.fullmatch(_DECIMAL, text) else None
