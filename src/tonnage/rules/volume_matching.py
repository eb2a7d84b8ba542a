"""Which existing volumes the unbound claims of a pod would get, on every row at once."""

from typing import TypeAlias

import numpy as np

from tonnage.objects.pods import NodeSelector
from tonnage.objects.storage import PersistentVolume, PersistentVolumeClaim
from tonnage.rules.framework import Ask
from tonnage.snapshot.open_volumes import Form, affinity_of, size_of, size_wanted
from tonnage.snapshot.rows import Bools, Ints

_ClaimKey: TypeAlias = tuple[str, str]


class Matching:
    """Gives volumes to the claims of one pod; no volume goes to two claims on the same row."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._given: dict[str, list[Ints]] = {}
        self._reserved_given: dict[str, Bools] = {}
        self._reserved_of: dict[_ClaimKey, list[tuple[PersistentVolume, Bools]]] = {}
        self._open_of: dict[_ClaimKey, Ints] = {}

    def unserved(self, claim: PersistentVolumeClaim) -> Bools:
        """Rows where no volume serves the claim; on the others the best one is given to it."""
        unserved = np.zeros(self._ask.size, dtype=np.bool_)
        searching = np.ones(self._ask.size, dtype=np.bool_)
        for volume in self._reserved_for(claim):
            # A volume reserved for the claim is the only candidate, wherever it is.
            name = volume.metadata.name
            given = self._reserved_given.get(name, np.zeros_like(searching))
            reached = reachable(self._ask, affinity_of(volume))
            unserved |= searching & ~given & ~reached
            own = self._reserved_of.setdefault(_key(claim), [])
            own.append((volume, searching & ~given & reached))
            self._reserved_given[name] = given | (searching & reached)
            searching &= given
        if searching.any():
            unserved |= searching & ~self._give_open(claim, searching)
        return unserved

    def volume_for(self, claim: PersistentVolumeClaim, row: int) -> PersistentVolume | None:
        """The volume that `unserved` gave the claim on a row."""
        for volume, rows in self._reserved_of.get(_key(claim), ()):
            if rows[row]:
                return volume
        ranks = self._open_of.get(_key(claim))
        volumes = self._ask.snapshot.storage.open_volumes(claim.class_name)
        if ranks is None or ranks[row] == volumes.none:
            return None
        return volumes.ranked(int(ranks[row]))

    def _give_open(self, claim: PersistentVolumeClaim, rows: Bools) -> Bools:
        """Rows where an open volume is given to the claim, among those asked for."""
        volumes = self._ask.snapshot.storage.open_volumes(claim.class_name)
        if not volumes.none:
            return np.zeros(self._ask.size, dtype=np.bool_)
        given = self._given.setdefault(claim.class_name, [])
        labels = self._ask.snapshot.columns.labels
        ranks = volumes.first_ranks(claim, labels, size=self._ask.size, depth=len(given) + 1)
        for earlier in given:
            ranks[ranks == earlier] = volumes.none
        best = np.where(rows, ranks.min(axis=0), volumes.none)
        given.append(best)
        self._open_of[_key(claim)] = best
        return best < volumes.none

    def _reserved_for(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        meta = claim.metadata
        return [
            volume
            for volume in self._ask.snapshot.storage.reserved_for(meta.namespace, meta.name)
            if volume.class_name == claim.class_name
            and _is_reserved_for(volume, claim)
            and volume.metadata.deletion_timestamp is None
            and Form.of(volume) == Form.of(claim)
            and size_of(volume) >= size_wanted(claim)
        ]


def reachable(ask: Ask, affinity: NodeSelector | None) -> Bools:
    """Rows that a volume with this affinity can be reached from; names of nodes do not count."""
    if affinity is None:
        return np.ones(ask.size, dtype=np.bool_)
    return ask.snapshot.columns.labels.matching_nodes(affinity, by_name=False)


def _is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference = volume.spec.claim_ref
    return reference is not None and reference.uid in ("", claim.metadata.uid)


def _key(claim: PersistentVolumeClaim) -> _ClaimKey:
    return (claim.metadata.namespace, claim.metadata.name)
