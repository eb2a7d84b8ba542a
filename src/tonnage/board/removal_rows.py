"""Nodes and whether they go: needed, unneeded since when, blocked by what, on their way out."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

from tonnage.autoscaler.consolidation.report import ConsolidationDocument
from tonnage.autoscaler.scaledown.report import NodeReport, ScaleDownDocument
from tonnage.board.moment import Moment
from tonnage.consolidation.plan import ConsolidatedNode, ConsolidationPlan, PodMove
from tonnage.objects.meta import Record
from tonnage.objects.phrases import counted

Fate: TypeAlias = Literal["going", "goes", "waits", "blocked", "needed", "notOurs"]

_FREE = 8
_BUSY = "NotUnderutilized"


class RemovalRow(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`fate`: on its way out, goes next, unneeded and waiting, kept by something, needed, or in no
    group of ours. `why` is the reason in words, `frees` the smallest change that lets it go."""

    fate: Fate
    group: str
    why: str
    wave: int | None
    since: str
    until: str
    saves: str
    moves: tuple[str, ...]
    detach: int
    frees: str
    fill: int
    """Share of the resource that decides, in thousandths."""


class ConsolidationWave(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Pods that move at the same time, and the nodes that go after them; `price` is theirs."""

    wave: int
    nodes: tuple[str, ...]
    moves: int
    detach: int
    price: str


class ConsolidationSummary(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`before`, `after` and `bound` are what all nodes cost in an hour, or how many there are
    where nothing has a price. `missed` says what was not worth it or not allowed."""

    held: str
    under_way: str
    unit: str
    before: str
    after: str
    bound: str
    saves_per_hour: str
    cost_of_moves: str
    buys: tuple[str, ...]
    waves: tuple[ConsolidationWave, ...]
    missed: tuple[str, ...]


class RemovalSummary(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`told` says that somebody decides on this; `held` why nothing goes now."""

    told: bool = False
    enabled: bool = False
    time: str = ""
    held: str = ""
    going: int = 0
    goes: int = 0
    waves: int = 0
    saves_per_hour: float | None = None
    consolidation: ConsolidationSummary | None = None


class RemovalReader:
    """Reads rows anew only when there is another document."""

    def __init__(self) -> None:
        self._document: ScaleDownDocument | None = None
        self._rows: dict[str, RemovalRow] = {}
        self._summary = RemovalSummary()

    def read(self, moment: Moment) -> tuple[Mapping[str, RemovalRow], RemovalSummary]:
        document = moment.scale_down
        if document is None:
            return {}, RemovalSummary()
        if document is not self._document:
            self._document = document
            self._rows = {one.decision.node: _row(one) for one in document.nodes}
            if document.consolidation is not None:
                self._rows |= _consolidated(document.consolidation, self._rows)
            self._summary = _summary(document, self._rows)
        return self._rows, self._summary


def _consolidated(
    document: ConsolidationDocument, rows: Mapping[str, RemovalRow]
) -> dict[str, RemovalRow]:
    """Rows of nodes that stay by themselves and go in a consolidation."""
    moves, found = moves_from(document), {}
    for name, node in going(document).items():
        row = rows.get(name)
        if row is None or row.fate in ("going", "goes"):
            continue
        leaving = moves.get(name, [])
        detach = sum(len(one.detach) for one in leaving)
        why = f"consolidation: {counted(len(leaving), 'pod')} to move"
        if detach:
            why += f", {counted(detach, 'volume')} to detach"
        found[name] = msgspec.structs.replace(
            row,
            fate="goes",
            why=why,
            wave=node.wave,
            # What is bought instead has its price: only the whole plan can tell what is saved.
            saves="",
            moves=_shortened([f"{one.pod} to {one.to}" for one in leaving]),
            detach=detach,
            frees="",
        )
    return found


def _shortened(moves: Sequence[str]) -> tuple[str, ...]:
    more = len(moves) - _FREE
    return (*moves[:_FREE], f"and {more:,} more") if more > 0 else tuple(moves)


def _row(report: NodeReport) -> RemovalRow:
    node, removal = report.decision, report.removal
    moves = _shortened([f"{move.pod} to {move.to}" for move in node.moves])
    detach = sum(len(move.detach) for move in node.moves)
    fate: Fate
    if removal is not None:
        fate = "going"
        why = f"{removal.stage}: {removal.reason}"
        if removal.moves and not moves:
            moves = tuple(f"{pod} to {to}" for pod, to in list(removal.moves.items())[:_FREE])
    elif node.goes:
        fate = "goes"
        why = "empty" if node.action == "delete" else f"drained: {len(node.moves):,} pods move"
        if detach:
            why += f", {detach:,} volumes detach first"
    elif node.group is None or node.not_candidate == "no group":
        fate, why = "notOurs", "in no node group"
    elif node.until:
        fate, why = "waits", f"unneeded since {node.since}, may go at {node.until}"
    elif node.candidate or node.pod:
        busy = node.reason in (None, _BUSY)
        fate = "needed" if busy and not node.pod else "blocked"
        why = _blocked(report)
    else:
        fate, why = "needed", node.not_candidate or node.reason or ""
    fill = node.utilisation.value if node.utilisation is not None else 0.0
    return RemovalRow(
        fate=fate,
        group=node.group or "",
        why=why,
        wave=node.wave,
        since=node.since or "",
        until=node.until or "",
        saves=node.saves or "",
        moves=moves,
        detach=detach,
        frees=node.frees or "",
        fill=round(min(fill, 10.0) * 1000) if fill == fill else 0,
    )


def _blocked(report: NodeReport) -> str:
    node = report.decision
    words = [node.reason or node.code or "kept"]
    if node.pod:
        words.append(f"pod {node.pod}")
    if node.pod_reason:
        words.append(node.pod_reason)
    if node.message:
        words.append(node.message)
    return ": ".join(words)


def _summary(document: ScaleDownDocument, rows: Mapping[str, RemovalRow]) -> RemovalSummary:
    leaving = [row for row in rows.values() if row.fate in ("going", "goes")]
    saved = [float(row.saves) for row in leaving if row.saves]
    plan = document.consolidation.plan if document.consolidation is not None else None
    if plan is not None and plan.going and plan.cost.unit == "price":
        saved.append(float(plan.saves_per_hour))
    closed = ", ".join(document.outside_windows)
    held = (
        document.held or document.cool_down or (f"no window is open for {closed}" if closed else "")
    )
    return RemovalSummary(
        told=True,
        enabled=document.enabled,
        time=document.time,
        held=held,
        going=sum(row.fate == "going" for row in leaving),
        goes=sum(row.fate == "goes" for row in leaving),
        waves=max((row.wave or 0 for row in leaving), default=0),
        saves_per_hour=round(sum(saved), 6) if saved else None,
        consolidation=summary(document.consolidation)
        if document.consolidation is not None
        else None,
    )


def summary(document: ConsolidationDocument) -> ConsolidationSummary:
    plan, step = document.plan or ConsolidationPlan(), document.under_way
    under_way = ""
    if step is not None:
        bought = ", ".join(f"+{count:,} {group}" for group, count in sorted(step.bought.items()))
        waits = f", once {bought} can be used" if bought else ""
        under_way = f"{counted(len(step.nodes), 'node')} on the way out{waits}"
    return ConsolidationSummary(
        held=document.held,
        under_way=under_way,
        unit=plan.cost.unit,
        before=plan.cost.before,
        after=plan.cost.after,
        bound=plan.cost.bound,
        saves_per_hour=plan.saves_per_hour,
        cost_of_moves=plan.cost_of_moves,
        buys=tuple(
            f"+{len(one.nodes):,} {one.group}{' (only while pods move)' if one.spare else ''}"
            for one in plan.buys
        ),
        waves=tuple(_wave(plan, number) for number in _numbers(plan)),
        missed=tuple(
            f"{one.reason}: {one.saves_per_hour} an hour, {counted(len(one.nodes), 'node')}"
            for one in plan.missed
        ),
    )


def going(document: ConsolidationDocument) -> Mapping[str, ConsolidatedNode]:
    """The nodes that the last plan replaces, by name."""
    return {} if document.plan is None else {one.node: one for one in document.plan.going}


def moves_from(document: ConsolidationDocument) -> Mapping[str, list[PodMove]]:
    """The pods that the last plan moves, by the node that they leave."""
    found: dict[str, list[PodMove]] = {}
    for move in document.plan.moves if document.plan is not None else ():
        found.setdefault(move.source, []).append(move)
    return found


def _numbers(plan: ConsolidationPlan) -> list[int]:
    """The waves; a node may go without that a pod has to move."""
    found = {move.wave for move in plan.moves}
    return sorted(found | {node.wave for node in plan.going if node.wave is not None})


def _wave(plan: ConsolidationPlan, number: int) -> ConsolidationWave:
    nodes = [one for one in plan.going if one.wave == number]
    moves = [one for one in plan.moves if one.wave == number]
    price = sum((Decimal(one.saves) for one in nodes if one.saves), Decimal(0))
    return ConsolidationWave(
        wave=number,
        nodes=tuple(one.node for one in nodes),
        moves=len(moves),
        detach=sum(len(one.detach) for one in moves),
        price=f"{price.normalize():f}" if price else "",
    )
