"""Why a pod is not helped: what each group says to it, and which comes nearest."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tonnage.rules import pipeline
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.features import Features
from tonnage.rules.framework import Code
from tonnage.rules.pipeline import Verdict
from tonnage.scaleup.budget import Budget
from tonnage.scaleup.candidates import Candidates, pool_resource, storage_resource
from tonnage.scaleup.plan import GroupReason, Nearest, NotHelped
from tonnage.snapshot.snapshot import PodRecord, Snapshot

if TYPE_CHECKING:
    from tonnage.scaleup.podgroups import PodGroup

_DAEMON_ANNOTATION = "cluster-autoscaler.kubernetes.io/daemonset-pod"

_PASSING = frozenset({"PodTopologySpread", "InterPodAffinity", "VolumeRestrictions", "NodePorts"})
"""Filters whose refusal of an empty node depends on what other pods do."""


def is_daemon(record: PodRecord) -> bool:
    """Pods of DaemonSets come with their nodes; nothing is bought for them."""
    owner = record.meta.controller
    return (owner is not None and owner.kind == "DaemonSet") or (
        record.meta.annotations.get(_DAEMON_ANNOTATION) == "true"
    )


def left_out(
    snapshot: Snapshot,
    groups: Iterable["PodGroup"],
    features: Features,
    *,
    candidates: Candidates,
    skipped: Mapping[str, str],
    budget: Budget,
) -> tuple[NotHelped, ...]:
    """Why each of the pods that a plan leaves out is not helped."""
    full = {
        one.name: why
        for one in candidates
        if (why := budget.why_full(one.group, one.template)) is not None
    }
    rows = {one.name: one.row.row for one in candidates}
    return tuple(
        one
        for group in groups
        for one in not_helped(
            snapshot, group, features, template_rows=rows, skipped=skipped, full=full
        )
    )


def not_helped(
    snapshot: Snapshot,
    group: "PodGroup",
    features: Features,
    *,
    template_rows: Mapping[str, int],
    skipped: Mapping[str, str],
    full: Mapping[str, str],
) -> list[NotHelped]:
    """The same answer for every member: verdicts on an empty node of each group.

    `skipped` are groups that may not be scaled, `full` those that have no room left, each with
    the reason in upstream's words.
    """
    verdicts = pipeline.evaluate(snapshot, group.sample, features)
    reasons: list[GroupReason] = []
    refusals: list[Verdict] = []
    for name, row in template_rows.items():
        verdict = verdicts.at(row, name)
        if verdict.code is not Code.SUCCESS:
            refusals.append(verdict)
            reasons.append(
                GroupReason(
                    group=name,
                    plugin=verdict.plugin,
                    code=str(verdict.code),
                    reasons=tuple(verdict.texts),
                )
            )
        else:
            why = skipped.get(name) or full.get(name) or "no node of it would hold the pod now"
            reasons.append(GroupReason(group=name, reasons=(why,)))
    reasons.extend(
        GroupReason(group=name, reasons=(why,))
        for name, why in skipped.items()
        if name not in template_rows
    )
    never = (
        bool(template_rows)
        and len(refusals) == len(template_rows)
        and all(
            verdict.phase == "Filter" and verdict.plugin not in _PASSING and not _taken(verdict)
            for verdict in refusals
        )
    )
    nearest = _nearest(refusals)
    shared = tuple(reasons)
    return [
        NotHelped(pod=pod.key, never_fits=never, nearest=nearest, reasons=shared)
        for pod in group.members
    ]


def _taken(verdict: Verdict) -> bool:
    """Whether storage would do if other pods of the plan had not taken of it."""
    return any(
        reason.cause is Cause.NOT_ENOUGH_STORAGE
        and (short := _shortage(reason)) is not None
        and short[2] < short[1] <= int(str(reason.facts["limit"]))
        for reason in verdict.reasons
    )


def _nearest(refusals: Sequence[Verdict]) -> Nearest | None:
    """The group that lacks the smallest part of what is wanted, among those that lack amounts."""
    best: tuple[float, Nearest] | None = None
    for verdict in refusals:
        short = [found for reason in verdict.reasons if (found := _shortage(reason)) is not None]
        if not short or len(short) < len(verdict.reasons):
            continue
        resource, wanted, available = max(short, key=lambda one: _lack(one[1], one[2]))
        lack = _lack(wanted, available)
        if best is None or lack < best[0]:
            nearest = Nearest(
                group=verdict.node, resource=resource, wanted=wanted, available=available
            )
            best = (lack, nearest)
    return None if best is None else best[1]


def _lack(wanted: int, available: int) -> float:
    return (wanted - available) / wanted if wanted else 0.0


def _shortage(reason: Reason) -> tuple[str, int, int] | None:
    """Resource, amount wanted and amount an empty node has; `None` if it is not about amounts."""
    facts = reason.facts
    match reason.cause:
        case Cause.MAX_VOLUME_COUNT:
            resource = str(facts["driver"])
        case Cause.INSUFFICIENT_RESOURCE:
            resource = str(facts["resource"])
        case Cause.SLOT_POOL_EXHAUSTED:
            resource = pool_resource(str(facts["pool"]))
        case Cause.NOT_ENOUGH_STORAGE if facts:
            resource = storage_resource(str(facts["storage_class"]))
        case _:
            return None
    limit, used, wanted = facts["limit"], facts["used"], facts["wanted"]
    assert isinstance(limit, int)
    assert isinstance(used, int)
    assert isinstance(wanted, int)
    return resource, wanted, limit - used
