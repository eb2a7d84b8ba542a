"""Why a pod is not helped: what each group says to it, and which comes nearest."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tonnage.groups import daemons
from tonnage.rules import pipeline, registry
from tonnage.rules.causes import Shortage
from tonnage.rules.features import Features
from tonnage.rules.framework import Aspect, Code
from tonnage.rules.pipeline import Verdict
from tonnage.scaleup.budget import Budget
from tonnage.scaleup.candidates import Candidates
from tonnage.scaleup.plan import GroupReason, Nearest, NotHelped
from tonnage.snapshot.snapshot import PodRecord, Snapshot

if TYPE_CHECKING:
    from tonnage.scaleup.pod_groups import PodGroup


def is_daemon(record: PodRecord) -> bool:
    """Pods of DaemonSets come with their nodes; nothing is bought for them."""
    return daemons.is_daemon(record.meta)


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
    passing = registry.names_about(features, Aspect.OTHER_PODS)
    never = (
        bool(template_rows)
        and len(refusals) == len(template_rows)
        and all(
            verdict.phase == "Filter" and verdict.plugin not in passing and not _temporary(verdict)
            for verdict in refusals
        )
    )
    nearest = _nearest(refusals)
    shared = tuple(reasons)
    return [
        NotHelped(pod=pod.key, never_fits=never, nearest=nearest, reasons=shared)
        for pod in group.members
    ]


def _temporary(verdict: Verdict) -> bool:
    """Whether it would do if other pods of the plan had not taken of it."""
    return any(reason.shortage and reason.shortage.temporary for reason in verdict.reasons)


def _nearest(refusals: Sequence[Verdict]) -> Nearest | None:
    """The group that lacks the smallest part of what is wanted, among those that lack amounts."""
    worst: list[tuple[str, Shortage]] = []
    for verdict in refusals:
        short = [reason.shortage for reason in verdict.reasons if reason.shortage is not None]
        if short and len(short) == len(verdict.reasons):
            worst.append((verdict.node, max(short, key=lambda one: one.lack)))
    if not worst:
        return None
    group, least = min(worst, key=lambda one: one[1].lack)
    return Nearest(
        group=group, resource=least.resource, wanted=least.wanted, available=least.available
    )
