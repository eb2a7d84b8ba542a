"""SlotPools: drivers that share slots of a node must have room there all together.

Not a rule of kube-scheduler. It is asked wherever somebody has set pools (`snapshot.slot_pools`):
in plans, and by a scheduler extender that wants it.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np

from tonnage.rules import node_volume_limits
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Code,
    Event,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    single,
)
from tonnage.snapshot.rows import Bools, Ints


class SlotPools(Rule):
    name = "SlotPools"
    cures = (
        Event.NODE_ADDED,
        Event.POD_DELETED,
        Event.ATTACHMENT_DELETED,
        Event.CSI_NODE_UPDATED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        pools = ask.snapshot.slot_pools
        if pools is None or ask.slots.problem is not None:
            return SKIP
        uses = (*ask.slots.uses, *ask.slots.migrated)
        wanted = Counter(use.driver for use in uses)
        return PreFilter(lambda: results(ask)) if any(pools.of(wanted)) else SKIP


class _Short(NamedTuple):
    """Rows where a pool has too few slots for the pod."""

    rows: Bools
    pool: str
    wanted: Ints
    taken: Ints
    free: Ints


def results(ask: Ask) -> NodeResults:
    """All rows at once: those whose pools are too full for the pod's volumes, with the numbers."""
    short = list(_short(ask))
    passes = np.ones(ask.size, dtype=np.bool_)
    for found in short:
        passes &= ~found.rows

    def reasons(row: int) -> tuple[Reason, ...]:
        found = next(each for each in short if each.rows[row])
        return single(
            Cause.SLOT_POOL_EXHAUSTED,
            pool=found.pool,
            used=int(found.taken[row]),
            wanted=int(found.wanted[row]),
            limit=int(found.free[row]),
        )

    def kinds() -> Ints:
        numbers = np.zeros(ask.size, dtype=np.int64)
        for number, found in reversed(list(enumerate(short, start=1))):
            numbers[found.rows] = number
        return numbers

    return NodeResults.passing(passes, Code.UNSCHEDULABLE, reasons, kinds=kinds)


def _short(ask: Ask) -> list[_Short]:
    pools = ask.snapshot.slot_pools
    if pools is None:
        return []
    needs = {need.driver: need.wanted for need in node_volume_limits.needs(ask)}
    everywhere = slice(0, ask.size)
    found = []
    for column in pools.columns:
        wanted = np.zeros(ask.size, dtype=np.int64)
        for driver, weight in column.weights.items():
            if driver in needs:
                wanted += weight * needs[driver]
        taken, free = column.taken(everywhere), column.free.data[everywhere].copy()
        # Written as a difference: free slots may be the largest number there is.
        rows = (wanted > 0) & (wanted > free - taken)
        if rows.any():
            found.append(_Short(rows, column.name, wanted, taken, free))
    return found
