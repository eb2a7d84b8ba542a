"""How little a plan could possibly buy: a bound that holds for any packing.

A node of a template holds only so much of each resource and so many pods of each group.
What is wanted of a resource, divided by the most that one node has, is therefore a floor.
Pods that share no template share no node, so the floors of unconnected parts add up.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from tonnage.scaleup.plan import Bounds


class Demand(msgspec.Struct, frozen=True):
    """Pods of one group that the plan places on new nodes.

    `amounts` is what one pod takes of each resource and driver, `templates` the chosen groups
    it fits, each with the most pods of this group one empty node holds.
    """

    pods: int
    amounts: Mapping[str, int]
    templates: Mapping[str, int]


class Supply(msgspec.Struct, frozen=True):
    """An empty node of a chosen group: what it has of each resource and driver, and its price.

    A driver that is not in `capacity` takes any number of volumes.
    """

    capacity: Mapping[str, int]
    price: float | None


def bound(demands: Sequence[Demand], supplies: Mapping[str, Supply], *, bought: int) -> Bounds:
    """The least number of nodes, the least cost where every price is known, and the gap."""
    nodes, cost = 0, 0.0
    priced = all(supply.price is not None for supply in supplies.values())
    # A pod that fits only beside others is on a node that is bought for them.
    for part in _parts([demand for demand in demands if demand.templates]):
        names = {name for demand in part for name in demand.templates}
        offered = {name: supplies[name] for name in names}
        nodes += _least_nodes(part, offered)
        if priced:
            cost += _least_cost(part, offered)
    return Bounds(
        nodes=nodes,
        cost_per_hour=round(cost, 6) if priced and demands else None,
        gap=round((bought - nodes) / nodes, 6) if nodes else 0.0,
    )


def _parts(demands: Sequence[Demand]) -> list[list[Demand]]:
    """Demands in parts that have no template in common."""
    parts: list[tuple[set[str], list[Demand]]] = []
    for demand in demands:
        names, members = set(demand.templates), [demand]
        apart = []
        for other in parts:
            if other[0].isdisjoint(names):
                apart.append(other)
            else:
                names |= other[0]
                members = other[1] + members
        parts = [*apart, (names, members)]
    return [members for _, members in parts]


def _least_nodes(part: Sequence[Demand], supplies: Mapping[str, Supply]) -> int:
    least = max(math.ceil(demand.pods / max(demand.templates.values())) for demand in part)
    for resource, total in _totals(part).items():
        most = max(supply.capacity.get(resource, math.inf) for supply in supplies.values())
        if most > 0:
            least = max(least, math.ceil(total / most))
    return least


def _least_cost(part: Sequence[Demand], supplies: Mapping[str, Supply]) -> float:
    """Every unit bought where it is cheapest; at least the cheapest node."""
    prices = {name: supply.price or 0.0 for name, supply in supplies.items()}
    least = min(prices.values())
    for demand in part:
        least = max(
            least,
            demand.pods * min(prices[name] / most for name, most in demand.templates.items()),
        )
    for resource, total in _totals(part).items():
        rates = [
            prices[name] / amount
            for name, supply in supplies.items()
            if (amount := supply.capacity.get(resource, math.inf)) > 0
        ]
        if rates:
            least = max(least, total * min(rates))
    return least


def _totals(part: Sequence[Demand]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for demand in part:
        for resource, amount in demand.amounts.items():
            totals[resource] = totals.get(resource, 0) + amount * demand.pods
    return totals
