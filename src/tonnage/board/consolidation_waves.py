"""What consolidation has decided: which nodes go in which wave, for what, and what is saved."""

from collections.abc import Mapping
from decimal import Decimal

from tonnage.autoscaler.consolidation.report import ConsolidationDocument
from tonnage.consolidation.plan import ConsolidatedNode, ConsolidationPlan, PodMove
from tonnage.objects.meta import Record
from tonnage.objects.phrases import counted


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
