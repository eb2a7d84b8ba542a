"""Placing pods on nodes that are there: real ones, upcoming ones, and those a step has bought."""

from collections.abc import Callable, Sequence

import numpy as np

from tonnage.groups.options import Options
from tonnage.rules import pipeline, registry
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask
from tonnage.scaleup import packing
from tonnage.scaleup.pod_groups import Placed, PodGroup
from tonnage.snapshot import imagined
from tonnage.snapshot.rows import Bools, Ints, RowIndex
from tonnage.snapshot.snapshot import Snapshot


def rows_there(snapshot: Snapshot, options: Options) -> Bools:
    """Rows that take pods; upstream leaves out those that are cordoned, whoever tolerates it."""
    size = snapshot.table.size
    rows = snapshot.table.alive.data[:size].copy()
    if options.as_upstream:
        rows &= ~snapshot.columns.unschedulable.data[:size]
    return rows


def place(
    snapshot: Snapshot,
    groups: Sequence[PodGroup],
    features: Features,
    *,
    rows: Bools,
    order: RowIndex | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[list[Placed], list[PodGroup]]:
    """Put what fits on the allowed rows, group by group; gives the fits and the groups left over.

    Rows are filled from the first on, or in the `order` given. Pods that want to be near others
    are tried again as long as others find a place. From the moment that `stop` says so, nobody is
    placed any more.
    """
    if order is None:
        order = np.flatnonzero(rows)
    fits: list[Placed] = []
    left = list(groups)
    waiting: list[PodGroup] = left
    while waiting:
        placed: dict[int, int] = {}
        for group in waiting:
            found = [] if stop() else _place_group(snapshot, group, features, order, stop)
            placed[id(group)] = sum(len(one.pods) for one in found)
            fits.extend(found)
        if not any(placed.values()):
            break
        left = [
            group.without(taken) if (taken := placed.get(id(group), 0)) else group
            for group in left
            if placed.get(id(group), 0) < group.size
        ]
        waiting = [group for group in left if group.interacting]
    return fits, left


def _place_group(
    snapshot: Snapshot,
    group: PodGroup,
    features: Features,
    order: RowIndex,
    stop: Callable[[], bool],
) -> list[Placed]:
    room = None
    if not group.tracked:
        room = registry.room(snapshot, group.footprint, order, features)
        if not (room > 0).any():
            return []
    fitting = pipeline.evaluate(snapshot, group.sample, features).fits[order]
    if not fitting.any():
        return []
    if room is None:
        row = int(order[fitting.argmax()])
        registry.place(Ask(snapshot, group.sample, features), row)
        return [Placed(group, (group.sample,), row)]
    if group.interacting:
        return _place_one_by_one(snapshot, group, features, order, fitting, stop)
    return fill(snapshot, group, np.where(fitting, room, 0), order, features)


def fill(
    snapshot: Snapshot, group: PodGroup, room: Ints, order: RowIndex, features: Features
) -> list[Placed]:
    """Put the members on these rows, as many on each as there is room, from the first row on."""
    room = registry.within_shared(snapshot, group.footprint, room, order, features)
    counts = packing.first_fit(room, group.size)
    chosen = np.flatnonzero(counts)
    rows, amounts = order[chosen], counts[chosen]
    imagined.place(snapshot, group.footprint, rows, amounts)
    return group.in_turn(rows, amounts)


def _place_one_by_one(
    snapshot: Snapshot,
    group: PodGroup,
    features: Features,
    order: RowIndex,
    fitting: Bools,
    stop: Callable[[], bool],
) -> list[Placed]:
    """Pods that keep together or apart change the answer for the next one."""
    fits = []
    one = np.ones(1, dtype=np.int64)
    for pod in group.members:
        if not fitting.any() or stop():
            break
        row = int(order[fitting.argmax()])
        imagined.place(snapshot, group.footprint, np.array([row]), one)
        fits.append(Placed(group, (pod,), row))
        fitting = pipeline.evaluate(snapshot, group.sample, features).fits[order]
    return fits
