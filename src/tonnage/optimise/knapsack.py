"""The most valuable content of one bin, and what none is worth more than: an integer program."""

from typing import NamedTuple

import numpy as np

from tonnage.optimise import highs
from tonnage.optimise.problem import Counts, Numbers

_LITTLE = 1e-9


class Knapsack(NamedTuple):
    """Items by class: what one is worth, what it takes, how many there may be; and the room."""

    values: Numbers
    demands: Numbers
    caps: Counts
    capacity: Numbers


class Contents(NamedTuple):
    """The best content found, if any, and what none is worth more than."""

    counts: Counts
    at_most: float
    iterations: int


def best(sack: Knapsack, *, gap: float, nodes: int = 500) -> Contents:
    """The most valuable content, right to the gap."""
    chosen = np.flatnonzero((sack.values > _LITTLE) & (sack.caps > 0))
    limited = np.flatnonzero(np.isfinite(sack.capacity))
    counts = np.zeros((1, len(sack.values)), dtype=np.int64)
    if not len(chosen):
        return Contents(counts[:0], 0.0, 0)
    capacity = sack.capacity[limited]
    scale = np.maximum(capacity, 1.0)
    demands = sack.demands[np.ix_(chosen, limited)] / scale
    model = highs.integer(gap=gap, nodes=nodes, lean=True)
    highs.add_rows(model, [-highs.INFINITY] * len(limited), (capacity / scale).tolist())
    upper = sack.caps[chosen].astype(np.float64)
    highs.add_columns(model, -sack.values[chosen], demands, upper)
    highs.make_integer(model, range(len(chosen)))
    found = highs.solve(model)
    if found.feasible:
        counts[0, chosen] = np.rint(found.columns).astype(np.int64)
    # Within the solver's tolerance may be beyond ours.
    if (counts[0] @ sack.demands > sack.capacity).any() or (counts[0] > sack.caps).any():
        counts = counts[:0]
    return Contents(counts, -found.bound + 1e-9, found.iterations)
