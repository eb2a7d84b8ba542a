"""What another autoscaler did beside what Tonnage decided, pod by pod and group by group.

Theirs is read from events and the status ConfigMap, as cluster-autoscaler writes them; ours from
decisions. Of a pod the first word of either counts: later ones follow from it. Both speak about a
pod under the same name, so a pod that only one of them has spoken about is a difference too.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import yaml

from tonnage.autoscaler.report import LoggedDecision
from tonnage.errors import InputError
from tonnage.objects.meta import Record

Outcome: TypeAlias = Literal["bought", "fits", "left out", "nothing"]

BOUGHT: Outcome = "bought"
FITS: Outcome = "fits"
LEFT_OUT: Outcome = "left out"
NOTHING: Outcome = "nothing"

TRIGGERED = "TriggeredScaleUp"
NOT_TRIGGERED = "NotTriggerScaleUp"
SCALED_UP_GROUP = "ScaledUpGroup"
REASONS = (TRIGGERED, NOT_TRIGGERED, SCALED_UP_GROUP)

_TRIGGER = re.compile(r"\{(\S+) ([0-9]+)->([0-9]+) \(max: ([0-9]+)\)\}")
_GROUP_SIZE = re.compile(r"group (\S+) size (?:set )?to ([0-9]+) instead of ([0-9]+)")


class Word(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What one of the two said of a pod first."""

    outcome: Outcome = NOTHING
    groups: tuple[str, ...] = ()
    time: str = ""
    reason: str = ""


class PodComparison(Record, frozen=True, kw_only=True, omit_defaults=False):
    pod: str
    same: bool
    theirs: Word
    ours: Word


