"""Placing a pod whose volumes are followed by name."""

import numpy as np

from tonnage.rules import volume_binding
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask
from tonnage.scaleup.podgroups import PodGroup
from tonnage.snapshot.snapshot import Snapshot


def place(snapshot: Snapshot, group: PodGroup, row: int, features: Features) -> None:
    """Put the only pod of the group on a row, and take what its new volumes take there."""
    ledger = snapshot.storage_ledger
    if group.footprint.storage:
        taken = volume_binding.storage_taken(Ask(snapshot, group.sample, features), row)
        rows, one_pod = np.array([row]), np.ones(1, dtype=np.int64)
        snapshot.undo_by(ledger.take, rows, -one_pod, taken)
        ledger.take(rows, one_pod, taken)
    snapshot.place(group.sample, snapshot.name_of(row))
