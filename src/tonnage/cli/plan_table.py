"""A plan for people: what to buy and why, who goes where, who is left out."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tonnage.cli import console, podlists
from tonnage.groups.model import UNKNOWN
from tonnage.objects import resources
from tonnage.objects.phrases import counted, listed
from tonnage.rules.storage_tally import storage_resource
from tonnage.scaleup import node_fill
from tonnage.scaleup.decision import Decision
from tonnage.scaleup.node_fill import Filling
from tonnage.scaleup.plan import (
    GangOutcome,
    GroupLimit,
    GroupReason,
    Nearest,
    NotHelped,
    Optimisation,
    Plan,
    ScaleUp,
)

_ROWS = 20
"""Lines of a section, unless all are asked for."""


def print_plan(made: Decision, *, wide: bool) -> None:
    """Print a plan as tables; `wide` leaves nothing out."""
    plan = made.plan
    console.echo(summary(plan, made.inputs.nodes))
    if plan.partial:
        console.echo(
            "The plan is partial: time ran out before all groups were looked at.", bold=True
        )
    if plan.scale_ups:
        prices = {one.id: one.price_per_hour for one in made.inputs.groups}
        _print_purchases(made, prices)
        _print_bounds(plan, prices)
    print_waits(plan, most=None if wide else _ROWS)
    print_gangs(plan, most=None if wide else _ROWS)
    _print_kept_rooms(plan)
    if wide:
        _print_placements(plan)
    if plan.not_helped:
        _print_left_out(plan, wide=wide)
    _print_limits(plan, wide=wide)
    if wide:
        _print_pools(plan)
        _print_storage(plan)


def print_warnings(plan: Plan, *, wide: bool) -> None:
    """Say what may make the plan wrong, on standard error."""
    shown = plan.warnings if wide else plan.warnings[:_ROWS]
    for warning in shown:
        console.warn(warning)
    if len(plan.warnings) > len(shown):
        more = len(plan.warnings) - len(shown)
        console.warn(f"{counted(more, 'more warning')}; -o wide has them all")


def money(price: float) -> str:
    """Without the noise of binary fractions."""
    return f"{price:,.4f}".rstrip("0").rstrip(".")


def summary(plan: Plan, nodes: Container[str]) -> str:
    """The plan in one sentence."""
    there = sum(one.node in nodes for one in plan.all_on_existing)
    coming = len(plan.all_on_existing) - there
    bought = sum(len(node.pods) for one in plan.scale_ups for node in one.nodes)
    left = len(plan.not_helped)
    waiting = len(plan.waiting)
    pending = there + coming + bought + left + waiting
    if not pending and plan.scale_ups:
        nodes_bought = counted(_nodes(plan), "new node")
        return f"No pod waits for a node; {nodes_bought} for room that is kept or requested."
    if not pending:
        return "Nothing to do: no pod waits for a node."
    parts = [
        f"{counted(there)} on nodes that are there" if there else "",
        f"{counted(coming)} on nodes that are coming up" if coming else "",
        f"{counted(bought)} on {counted(_nodes(plan), 'new node')}" if plan.scale_ups else "",
        f"{counted(waiting)} waiting for room that is being freed" if waiting else "",
        f"{counted(left)} left out" if left else "",
    ]
    return f"{counted(pending, 'pending pod')}: {', '.join(filter(None, parts))}."


def _nodes(plan: Plan) -> int:
    return sum(one.delta for one in plan.scale_ups)


def _print_purchases(made: Decision, prices: Mapping[str, float | None]) -> None:
    plan, full = made.plan, node_fill.fillings(made)
    priced = any(prices.get(one.group) is not None for one in plan.scale_ups)
    headings = ["BUY", "NODES", "PODS", "FULLEST", *(["PRICE/H"] if priced else []), "WHY"]
    rows = []
    for one in plan.scale_ups:
        price = prices.get(one.group)
        cost = [money(price * one.delta) if price is not None else "-"] if priced else []
        pods = sum(len(node.pods) for node in one.nodes)
        rows.append(
            [
                one.group,
                f"+{one.delta:,}",
                f"{pods:,}",
                _fullest(one, full.get(one.group, ())),
                *cost,
                why(one.group, plan, made.inputs.options.expander),
            ]
        )
    console.print_section(headings, rows)


def _fullest(scale_up: ScaleUp, fillings: Sequence[Filling]) -> str:
    """The binding resource, and how much of it is taken on the new nodes."""
    name = scale_up.binding or (fillings[0].resource if fillings else "")
    for one in fillings:
        if one.resource == name:
            return f"{name} {one.share:.0%}"
    return name or "-"


def why(group: str, plan: Plan, expander: str) -> str:
    """Why a group was chosen."""
    reasons = []
    for step in plan.steps:
        if not any(one.group == group for one in step.scale_ups):
            continue
        if step.chosen != group:
            reasons.append(f"balanced with {step.chosen}")
        else:
            reasons.append(step.reason or f"best by {expander}")
    return _first(list(dict.fromkeys(reasons)), "more step")


def _first(texts: Sequence[str], others: str) -> str:
    more = f" and {counted(len(texts) - 1, others)}" if len(texts) > 1 else ""
    return texts[0] + more if texts else "-"


def _print_bounds(plan: Plan, prices: Mapping[str, float | None]) -> None:
    least = plan.bounds.nodes
    if not least:
        return
    bought = _nodes(plan)
    text = f"At least {counted(least, 'node')} {'is' if least == 1 else 'are'} needed"
    text += f"; the plan buys {bought:,}" + (
        f", {plan.bounds.gap:.0%} more" if bought > least else ""
    )
    cheapest = plan.bounds.cost_per_hour
    costs = [
        one.delta * price for one in plan.scale_ups if (price := prices.get(one.group)) is not None
    ]
    if cheapest is not None and len(costs) == len(plan.scale_ups):
        cost = sum(costs)
        text += f", for {money(cost)} an hour where {money(cheapest)} is the least"
    console.echo()
    console.echo(f"{text}.")
    if plan.optimisation is not msgspec.UNSET:
        console.echo(together(plan.optimisation))


def together(found: Optimisation) -> str:
    """What came of looking at all groups together, in one sentence."""
    unit = " an hour" if found.unit == "price" else " nodes"
    return (
        f"All groups together: {money(found.cost)}{unit}, greedy {money(found.greedy)}; no plan"
        f" costs less than {money(found.bound)}, so this one is at most {found.gap:.1%} above the"
        " least."
    )


def _print_placements(plan: Plan) -> None:
    by_node: dict[str, list[str]] = {}
    for placement in plan.all_on_existing:
        by_node.setdefault(placement.node, []).append(placement.pod)
    rows = [[node, "-", _phrases(pods)] for node, pods in by_node.items()]
    rows += [
        [node.name, one.group, _phrases(node.pods)] for one in plan.scale_ups for node in one.nodes
    ]
    console.print_section(["NODE", "NEW IN", "PENDING PODS THAT GO THERE"], rows)


def _phrases(pods: Iterable[str]) -> str:
    return ", ".join(series.phrase for series in podlists.in_series(pods)) or "-"


class _Bucket(NamedTuple):
    """Pods left out for the same reasons."""

    example: NotHelped
    pods: list[str]


def _print_left_out(plan: Plan, *, wide: bool) -> None:
    buckets = _buckets(plan.not_helped)
    rows: list[list[str]] = []
    alarming: set[int] = set()
    hidden = 0
    for example, pods in buckets:
        for series in podlists.in_series(pods):
            if len(rows) >= _ROWS and not wide:
                hidden += series.pods
                continue
            if example.never_fits:
                alarming.add(len(rows))
            rows.append([series.phrase, why_left_out(example)])
    console.print_section(["LEFT OUT", "WHY"], rows, alarming=alarming)
    if hidden:
        console.echo(f"… and {counted(hidden, 'more pod')}; -o wide has them all")
    if wide:
        detail = [
            [listed([one.phrase for one in podlists.in_series(pods)]), *_verdict(reason)]
            for example, pods in buckets
            for reason in example.reasons
        ]
        console.print_section(["LEFT OUT", "GROUP", "PLUGIN", "CODE", "REASON"], detail)


def _buckets(not_helped: Iterable[NotHelped]) -> list[_Bucket]:
    """Pods by why they are left out, those that can never fit first.

    Members of a class share their reasons, so most are told apart without looking into them.
    """
    by_identity: dict[tuple[int, bool, Nearest | None], _Bucket] = {}
    for one in not_helped:
        key = (id(one.reasons), one.never_fits, one.nearest)
        by_identity.setdefault(key, _Bucket(one, [])).pods.append(one.pod)
    found: dict[object, _Bucket] = {}
    for bucket in by_identity.values():
        example = bucket.example
        value = (example.never_fits, example.nearest, example.reasons)
        found.setdefault(value, _Bucket(example, [])).pods.extend(bucket.pods)
    return sorted(found.values(), key=lambda bucket: not bucket.example.never_fits)


def why_left_out(one: NotHelped) -> str:
    """In one line: what is missing where it comes nearest, or what the groups say."""
    words = "fits no group, ever: " if one.never_fits else ""
    if one.nearest is not None:
        return words + _shortage(one.nearest)
    by_text: dict[str, list[str]] = {}
    for reason in one.reasons:
        by_text.setdefault(", ".join(reason.reasons) or "no reason given", []).append(reason.group)
    said = "; ".join(f"{listed(groups)}: {text}" for text, groups in by_text.items())
    return words + (said or "no group to help it")


def _shortage(nearest: Nearest) -> str:
    wanted, has = (_number(nearest.resource, n) for n in (nearest.wanted, nearest.available))
    return f"{wanted} {_noun(nearest.resource)} wanted, best group {nearest.group} has {has}"


def _number(resource: str, number: int) -> str:
    if resource == resources.CPU:
        return f"{number / 1000:,g}"
    if _in_bytes(resource):
        unit, name = (2**30, "GiB") if number >= 2**30 else (2**20, "MiB")
        return f"{number / unit:,.4g} {name}"
    return f"{number:,}"


def _noun(resource: str) -> str:
    if resource == resources.CPU:
        return "CPU"
    if resource == resources.PODS:
        return "pods"
    if _in_bytes(resource) or "/" in resource or "." not in resource:
        return f"of {resource}"
    return f"volumes of {resource}"


def _in_bytes(resource: str) -> bool:
    plain = (resources.MEMORY, resources.EPHEMERAL_STORAGE)
    return resource in plain or resource.startswith(("hugepages-", storage_resource("")))


def _verdict(reason: GroupReason) -> list[str]:
    words = ", ".join(reason.reasons) or "-"
    return [reason.group, reason.plugin or "-", reason.code or "-", words]


def _print_kept_rooms(plan: Plan) -> None:
    console.print_section(
        ["ROOM KEPT READY", "CHUNKS", "KEPT", "BOUGHT", "MISSING", "WHY"],
        [
            [
                one.name,
                *(f"{count:,}" for count in (one.chunks, one.kept, one.bought, one.missing)),
                "; ".join(sorted({text for reason in one.reasons for text in reason.reasons}))
                or "-",
            ]
            for one in plan.kept_rooms
        ],
    )


def _print_limits(plan: Plan, *, wide: bool) -> None:
    concerned = {one.group for one in plan.scale_ups} | {
        one.nearest.group for one in plan.not_helped if one.nearest is not None
    }
    limits = [one for one in plan.limits if wide or one.group in concerned]
    shown = limits if wide else limits[:_ROWS]
    console.print_section(
        ["GROUP", "DRIVER", "SLOTS PER NODE", "WHO SAYS SO"],
        [[one.group, one.driver, *_limit(one)] for one in shown],
    )
    if len(limits) > len(shown):
        console.echo(
            f"… and {counted(len(limits) - len(shown), 'more limit')}; -o wide has them all"
        )


def _print_pools(plan: Plan) -> None:
    console.print_section(
        ["GROUP", "POOL", "FREE SLOTS PER NODE", "WHO SAYS SO"],
        [[one.group, one.pool, f"{one.free:,}", one.source] for one in plan.pools],
    )


def _print_storage(plan: Plan) -> None:
    console.print_section(
        ["GROUP", "STORAGE CLASS", "STORAGE PER NODE", "LARGEST VOLUME", "WHO SAYS SO"],
        [
            [one.group, one.storage_class, *map(_size, (one.capacity, one.largest)), one.source]
            for one in plan.storage
        ],
    )


def _size(number: int) -> str:
    return _number(resources.EPHEMERAL_STORAGE, number)


def _limit(limit: GroupLimit) -> tuple[str, str]:
    """A limit in one of its three states, and who says so."""
    if limit.source == UNKNOWN:
        return "unknown", "nobody"
    said_by = limit.source
    if limit.votes != limit.voters:
        said_by += f", {limit.votes} of {limit.voters} nodes"
    if limit.key is not None:
        said_by += f", key {limit.key}"
    return "unlimited" if limit.count is None else f"{limit.count:,}", said_by


def print_waits(plan: Plan, *, most: int | None) -> None:
    """A line for each pod, the longest wait first; no more than `most`."""
    found = sorted(plan.waiting, key=lambda wait: -wait.seconds)
    console.print_section(
        ["WAITS", "NODE", "FREE IN", "NEW NODE", "FREED BY"],
        [
            [
                wait.pod,
                wait.node,
                f"{wait.seconds:.0f} s",
                f"{wait.new_node:.0f} s",
                listed(wait.freed_by),
            ]
            for wait in found[:most]
        ],
    )
    if most is not None and len(found) > most:
        console.echo(f"and {counted(len(found) - most)} more; -o wide has them all")


_NODES = 3


def print_gangs(plan: Plan, *, most: int | None) -> None:
    """A line for each gang, those that are not helped first; no more than `most`."""
    if isinstance(plan.gangs, msgspec.UnsetType):
        return
    found = sorted(plan.gangs, key=lambda gang: gang.helped)
    console.echo()
    console.print_table(
        ["GANG", "MINIMUM", "RUNNING", "PENDING", "OUTCOME"],
        [
            [
                gang.gang,
                str(gang.minimum or "-"),
                str(gang.running),
                str(len(gang.pods)) if gang.nodes is msgspec.UNSET else "-",
                _outcome(gang),
            ]
            for gang in found[:most]
        ],
    )
    if most is not None and len(found) > most:
        console.echo(f"and {counted(len(found) - most, 'more gang')}; -o wide has them all")


def _outcome(gang: GangOutcome) -> str:
    if not gang.helped:
        return gang.reason
    if isinstance(gang.nodes, msgspec.UnsetType):
        return "helped whole"
    return f"room on {listed([one.node for one in gang.nodes], most=_NODES)}"