class GroupComparison(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Nodes that each asked for, or would have; `None` where the group is not known."""

    group: str
    same: bool
    theirs: int | None
    ours: int | None
    their_target: int | None = None
    their_status: str = ""


class DecisionComparison(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`since` and `until` are the times of our first and last decision."""

    same: bool
    since: str
    until: str
    decisions: int
    events: int
    pods: tuple[PodComparison, ...]
    groups: tuple[GroupComparison, ...]
    warnings: tuple[str, ...] = ()


class AutoscalerEvent(Record, frozen=True, kw_only=True):
    """An event of the other autoscaler; `subject` is namespace/name of what it is about."""

    reason: str
    subject: str
    message: str
    time: str = ""


def compare(
    decisions: Sequence[LoggedDecision],
    events: Sequence[AutoscalerEvent],
    status: Mapping[str, Any],
) -> DecisionComparison:
    """Where they differ; `status` is the document in the status ConfigMap, or empty."""
    theirs, ours = _their_words(events), _our_words(decisions)
    pods = tuple(
        _pod_row(pod, theirs.get(pod, Word()), ours.get(pod, Word()))
        for pod in sorted({*theirs, *ours})
    )
    groups = tuple(_group_rows(decisions, events, status))
    times = sorted(one.time for one in decisions)
    return DecisionComparison(
        same=all(one.same for one in pods) and all(one.same for one in groups),
        since=times[0] if times else "",
        until=times[-1] if times else "",
        decisions=len(decisions),
        events=len(events),
        pods=pods,
        groups=groups,
        warnings=tuple(_warnings(decisions, events, status)),
    )


def read_status(text: str) -> dict[str, Any]:
    """The status ConfigMap's document; the text of versions before 1.30 has no groups for us."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"status ConfigMap: not YAML: {' '.join(str(error).split())}") from error
    return document if isinstance(document, dict) else {}


def read_events(documents: Iterable[Mapping[str, Any]]) -> list[AutoscalerEvent]:
    """Those that matter here, oldest first."""
    found = []
    for document in documents:
        if document.get("kind") != "Event" or document.get("reason") not in REASONS:
            continue
        about = document.get("involvedObject") or document.get("regarding") or {}
        subject = "/".join(filter(None, (about.get("namespace"), about.get("name"))))
        times = (document.get("firstTimestamp"), document.get("eventTime"),
                 (document.get("metadata") or {}).get("creationTimestamp"))  # fmt: skip
        found.append(
            AutoscalerEvent(
                reason=document["reason"],
                subject=subject,
                message=str(document.get("message") or document.get("note") or ""),
                time=next((str(one) for one in times if one), ""),
            )
        )
    return sorted(found, key=lambda one: (one.time, one.subject, one.reason))


def _their_words(events: Sequence[AutoscalerEvent]) -> dict[str, Word]:
    """A refusal that a purchase follows was a word on the way; the purchase counts."""
    words: dict[str, Word] = {}
    for event in events:
        before = words.get(event.subject)
        if event.reason == TRIGGERED and (before is None or before.outcome == LEFT_OUT):
            groups = tuple(match[0] for match in _TRIGGER.findall(event.message))
            words[event.subject] = Word(
                outcome=BOUGHT, groups=groups, time=event.time, reason=event.message
            )
        elif event.reason == NOT_TRIGGERED and before is None:
            words[event.subject] = Word(outcome=LEFT_OUT, time=event.time, reason=event.message)
    return words


def _our_words(decisions: Sequence[LoggedDecision]) -> dict[str, Word]:
    words: dict[str, Word] = {}

    def say(pod: str, word: Word) -> None:
        before = words.get(pod)
        if before is None or (before.outcome == LEFT_OUT and word.outcome != LEFT_OUT):
            words[pod] = word

    for decision in sorted(decisions, key=lambda one: one.time):
        plan, time = decision.plan, decision.time
        reasons = {pod: step.reason for step in plan.steps for pod in step.pods}
        for bought in plan.scale_ups:
            for node in bought.nodes:
                for pod in node.pods:
                    reason = reasons.get(pod, "")
                    say(pod, Word(outcome=BOUGHT, groups=(bought.group,), time=time, reason=reason))
        for placed in plan.all_on_existing:
            reason = f"there is room on {placed.node}"
            say(placed.pod, Word(outcome=FITS, time=time, reason=reason))
        for left in plan.not_helped:
            texts = dict.fromkeys(text for one in left.reasons for text in one.reasons)
            say(left.pod, Word(outcome=LEFT_OUT, time=time, reason=", ".join(texts)))
    return words


def _pod_row(pod: str, theirs: Word, ours: Word) -> PodComparison:
    same = theirs.outcome == ours.outcome
    if same and theirs.outcome == BOUGHT:
        same = any(_is_same_group(one, other) for one in theirs.groups for other in ours.groups)
    # Who has room needs no event, so their silence agrees with ours.
    if (theirs.outcome, ours.outcome) == (NOTHING, FITS):
        same = True
    return PodComparison(pod=pod, same=same, theirs=theirs, ours=ours)


def _group_rows(
    decisions: Sequence[LoggedDecision],
    events: Sequence[AutoscalerEvent],
    status: Mapping[str, Any],
) -> Iterable[GroupComparison]:
    ours: dict[str, int] = {}
    for decision in decisions:
        for limit in decision.plan.limits:
            ours.setdefault(limit.group, 0)
        for done in decision.done:
            if done.deed == "increase" and not done.error:
                ours[done.group] = ours.get(done.group, 0) + done.nodes
    steps: set[tuple[str, int, int]] = set()
    for event in events:
        for group, before, after, _ in _TRIGGER.findall(event.message):
            steps.add((group, int(before), int(after)))
        if event.reason == SCALED_UP_GROUP:
            for group, after, before in _GROUP_SIZE.findall(event.message):
                steps.add((group, int(before), int(after)))
    theirs: dict[str, int] = {}
    for group, before, after in steps:
        theirs[group] = theirs.get(group, 0) + after - before
    known = {
        str(one.get("name")): one for one in status.get("nodeGroups") or () if isinstance(one, dict)
    }
    for group in known:
        theirs.setdefault(group, 0)
    names = {
        name: next((one for one in ours if _is_same_group(one, name)), None) for name in theirs
    }
    for group in sorted(theirs):
        mine = names[group]
        yield _group_row(group, theirs[group], ours[mine] if mine else None, known.get(group, {}))
    for group in sorted(set(ours) - set(names.values())):
        if ours[group]:
            yield _group_row(group, None, ours[group], {})


def _group_row(
    group: str, theirs: int | None, ours: int | None, status: Mapping[str, Any]
) -> GroupComparison:
    health = status.get("health") or {}
    target = health.get("cloudProviderTarget")
    return GroupComparison(
        group=group,
        same=(theirs or 0) == (ours or 0),
        theirs=theirs,
        ours=ours,
        their_target=target if isinstance(target, int) else None,
        their_status=str((status.get("scaleUp") or {}).get("status") or ""),
    )


def _warnings(
    decisions: Sequence[LoggedDecision],
    events: Sequence[AutoscalerEvent],
    status: Mapping[str, Any],
) -> Iterable[str]:
    if not decisions:
        yield "there is no decision of Tonnage to compare with"
    if not events:
        yield "there is no event of the other autoscaler: the API server keeps them for an hour"
    if not status:
        yield "there is no status of the other autoscaler: groups are known from events alone"
    acted = [one for one in decisions for done in one.done if not done.dry_run]
    if acted:
        yield "Tonnage has acted itself in this time: it did not run in dry-run"


def _is_same_group(one: str, other: str) -> bool:
    """Google's groups are addresses, of which the last part is the name."""
    return one == other or one.rsplit("/", 1)[-1] == other.rsplit("/", 1)[-1]
