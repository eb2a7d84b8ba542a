"""Whether volumes are why pods have no node: what would be different if they had none."""

import sys
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from tonnage.rules import pipeline, registry
from tonnage.rules.features import Features
from tonnage.rules.framework import Aspect
from tonnage.scaleup import pod_groups
from tonnage.snapshot.snapshot import PodRecord, Snapshot

Blame: TypeAlias = Literal["true", "false", "unknown"]

OF_VOLUMES = registry.names_about(Features(), Aspect.VOLUMES)
"""Rules that refuse a node for the volumes of a pod."""

_ASKED_FOR = 100
"""Groups of equal pods that are looked at; more would take longer than it is worth."""


def because_of_volumes(
    snapshot: Snapshot,
    pending: Iterable[PodRecord],
    features: Features,
    *,
    simpler_than: int = sys.maxsize,
    out_of_time: Callable[[], bool] = lambda: False,
) -> dict[Blame, int]:
    """How many pods some node would have taken but for their volumes.

    What comes before volumes in the scheduler's order has nothing against such a node. It is left
    open for pods that are more work than `simpler_than`, and for all from `out_of_time` on.
    """
    found: dict[Blame, int] = {"true": 0, "false": 0, "unknown": 0}
    with_volumes = []
    for record in pending:
        if record.volumes:
            with_volumes.append(record)
        else:
            found["false"] += 1
    groups = pod_groups.group(snapshot, with_volumes) if with_volumes else []
    for number, group in enumerate(groups):
        blame: Blame = "unknown"
        simple = group.sample.complexity <= simpler_than
        if number < _ASKED_FOR and simple and not out_of_time():
            blame = "true" if _is_to_blame(snapshot, group.sample, features) else "false"
        found[blame] += group.size
    return found


def _is_to_blame(snapshot: Snapshot, pod: PodRecord, features: Features) -> bool:
    verdicts = pipeline.evaluate(snapshot, pod, features)
    if verdicts.fits.any():
        return False
    about_volumes = registry.names_about(features, Aspect.VOLUMES)
    return any(refusal.plugin in about_volumes for refusal in verdicts.refusals())
