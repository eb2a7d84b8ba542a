"""Bins bought in part: a linear program that knows no patterns, and is solved at once.

A bin may be bought in any part and filled in any proportion, as long as each resource, each cap,
each limit, quota and spread holds on the whole. No packing costs less. What items are worth in it
is near to what they are worth in the end, so that pricing begins there.
"""

from typing import TYPE_CHECKING

import numpy as np

from tonnage.optimise import highs
from tonnage.optimise.effort import Effort
from tonnage.optimise.master import Duals, Master
from tonnage.optimise.problem import PackingProblem, Pattern

if TYPE_CHECKING:
    from highspy import Highs


def relax(problem: PackingProblem, effort: Effort) -> Duals | None:
    """What items and bins are worth; `None` if the solver does not say."""
    model = highs.linear()
    master, _ = build(problem, model, effort)
    found = highs.solve(model)
    effort.spend(3_000 + 20 * found.iterations)
    return master.duals(found.rows[: master.rows]) if found.feasible else None


def build(problem: PackingProblem, model: "Highs", effort: Effort) -> tuple[Master, list[int]]:
    """Fill the model: its rows as the master has them, and its columns of bins, by type."""
    master = Master(problem, effort=effort, model=model)
    rows = _Rows(problem, first=master.rows)
    highs.add_rows(model, [-highs.INFINITY] * rows.count, [0.0] * rows.count)
    bins, column = [], master.first
    for bin_type in range(len(problem.bins)):
        whole = master.entries(Pattern(bin_type, (0,) * len(problem.items)))
        price = float(problem.prices[bin_type])
        highs.add_column(model, price, {**whole, **rows.of_bin(bin_type)})
        items = np.flatnonzero(problem.caps[bin_type]).tolist()
        for item in items:
            # What it takes of a bin, without the bin itself.
            entries = master.item_entries(bin_type, item)
            highs.add_column(model, 0.0, {**entries, **rows.of_item(bin_type, item)})
        bins.append(column)
        column += 1 + len(items)
    return master, bins


class _Rows:
    """Rows of each bin type: its resources, and the caps that bind before they do."""

    def __init__(self, problem: PackingProblem, *, first: int) -> None:
        self._problem = problem
        finite = np.isfinite(problem.capacities)
        taken = (problem.demands > 0).any(axis=0)
        places = [(t, r) for t, r in np.argwhere(finite & taken).tolist()]
        self._resource = {place: first + row for row, place in enumerate(places)}
        caps = np.argwhere(problem.caps > 0).tolist()
        self._cap = {(t, i): first + len(places) + row for row, (t, i) in enumerate(caps)}
        self.count = len(places) + len(caps)

    def of_bin(self, bin_type: int) -> dict[int, float]:
        problem = self._problem
        found = {
            row: -float(problem.capacities[t, r] / self._scale(t, r))
            for (t, r), row in self._resource.items()
            if t == bin_type
        }
        caps = {
            row: -float(problem.caps[t, i]) for (t, i), row in self._cap.items() if t == bin_type
        }
        return {row: value for row, value in {**found, **caps}.items() if value}

    def of_item(self, bin_type: int, item: int) -> dict[int, float]:
        demand = self._problem.demands[item]
        found = {
            row: float(demand[r] / self._scale(bin_type, r))
            for r in np.flatnonzero(demand).tolist()
            if (row := self._resource.get((bin_type, r))) is not None
        }
        return {**found, self._cap[bin_type, item]: 1.0}

    def _scale(self, bin_type: int, resource: int) -> float:
        return max(float(self._problem.capacities[bin_type, resource]), 1.0)
