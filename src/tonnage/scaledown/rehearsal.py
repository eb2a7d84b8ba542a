"""A plan played through, wave by wave, where other pods have a say in where a pod may go.

Nodes are chosen as if all pods of one moved at once. In waves some of them are still there when
others look for a place, so that spread and affinity may come to something else.
"""

from collections.abc import Sequence

import numpy as np

from tonnage.rules import pipeline
from tonnage.rules.features import Features
from tonnage.scaledown.waves import ScheduledMove, ScheduledRemoval
from tonnage.snapshot.rows import Bools
from tonnage.snapshot.snapshot import Snapshot


def rehearse(
    snapshot: Snapshot, features: Features, scheduled: Sequence[ScheduledRemoval], usable: Bools
) -> tuple[list[ScheduledRemoval], str | None]:
    """The plan with places that hold when their wave comes, or the first node that finds none.

    Moves of a wave are made in the order of the nodes in the snapshot, as the plan lists them.
    """
    going = {removal.facts.row for removal in scheduled}
    stays = np.flatnonzero(usable)
    stays = stays[[row not in going for row in stays.tolist()]]
    order = {name: number for number, name in enumerate(snapshot.nodes)}
    listed = sorted(scheduled, key=lambda removal: order[removal.facts.name])
    rows: dict[str, int] = {}
    with snapshot.trial():
        for wave in range(1, max((removal.wave for removal in scheduled), default=0) + 1):
            moves = [
                (removal, move) for removal in listed for move in removal.moves if move.wave == wave
            ]
            for _, move in moves:
                meta = move.pod.record.meta
                snapshot.drop_pod(meta.namespace, meta.name)
            for removal, move in moves:
                row = _place(snapshot, features, move, stays)
                if row is None:
                    return [], removal.facts.name
                rows[move.pod.record.key] = row
            for removal in listed:
                if removal.wave == wave:
                    for record in snapshot.pods_on(removal.facts.name):
                        snapshot.drop_pod(record.meta.namespace, record.meta.name)
                    snapshot.drop_node(removal.facts.name)
    return [_with_rows(removal, rows) for removal in scheduled], None


def _place(
    snapshot: Snapshot, features: Features, move: ScheduledMove, stays: "np.typing.NDArray[np.intp]"
) -> int | None:
    """Where the pod goes: as planned if it may, otherwise the first node that takes it."""
    record = move.pod.record
    fits = pipeline.evaluate(snapshot, record.moved_to(""), features).fits
    row = move.row
    if not fits[row]:
        others = stays[fits[stays] & ~snapshot.columns.unschedulable.data[stays]]
        if not len(others):
            return None
        row = int(others[0])
    snapshot.place(record, snapshot.name_of(row))
    return row


def _with_rows(removal: ScheduledRemoval, rows: dict[str, int]) -> ScheduledRemoval:
    moves = tuple(move._replace(row=rows[move.pod.record.key]) for move in removal.moves)
    return removal._replace(moves=moves)
