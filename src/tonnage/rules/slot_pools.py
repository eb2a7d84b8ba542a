"""SlotPools: drivers that share slots of a node must have room there all together.

Not a rule of kube-scheduler. It is asked wherever somebody has set pools (`snapshot.slot_pools`):
in plans, and by a scheduler extender that wants it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from tonnage.rules import node_volume_limits
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Aspect,
    Code,
    Count,
    EventKind,
    Measure,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    short_of,
)
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.rows import Bools, Ints, Rows
from tonnage.snapshot.snapshot import Snapshot


class SlotPools(Rule):
    name = "SlotPools"
    about = frozenset({Aspect.VOLUMES})
    cures = (
        EventKind.NODE_ADDED,
        EventKind.POD_DELETED,
        EventKind.ATTACHMENT_DELETED,
        EventKind.CSI_NODE_UPDATED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        pools = ask.snapshot.slot_pools
        if not pools.columns or ask.slots.problem is not None:
            return SKIP
        uses = (*ask.slots.uses, *ask.slots.migrated)
        wanted = Counter(use.driver for use in uses)
        return PreFilter(lambda: results(ask)) if any(pools.of(wanted)) else SKIP

    def footprint(self, snapshot: Snapshot, footprint: Footprint) -> Mapping[str, int]:
        """Slots of each pool, wherever pools of a name are alike."""
        pools = snapshot.slot_pools
        names = Counter(pool.name for pool in pools.columns)
        return {
            _resource(pool.name): weight
            for pool, weight in pools.of(footprint.slots)
            if names[pool.name] == 1
        }

    def room(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> Ints | None:
        room: Ints | None = None
        for pool, weight in snapshot.slot_pools.of(footprint.slots):
            here = pool.left(rows) // weight
            room = here if room is None else np.minimum(room, here)
        return room

    def counts(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> Iterator[Count]:
        # Pools of one name may differ in their members, and stay apart by them.
        return (
            Count(f"{_resource(pool.name)} {pool.weights}", pool.left(rows), weight, weight)
            for pool, weight in snapshot.slot_pools.of(footprint.slots)
        )

    def measures(self, snapshot: Snapshot, rows: Rows) -> Iterator[Measure]:
        for pool in snapshot.slot_pools.columns:
            yield Measure(_resource(pool.name), pool.taken(rows), pool.free.data[rows])


def _resource(pool: str) -> str:
    return f"slots of pool {pool}"


class _Short(msgspec.Struct, frozen=True):
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
        reason = short_of(
            _resource(found.pool),
            Cause.SLOT_POOL_EXHAUSTED,
            pool=found.pool,
            used=int(found.taken[row]),
            wanted=int(found.wanted[row]),
            limit=int(found.free[row]),
        )
        return (reason,)

    def kinds() -> Ints:
        numbers = np.zeros(ask.size, dtype=np.int64)
        for number, found in reversed(list(enumerate(short, start=1))):
            numbers[found.rows] = number
        return numbers

    return NodeResults.passing(passes, Code.UNSCHEDULABLE, reasons, kinds=kinds)


def _short(ask: Ask) -> list[_Short]:
    needs = {need.resource: need.wanted for need in node_volume_limits.needs(ask)}
    everywhere = slice(0, ask.size)
    found = []
    for column in ask.snapshot.slot_pools.columns:
        wanted = np.zeros(ask.size, dtype=np.int64)
        taken, free = column.taken(everywhere), column.free.data[everywhere].copy()
        for driver, weight in column.weights.items():
            taken += weight * ask.promised(driver)
            if driver in needs:
                wanted += weight * needs[driver]
        # Written as a difference: free slots may be the largest number there is.
        rows = (wanted > 0) & (wanted > free - taken)
        if rows.any():
            found.append(_Short(rows, column.name, wanted, taken, free))
    return found
