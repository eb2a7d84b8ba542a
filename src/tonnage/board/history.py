"""The timeline: how the cluster was at moments of the past, and decisions as marks on it."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from tonnage.autoscaler.report import LoggedDecision
from tonnage.board.moment import Moment
from tonnage.board.node_rows import NodeTable
from tonnage.objects.meta import Record
from tonnage.objects.phrases import counted, listed

_GO_TIME = "%Y-%m-%d %H:%M:%S.%f +0000 UTC"

KEPT = 720
"""Samples; when there are more, every second one of the older half goes."""


class BoardSample(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`groups` are nodes by group, `slots` used and limit by driver; cost is per hour."""

    at: float
    groups: dict[str, int]
    pending: int
    slots: dict[str, tuple[int, int]]
    cost: float | None


class DecisionMark(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A decision as a mark; `nodes` are bought or, below zero, given back."""

    at: float
    text: str
    nodes: int
    left_out: int
    failed: bool


class BoardHistory:
    """Samples oldest first, never more than `KEPT`; a moment like the one before is no news."""

    def __init__(self) -> None:
        self.samples: dict[str, BoardSample] = {}

    def take(self, moment: Moment, nodes: NodeTable, *, pending: int) -> BoardSample:
        """Keep how it is now, and give it."""
        now = _sample(moment, nodes, pending=pending)
        last = list(self.samples)[-2:]
        if len(last) == 2 and all(_same(self.samples[one], now) for one in last):
            # The end of a quiet stretch moves along.
            del self.samples[last[-1]]
        self.samples[f"{now.at:.1f}"] = now
        if len(self.samples) > KEPT:
            old = list(self.samples)[: KEPT // 2]
            for one in old[1::2]:
                del self.samples[one]
        return now


def _sample(moment: Moment, nodes: NodeTable, *, pending: int) -> BoardSample:
    sizes = nodes.group_sizes()
    groups: dict[str, int] = {}
    cost, priced = 0.0, False
    for group in moment.inputs.groups:
        there = groups[group.id] = sizes.get(group.id, 0)
        if group.price_per_hour is not None:
            priced = True
            cost += group.price_per_hour * there
    others = len(nodes.names) - sum(groups.values())
    if others:
        groups[""] = others
    slots: dict[str, tuple[int, int]] = {}
    for number, lane in enumerate(nodes.lanes):
        if lane.kind == "driver":
            at = 6 + 4 * number
            limit = nodes.rows[:, at + 3]
            taken = nodes.rows[:, at] + nodes.rows[:, at + 1]
            slots[lane.name] = int(taken.sum()), int(limit[limit > 0].sum())
    return BoardSample(
        at=round(moment.now, 1),
        groups=groups,
        pending=pending,
        slots=slots,
        cost=round(cost, 4) if priced else None,
    )


def _same(one: BoardSample, other: BoardSample) -> bool:
    return msgspec.structs.replace(one, at=other.at) == other


def marks(decisions: Sequence[LoggedDecision]) -> dict[str, DecisionMark]:
    """Decisions by their time, which tells them apart."""
    return {mark_id(one): _mark(one) for one in decisions}


def mark_id(one: LoggedDecision) -> str:
    """What tells a decision from others."""
    return f"{one.time}#{len(one.plan.steps)}"


def _mark(one: LoggedDecision) -> DecisionMark:
    deeds = [
        f"{'+' if done.deed == 'increase' else '-'}{done.nodes} {done.group}" for done in one.done
    ]
    bought = sum(done.nodes for done in one.done if done.deed == "increase")
    gone = sum(done.nodes for done in one.done if done.deed != "increase")
    if not one.done:
        deeds = [f"would buy {scale.delta} of {scale.group}" for scale in one.plan.scale_ups]
        bought = sum(scale.delta for scale in one.plan.scale_ups)
    text = listed(deeds) if deeds else f"nothing helps {counted(len(one.plan.not_helped))}"
    return DecisionMark(
        at=datetime.strptime(one.time, _GO_TIME).replace(tzinfo=UTC).timestamp(),
        text=text,
        nodes=bought - gone,
        left_out=len(one.plan.not_helped),
        failed=any(done.error for done in one.done),
    )
