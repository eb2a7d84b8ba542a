"""Finding other places for the pods of a node that goes, with every rule holding there."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tonnage.groups import passing_taints
from tonnage.objects.nodes import Node, Taint
from tonnage.rules import pipeline, registry
from tonnage.rules.features import Features
from tonnage.scaledown.facts import NodeFacts
from tonnage.scaledown.portability import PodKind, PodKinds
from tonnage.scaleup import packing, pod_groups
from tonnage.snapshot import imagined, published_storage, storage_ledger
from tonnage.snapshot.records import PodRecord
from tonnage.snapshot.rows import Bools, Ints, RowIndex
from tonnage.snapshot.snapshot import Snapshot

_AT_A_TIME = 128
"""Destinations asked at a time: nearly always one of the first has room."""

_GHOST = Taint(key=passing_taints.TO_BE_DELETED, effect="NoSchedule")


class Relocated(NamedTuple):
    """A pod and the row it goes to."""

    pod: PodRecord
    row: int


class Relocation:
    """Nodes taken away one after the other, each with its pods at their new places.

    Works on a trial of the snapshot that the caller opened. `usable` are rows that may take pods.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        features: Features,
        kinds: PodKinds,
        *,
        usable: Bools,
        by_name: bool,
        add_up_storage: bool,
    ) -> None:
        """With `by_name` some pods are followed by name, so that nodes that go must be gone.

        With `add_up_storage` what one volume takes of published capacity is not there for the next;
        upstream asks for each alone.
        """
        self._snapshot = snapshot
        self._features = features
        self._kinds = kinds
        self.usable = usable
        self.unplaced: PodRecord | None = None
        """The pod for which there was no place, when a node could not go."""
        self._by_name = by_name
        self._tracked = storage_ledger.tracked(snapshot.storage) if add_up_storage else {}

    def remove(
        self, facts: NodeFacts, order: RowIndex, *, as_listed: bool = False
    ) -> list[Relocated] | None:
        """Take the node away; where its pods go, or `None` if not all of them find a place.

        Destinations are tried in the `order` given. Large pods choose first, unless they are to be
        taken as they are listed: as upstream takes them, by priority.
        """
        order = order[self.usable[order] & (order != facts.row)]
        known = [(moving.record, self._kinds.of(moving.record)) for moving in facts.move]
        if as_listed:
            known.sort(key=lambda pair: -pair[0].pod_class.priority)
        else:
            # Who has the least choice goes first, then who needs most.
            known.sort(
                key=lambda pair: (
                    pair[1] is not None,
                    -(pair[1].size if pair[1] else self._kinds.size_of(pair[0])),
                )
            )
        with self._snapshot.trial() as trial:
            if self._by_name:
                self._vacate(facts)
            placed = self._place_all(known, order)
            if placed is None:
                return None
            if self._by_name:
                self._snapshot.drop_node(facts.name)
            trial.keep()
        self.usable[facts.row] = False
        return placed

    def _vacate(self, facts: NodeFacts) -> None:
        """Leave of the node what its pods are still measured against: its place in the topology."""
        for record in self._snapshot.pods_on(facts.name):
            self._snapshot.drop_pod(record.meta.namespace, record.meta.name)
        self._snapshot.put_node(_ghost(facts.node))

    def _place_all(
        self, known: Sequence[tuple[PodRecord, PodKind | None]], order: RowIndex
    ) -> list[Relocated] | None:
        placed: list[Relocated] = []
        for run in _runs(known):
            kind = run[0][1]
            records = [record for record, _ in run]
            rows = (
                self._place_by_name(records[0], order)
                if kind is None
                else self._place_kind(kind, len(records), order)
            )
            if rows is None:
                self.unplaced = records[0]
                return None
            placed += map(Relocated, records, rows)
        return placed

    def _place_by_name(self, record: PodRecord, order: RowIndex) -> list[int] | None:
        pending = record.moved_to("")
        storage = self._storage(record)
        if storage and not self._snapshot.storage_ledger.class_names:
            published_storage.open_ledger(self._snapshot, self._tracked, templates={}, coming_up={})
        fits = pipeline.evaluate(self._snapshot, pending, self._features).fits[order]
        fits &= ~self._snapshot.columns.unschedulable.data[order]
        if not fits.any():
            return None
        row = int(order[fits.argmax()])
        self._snapshot.place(record, self._snapshot.name_of(row))
        if storage:
            rows, one_pod = np.array([row]), np.ones(1, dtype=np.int64)
            ledger = self._snapshot.storage_ledger
            ledger.take(rows, one_pod, storage)
            self._snapshot.undo_by(ledger.take, rows, -one_pod, storage)
        return [row]

    def _storage(self, record: PodRecord) -> dict[str, int]:
        """Bytes by class of volumes that are still to be made for the pod, where it is put."""
        found: Counter[str] = Counter()
        for claim in pod_groups.unbound_claims(self._snapshot, record) if self._tracked else ():
            if claim.class_name in self._tracked:
                found[claim.class_name] += storage_ledger.size_of(claim)
        return found

    def _place_kind(self, kind: PodKind, count: int, order: RowIndex) -> list[int] | None:
        """Places for so many pods of a kind: first fit, a block of destinations at a time."""
        chosen: list[RowIndex] = []
        amounts: list[Ints] = []
        left = count
        for start in range(0, len(order), _AT_A_TIME):
            block = order[start : start + _AT_A_TIME]
            block = block[kind.rows[block]]
            if not len(block):
                continue
            room = registry.room(self._snapshot, kind.footprint, block, self._features)
            counts = packing.first_fit(room, left)
            taken = np.flatnonzero(counts)
            if len(taken):
                chosen.append(block[taken])
                amounts.append(counts[taken])
                left -= int(counts.sum())
                if not left:
                    break
        if left:
            return None
        rows, numbers = np.concatenate(chosen), np.concatenate(amounts)
        imagined.place(self._snapshot, kind.footprint, rows, numbers)
        return [int(row) for row in np.repeat(rows, numbers)]


def _runs(
    known: Sequence[tuple[PodRecord, PodKind | None]],
) -> Iterable[list[tuple[PodRecord, PodKind | None]]]:
    """Pods side by side that are of one kind, and every other pod alone."""
    run: list[tuple[PodRecord, PodKind | None]] = []
    for pair in known:
        if run and (pair[1] is None or pair[1] is not run[0][1]):
            yield run
            run = []
        run.append(pair)
    if run:
        yield run


def _ghost(node: Node) -> Node:
    """The node as it is while it goes: nobody may come."""
    spec = msgspec.structs.replace(node.spec, taints=(*node.spec.taints, _GHOST))
    return msgspec.structs.replace(node, spec=spec)
