"""A plan played through on the snapshot, with every rule holding for every move."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tonnage.consolidation.move_waves import PlannedMove
from tonnage.rules import pipeline
from tonnage.rules.features import Features
from tonnage.snapshot.records import PodRecord
from tonnage.snapshot.snapshot import Snapshot


def first_failure(
    snapshot: Snapshot,
    features: Features,
    moves: Sequence[PlannedMove],
    *,
    records: Sequence[PodRecord],
    names: Mapping[int, str],
    deleted: Mapping[int, int],
    asked: Collection[str],
) -> PlannedMove | None:
    """The first move that a rule forbids when its time has come; `None` if there is none.

    `records` are the pods of the items and `names` the nodes of the bins, all of which are there.
    Only pods that are `asked` about have more to them than counting. Works on a trial of its own.
    """
    with snapshot.trial():
        for wave in range(1, max((move.wave for move in moves), default=0) + 1):
            for move in moves:
                if move.wave != wave:
                    continue
                record = records[move.item]
                snapshot.drop_pod(record.meta.namespace, record.meta.name)
                target = names[move.target]
                if record.key in asked:
                    fits = pipeline.evaluate(snapshot, record.moved_to(""), features).fits
                    if not np.take(fits, snapshot.nodes[target].row):
                        return move
                snapshot.place(record, target)
            for number, end in deleted.items():
                if end == wave:
                    for left in list(snapshot.pods_on(names[number])):
                        snapshot.drop_pod(left.meta.namespace, left.meta.name)
                    snapshot.drop_node(names[number])
    return None
