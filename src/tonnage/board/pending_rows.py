"""Pods that wait for a node, alike ones in one row: why, what cures it, and what comes for them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tonnage.api import overview
from tonnage.board.moment import Moment
from tonnage.board.plan_summary import amount
from tonnage.objects import timestamps
from tonnage.objects.meta import Record
from tonnage.objects.phrases import counted
from tonnage.rules import pipeline
from tonnage.rules.causes import Shortage
from tonnage.scaleup import decision
from tonnage.scaleup.plan import Plan
from tonnage.snapshot.snapshot import PodRecord, Snapshot

LOOKED_AT = 60
"""Rows whose nodes are asked one by one; those of more are the scheduler's own words."""

SHOWN = 20
_MESSAGE = "PodScheduled"


class NodesRefusing(Record, frozen=True, kw_only=True, omit_defaults=False):
    """So many nodes refuse in these words."""

    nodes: int
    reason: str


class PendingRow(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Pods that every node answers the same. `fate` says in a word what becomes of them."""

    pods: tuple[str, ...]
    count: int
    since: str
    reason: str
    refusals: tuple[NodesRefusing, ...]
    fits: int
    cure: str
    fate: str
    bought: str
    """What is bought for it, and when such nodes usually are there."""
    volumes: int


class PendingReader:
    """Reads who waits; of rows that are as they were before, nothing is asked again."""

    def __init__(self, *, at_once: int = LOOKED_AT) -> None:
        """`at_once` rows are asked about for one moment; others keep their answer meanwhile."""
        self._at_once = at_once
        self._before: dict[str, tuple[object, PendingRow]] = {}

    def read(self, moment: Moment, *, revision: object) -> dict[str, PendingRow]:
        """Rows by their first pod. `revision` differs whenever answers of nodes may."""
        snapshot = moment.inputs.cluster.snapshot
        records = sorted(moment.inputs.cluster.pods_without_node(), key=lambda one: one.order)
        waiting = [one for one in records if one.pending]
        places = _Places.of(moment.plan)
        starts = start_times(moment)
        found: dict[str, tuple[object, PendingRow]] = {}
        groups = sorted(overview.alike(snapshot, waiting), key=lambda pods: -len(pods))
        left = self._at_once
        for number, pods in enumerate(groups):
            key = pods[0]
            state = (revision, pods, places.about(key))
            known = self._before.get(key)
            if known is not None and known[0] == state:
                found[key] = known
                continue
            if known is not None and not left and known[1].count == len(pods):
                found[key] = known
                continue
            asked = number < LOOKED_AT and left > 0
            left -= asked
            row = _row(moment, snapshot.pods[key], pods, places=places, starts=starts, asked=asked)
            found[key] = (state if asked or number >= LOOKED_AT else None, row)
        self._before = found
        return {key: row for key, (_, row) in found.items()}


def row_of(moment: Moment, record: PodRecord) -> PendingRow:
    """The row of one pod that waits."""
    places, starts = _Places.of(moment.plan), start_times(moment)
    return _row(moment, record, (record.key,), places=places, starts=starts, asked=True)


class _Places(NamedTuple):
    """What a plan says of pods, by namespace/name."""

    existing: Mapping[str, str]
    bought: Mapping[str, str]
    left_out: Mapping[str, str]
    deltas: Mapping[str, int]
    planned: bool

    @classmethod
    def of(cls, plan: Plan | None) -> "_Places":
        if plan is None:
            return cls({}, {}, {}, {}, planned=False)
        bought = {
            pod: one.group for one in plan.scale_ups for node in one.nodes for pod in node.pods
        }
        left_out = {}
        for one in plan.not_helped:
            near = one.nearest
            if near is not None:
                left_out[one.pod] = (
                    f"a node of {near.group} with {amount(near.resource, near.wanted)}:"
                    f" a new one has {amount(near.resource, max(near.available, 0))}"
                )
            else:
                first = next((text for why in one.reasons for text in why.reasons), "")
                left_out[one.pod] = f"no group helps: {first}" if first else "no group helps"
        return cls(
            {one.pod: one.node for one in plan.all_on_existing},
            bought,
            left_out,
            {one.group: one.delta for one in plan.scale_ups},
            planned=True,
        )

    def about(self, pod: str) -> tuple[object, ...]:
        group = self.bought.get(pod)
        return self.existing.get(pod), group, self.deltas.get(group or ""), self.left_out.get(pod)


def _row(
    moment: Moment,
    record: PodRecord,
    pods: tuple[str, ...],
    *,
    places: _Places,
    starts: Mapping[str, float],
    asked: bool,
) -> PendingRow:
    snapshot = moment.inputs.cluster.snapshot
    reason, refusals, fits, nearest = (
        _answers(moment, record) if asked else (_said(moment, record), (), 0, "")
    )
    fate, cure = _fate(record.key, places, nearest, fits=fits)
    group = places.bought.get(record.key)
    bought = ""
    if group is not None:
        bought = f"{counted(places.deltas[group], 'node')} of {group}"
        if group in starts:
            bought += f", usually ready after {_duration(starts[group])}"
    return PendingRow(
        pods=pods[:SHOWN],
        count=len(pods),
        since=_since(snapshot, pods),
        reason=reason,
        refusals=refusals,
        fits=fits,
        cure=cure,
        fate=fate,
        bought=bought,
        volumes=len(record.volumes),
    )


def _answers(moment: Moment, record: PodRecord) -> tuple[str, tuple[NodesRefusing, ...], int, str]:
    inputs = moment.inputs
    features = decision.as_decided(inputs.features, inputs.options)
    verdicts = pipeline.evaluate(inputs.cluster.snapshot, record, features)
    refusals = sorted(verdicts.refusals(), key=lambda one: -len(one.rows))
    shown = tuple(
        NodesRefusing(nodes=len(one.rows), reason="; ".join(one.texts) or str(one.code))
        for one in refusals
    )
    fits = int(verdicts.fits.sum())
    short = []
    for one in refusals[:8]:
        row = int(one.rows[0])
        verdict = verdicts.at(row, inputs.cluster.snapshot.name_of(row))
        lacks = [reason.shortage for reason in verdict.reasons if reason.shortage is not None]
        if lacks and len(lacks) == len(verdict.reasons):
            short.append((max(lacks, key=lambda lack: lack.lack), verdict.node))
    nearest = ""
    if short:
        least, node = min(short, key=lambda pair: pair[0].lack)
        nearest = _shortage(least, node)
    return verdicts.summary(), shown, fits, nearest


def _shortage(least: Shortage, node: str) -> str:
    missing = max(1, least.wanted - least.available)
    left = amount(least.resource, max(least.available, 0))
    return f"{amount(least.resource, missing)} more on {node}, which has {left} left"


def _fate(pod: str, places: _Places, nearest: str, *, fits: int) -> tuple[str, str]:
    """What becomes of a pod in a word, and the smallest change that cures it."""
    if pod in places.existing:
        return "placed", f"none: it fits on {places.existing[pod]}"
    if pod in places.bought:
        return "bought", f"one more node of {places.bought[pod]}"
    if pod in places.left_out:
        return "stuck", nearest or places.left_out[pod]
    if fits:
        return "placed", f"none: it fits on {counted(fits, 'node')}"
    return ("stuck" if places.planned else "waits"), nearest


def _said(moment: Moment, record: PodRecord) -> str:
    """What the scheduler itself has said of the pod."""
    pod = moment.inputs.cluster.pod(record.key)
    for condition in pod.status.conditions if pod is not None else ():
        if condition.type == _MESSAGE and condition.status == "False":
            return condition.message or condition.reason
    return "not looked at"


def _since(snapshot: Snapshot, pods: Sequence[str]) -> str:
    times = (snapshot.pods[pod].meta.creation_timestamp for pod in pods)
    return min((time for time in times if time), default="")


def start_times(moment: Moment) -> dict[str, float]:
    """By group, the seconds that a node usually takes from being made to being ready."""
    found: dict[str, float] = {}
    for group in moment.inputs.groups:
        times = sorted(_start_times_of(moment, group.nodes[-20:]))
        if times:
            found[group.id] = times[len(times) // 2]
    return found


def _start_times_of(moment: Moment, nodes: Iterable[str]) -> Iterable[float]:
    for name in nodes:
        node = moment.inputs.nodes.get(name)
        made = timestamps.moment(node.metadata.creation_timestamp) if node is not None else None
        if node is None or made is None:
            continue
        for condition in node.status.conditions:
            if condition.type == "Ready" and condition.status == "True":
                ready = timestamps.moment(condition.last_transition_time)
                if ready is not None and 0 <= ready - made < 3600:
                    yield ready - made


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02d} s"
