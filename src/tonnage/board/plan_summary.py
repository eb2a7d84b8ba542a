"""A plan for people: what is bought, for whom, at which price, and what differs from before."""

from collections.abc import Iterable, Sequence

from tonnage.groups.model import Group
from tonnage.objects.meta import Record
from tonnage.objects.phrases import counted
from tonnage.scaleup import plan_diff
from tonnage.scaleup.plan import Plan

SHOWN = 50


class PurchaseRow(Record, frozen=True, kw_only=True, omit_defaults=False):
    group: str
    nodes: int
    size: int
    """Nodes of the group afterwards, of at most `max_size`."""
    max_size: int
    cost_per_hour: float | None
    binding: str
    pods: int
    some_pods: tuple[str, ...]
    reason: str


class LeftOut(Record, frozen=True, kw_only=True, omit_defaults=False):
    pod: str
    why: str
    never_fits: bool


class PlanSummary(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`bound_nodes` and `bound_cost` are what no plan for the same pods goes below."""

    nodes: int = 0
    pods: int = 0
    on_existing: int = 0
    left_out: int = 0
    cost_per_hour: float | None = None
    bound_nodes: int = 0
    bound_cost: float | None = None
    gap: float = 0.0
    partial: bool = False
    purchases: tuple[PurchaseRow, ...] = ()
    not_helped: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    """What is other than in the plan before."""


def summary(plan: Plan, groups: Sequence[Group], *, before: Plan | None = None) -> PlanSummary:
    known = {group.id: group for group in groups}
    reasons = {step.chosen: step.reason for step in plan.steps}
    purchases = []
    for one in plan.scale_ups:
        group = known.get(one.group)
        pods = [pod for node in one.nodes for pod in node.pods]
        price = group.price_per_hour if group is not None else None
        purchases.append(
            PurchaseRow(
                group=one.group,
                nodes=one.delta,
                size=one.delta + (group.target if group is not None else 0),
                max_size=group.max_size if group is not None else 0,
                cost_per_hour=None if price is None else round(price * one.delta, 6),
                binding=one.binding,
                pods=len(pods),
                some_pods=tuple(pods[:5]),
                reason=reasons.get(one.group, ""),
            )
        )
    costs = [one.cost_per_hour for one in purchases]
    in_all = None if None in costs else round(sum(cost or 0.0 for cost in costs), 6)
    return PlanSummary(
        nodes=sum(one.nodes for one in purchases),
        pods=sum(one.pods for one in purchases),
        on_existing=len(plan.all_on_existing),
        left_out=len(plan.not_helped),
        cost_per_hour=in_all,
        bound_nodes=plan.bounds.nodes,
        bound_cost=plan.bounds.cost_per_hour,
        gap=plan.bounds.gap,
        partial=plan.partial,
        purchases=tuple(purchases),
        not_helped=tuple(_left_out(plan)),
        warnings=plan.warnings[:SHOWN],
        differences=tuple(differences(before, plan)) if before is not None else (),
    )


def _left_out(plan: Plan) -> Iterable[LeftOut]:
    for one in plan.not_helped[:SHOWN]:
        said = dict.fromkeys(text for why in one.reasons for text in why.reasons)
        near = one.nearest
        why = "; ".join(list(said)[:3])
        if near is not None:
            why += (
                f" (nearest: {near.group}; it wants {amount(near.resource, near.wanted)},"
                f" a new node has {amount(near.resource, max(near.available, 0))})"
            )
        yield LeftOut(pod=one.pod, why=why, never_fits=one.never_fits)


def differences(before: Plan, after: Plan) -> Iterable[str]:
    """What changed from one plan to the next, a sentence each; nothing if nothing did."""
    found = plan_diff.compare(before, after)
    for change in found.groups:
        yield f"{change.group}: {_signed(change.before)} became {_signed(change.after)}"
    more, fewer = len(after.not_helped), len(before.not_helped)
    if more != fewer:
        yield f"left out: {counted(fewer)} became {counted(more)}"
    for limit in found.limits:
        if limit.before is not None and limit.after is not None:
            was, now = _number(limit.before.count), _number(limit.after.count)
            if was != now:
                where = f"on a new node of {limit.group}"
                yield f"slots of {limit.driver} {where}: {was} became {now}"


def _signed(nodes: int) -> str:
    return f"+{nodes}" if nodes else "nothing"


def _number(count: int | None) -> str:
    return "unlimited" if count is None else f"{count}"


_GIB = 2**30


def amount(resource: str, count: int) -> str:
    """`1.5 CPU`, `3.2 GiB memory`, `2 slots of ebs.csi.aws.com`."""
    if resource == "cpu":
        return f"{count / 1000:g} CPU"
    if resource in ("memory", "ephemeral-storage"):
        return f"{count / _GIB:.3g} GiB {resource}"
    if "." in resource and "/" not in resource:
        return f"{count:,} slot{'' if count == 1 else 's'} of {resource}"
    return f"{count:,} {resource}"
