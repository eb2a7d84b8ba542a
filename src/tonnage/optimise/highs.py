"""HiGHS, the solver of the extra `optimise`: the few calls of it that are used here.

It is imported when it is first needed; who has not installed it can do without.
"""

import importlib
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tonnage.optimise.problem import Numbers

if TYPE_CHECKING:
    from highspy import Highs

INFINITY = float("inf")

_LEAN = (
    ("mip_heuristic_effort", 0.0),
    ("mip_heuristic_run_rens", False),
    ("mip_heuristic_run_root_reduced_cost", False),
    ("mip_heuristic_run_feasibility_jump", False),
    ("mip_allow_restart", False),
    ("mip_detect_symmetry", False),
)

MISSING = "no solver is installed: it comes with the extra optimise (tonnage[optimise])"


class Solved(NamedTuple):
    """Values of the columns, duals of the rows, the value, a bound on it, and the work it was."""

    columns: Numbers
    rows: Numbers
    value: float
    bound: float
    iterations: int
    nodes: int
    feasible: bool


def installed() -> bool:
    return importlib.util.find_spec("highspy") is not None


@lru_cache(maxsize=1)
def _class() -> "type[Highs]":
    found: type[Highs] = importlib.import_module("highspy").Highs
    return found


def linear() -> "Highs":
    """An empty linear program, solved again from where it stood after each change."""
    highs = _class()()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("presolve", "off"),
        ("random_seed", 0),
    ):
        highs.setOptionValue(option, value)
    return highs


def integer(*, gap: float, nodes: int, lean: bool = False) -> "Highs":
    """An empty integer program; the search ends within the gap or after so many nodes.

    A `lean` one does without what takes longer than a small program is worth.
    """
    highs = _class()()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", 0),
        ("mip_rel_gap", gap),
        ("mip_max_nodes", nodes),
        ("mip_heuristic_run_rins", False),
        *(_LEAN if lean else ()),
    ):
        highs.setOptionValue(option, value)
    return highs


def add_rows(highs: "Highs", lower: Sequence[float], upper: Sequence[float]) -> None:
    none = np.zeros(0, dtype=np.int32)
    starts = np.zeros(len(lower), dtype=np.int32)
    highs.addRows(
        len(lower), np.array(lower), np.array(upper), 0, starts, none, none.astype(np.float64)
    )


def add_row(highs: "Highs", lower: float, entries: Mapping[int, float]) -> None:
    """A row over columns that are there, at least so much."""
    columns = np.fromiter(entries, dtype=np.int32, count=len(entries))
    values = np.fromiter(entries.values(), dtype=np.float64, count=len(entries))
    highs.addRow(lower, INFINITY, len(entries), columns, values)


def add_column(
    highs: "Highs",
    cost: float,
    entries: Mapping[int, float],
    *,
    lower: float = 0.0,
    upper: float = INFINITY,
) -> None:
    rows = np.fromiter(entries, dtype=np.int32, count=len(entries))
    values = np.fromiter(entries.values(), dtype=np.float64, count=len(entries))
    highs.addCol(cost, lower, upper, len(entries), rows, values)


def add_columns(highs: "Highs", costs: Numbers, entries: Numbers, upper: Numbers) -> None:
    """Columns from 0 to `upper`, with their entries by column and row."""
    columns, rows = np.nonzero(entries)
    starts = np.searchsorted(columns, np.arange(len(costs))).astype(np.int32)
    highs.addCols(
        len(costs),
        costs,
        np.zeros(len(costs)),
        upper,
        len(rows),
        starts,
        rows.astype(np.int32),
        entries[columns, rows],
    )


def make_integer(highs: "Highs", columns: Iterable[int]) -> None:
    kind = importlib.import_module("highspy").HighsVarType.kInteger
    for column in columns:
        highs.changeColIntegrality(column, kind)


def change_columns(highs: "Highs", columns: Sequence[int], lower: Sequence[float]) -> None:
    """New lower bounds for columns that have no upper ones."""
    if columns:
        index = np.array(columns, dtype=np.int32)
        upper = np.full(len(index), INFINITY)
        highs.changeColsBounds(len(index), index, np.array(lower), upper)


def solve(highs: "Highs") -> Solved:
    highs.run()
    solution, info = highs.getSolution(), highs.getInfo()
    integral = highs.getLp().integrality_
    return Solved(
        columns=np.array(solution.col_value),
        rows=np.array(solution.row_dual),
        value=info.objective_function_value,
        bound=info.mip_dual_bound if len(integral) else info.objective_function_value,
        iterations=max(int(info.simplex_iteration_count), 0),
        nodes=max(int(info.mip_node_count), 0),
        feasible=info.primal_solution_status == 2,
    )
