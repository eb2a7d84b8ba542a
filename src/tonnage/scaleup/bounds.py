"""How little a plan could possibly buy: a bound that holds for any packing.

A node of a template holds only so much of each resource and so many pods of each group.
What is wanted of a resource, divided by the most that one node has, is therefore a floor.
Pods that share no template share no node, so the floors of unconnected parts add up.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tonnage.scaleup.plan import Bounds
from tonnage.snapshot.rows import Bools, Ints


class Demand(msgspec.Struct, frozen=True):
    """Pods of one group that the plan places on new nodes.

    `amounts` is what one pod takes of each resource and driver, `most` how many of the pods one
    empty node of each supply holds; 0 where they do not fit.
    """

    pods: int
    amounts: Mapping[str, int]
    most: Ints


class Supply(msgspec.Struct, frozen=True):
    """An empty node of a chosen group: what it has of each resource and driver, and its price.

    A driver that is not in `capacity` takes any number of volumes.
    """

    capacity: Mapping[str, int]
    price: float | None


def bound(demands: Sequence[Demand], supplies: Sequence[Supply], *, bought: int) -> Bounds:
    """The least number of nodes, the least cost where every price is known, and the gap."""
    nodes, cost = 0, 0.0
    priced = all(supply.price is not None for supply in supplies)
    prices = np.array([supply.price or 0.0 for supply in supplies])
    # A pod that fits only beside others is on a node that is bought for them.
    for taking, part in _parts([demand for demand in demands if demand.most.any()]):
        totals = _totals(part)
        offered = [supplies[place] for place in np.flatnonzero(taking).tolist()]
        nodes += _least_nodes(part, totals, offered)
        if priced:
            cost += _least_cost(part, totals, offered, prices)
    return Bounds(
        nodes=nodes,
        cost_per_hour=round(cost, 6) if priced and demands else None,
        gap=round((bought - nodes) / nodes, 6) if nodes else 0.0,
    )


def _parts(demands: Sequence[Demand]) -> list[tuple[Bools, list[Demand]]]:
    """Demands in parts that have no supply in common, each with the supplies it may use."""
    parts: list[tuple[Bools, list[Demand]]] = []
    for demand in demands:
        taking, members = demand.most > 0, [demand]
        apart = []
        for other in parts:
            if (other[0] & taking).any():
                taking |= other[0]
                members = other[1] + members
            else:
                apart.append(other)
        parts = [*apart, (taking, members)]
    return parts


def _least_nodes(
    part: Sequence[Demand], totals: Mapping[str, int], supplies: Sequence[Supply]
) -> int:
    least = max(math.ceil(demand.pods / int(demand.most.max())) for demand in part)
    for resource, total in totals.items():
        most = max(supply.capacity.get(resource, math.inf) for supply in supplies)
        if most > 0:
            least = max(least, math.ceil(total / most))
    return least


def _least_cost(
    part: Sequence[Demand],
    totals: Mapping[str, int],
    supplies: Sequence[Supply],
    prices: npt.NDArray[np.float64],
) -> float:
    """Every unit bought where it is cheapest; at least the cheapest node."""
    least = min(supply.price or 0.0 for supply in supplies)
    for demand in part:
        takes = demand.most > 0
        least = max(least, demand.pods * float((prices[takes] / demand.most[takes]).min()))
    for resource, total in totals.items():
        rates = [
            (supply.price or 0.0) / amount
            for supply in supplies
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
