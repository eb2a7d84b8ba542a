"""Plans as documents, the fields that `-o json`, batches and sweeps promise; and what they cost."""

from typing import Any, NamedTuple

import msgspec

from tonnage.scaleup.decision import Decision


class Cost(NamedTuple):
    """What a plan costs per hour: each of its scale-ups, and all if every one has a price."""

    of_groups: tuple[float | None, ...]
    in_all: float | None


def cost_of(made: Decision) -> Cost:
    """What the nodes cost that are bought; none bought cost nothing."""
    prices = {group.id: group.price_per_hour for group in made.inputs.groups}
    costs = tuple(
        None if (price := prices.get(one.group)) is None else round(price * one.delta, 6)
        for one in made.plan.scale_ups
    )
    known = [cost for cost in costs if cost is not None]
    return Cost(costs, round(sum(known), 6) if len(known) == len(costs) else None)


def plan(made: Decision) -> dict[str, Any]:
    """A plan with what it costs."""
    document: dict[str, Any] = msgspec.to_builtins(made.plan)
    cost = cost_of(made)
    for scale_up, per_hour in zip(document["scaleUps"], cost.of_groups, strict=True):
        scale_up["costPerHour"] = per_hour
    document["costPerHour"] = cost.in_all
    return document
