"""Volumes of a class that no claim has, arranged for finding the best one on every row at once.

Local disks come by the thousand, each reachable from one node. So volumes are not looked
at one by one: those bound to values of one label are found through a table over that
label's values, and the rest by their selector.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from fractions import Fraction

import msgspec
import numpy as np

from tonnage.objects import quantities, selectors
from tonnage.objects.pods import NodeSelector
from tonnage.objects.storage import PersistentVolume, PersistentVolumeClaim
from tonnage.snapshot.interner import Interner
from tonnage.snapshot.labels import NodeLabels, ValueTable
from tonnage.snapshot.rows import Bools, Ints


def is_open(volume: PersistentVolume) -> bool:
    """Whether any claim may take the volume."""
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == "Available"
        and volume.metadata.deletion_timestamp is None
    )


def affinity_of(volume: PersistentVolume) -> NodeSelector | None:
    return volume.spec.node_affinity.required if volume.spec.node_affinity else None


def size_of(volume: PersistentVolume) -> Fraction:
    return quantities.exact(volume.spec.capacity.get("storage", 0))


def size_wanted(claim: PersistentVolumeClaim) -> Fraction:
    return quantities.exact(claim.spec.resources.requests.get("storage", 0))


class Form(msgspec.Struct, frozen=True):
    """What a volume must be like for a claim to take it, whatever their sizes and labels."""

    mode: str
    attributes_class: str

    @classmethod
    def of(cls, one: PersistentVolume | PersistentVolumeClaim) -> "Form":
        spec = one.spec
        return cls(spec.volume_mode or "Filesystem", spec.volume_attributes_class_name or "")


class OpenVolumes:
    """A volume's rank is its place by size; among equals, the one that came first.

    Volumes can be withdrawn and put back, which is cheap; for others it has to be made anew.
    """

    def __init__(self, volumes: Iterable[PersistentVolume]) -> None:
        self._volumes = _by_size(list(volumes))
        self._sizes = [size_of(volume) for volume in self._volumes]
        self._ranks = {volume.metadata.name: rank for rank, volume in enumerate(self._volumes)}
        self._there = np.ones(len(self._volumes), dtype=np.bool_)
        self._uses: Interner[tuple[Form, frozenset[str]]] = Interner()
        self._use_ids = np.array(
            [
                self._uses.id_of((Form.of(volume), frozenset(volume.spec.access_modes)))
                for volume in self._volumes
            ],
            dtype=np.intp,
        )
        self._by_label: dict[str, _Labelled] = {}
        self._by_selector: dict[NodeSelector | None, list[int]] = {}
        for rank, volume in enumerate(self._volumes):
            self._arrange(rank, affinity_of(volume))
        self._firsts: dict[Hashable, _Firsts] = {}

    @property
    def none(self) -> int:
        """The rank that stands for no volume: larger than all others."""
        return len(self._volumes)

    def ranked(self, rank: int) -> PersistentVolume:
        return self._volumes[rank]

    def withdraw(self, name: str) -> None:
        self._there[self._ranks[name]] = False
        self._firsts.clear()

    def put_back(self, volume: PersistentVolume) -> bool:
        """Take a volume that was withdrawn; `False` for one that was never here as it is now."""
        rank = self._ranks.get(volume.metadata.name)
        if rank is None or self._volumes[rank] is not volume:
            return False
        self._there[rank] = True
        self._firsts.clear()
        return True

    def first_ranks(
        self, claim: PersistentVolumeClaim, labels: NodeLabels, *, size: int, depth: int
    ) -> Ints:
        """For every row, ranks of volumes there that would serve the claim.

        The best `depth` of them are in the row's column, in no particular order; `none` fills up.
        """
        firsts = self._firsts_for(claim, depth)
        found = [np.full((1, size), self.none, dtype=np.int64)]
        for key, values, table in firsts.by_label:
            found.append(table[:, values.of_rows(labels.find(key), size)])
        for selector, ranks in firsts.by_selector:
            reached = (
                np.ones(size, dtype=np.bool_)
                if selector is None
                else labels.matching_nodes(selector, by_name=False)
            )
            found.append(np.where(reached, np.array(ranks)[:, np.newaxis], self.none))
        return np.concatenate(found)

    def _arrange(self, rank: int, affinity: NodeSelector | None) -> None:
        bound = _one_label(affinity)
        if bound is None:
            self._by_selector.setdefault(affinity, []).append(rank)
            return
        key, values = bound
        labelled = self._by_label.get(key)
        if labelled is None:
            labelled = self._by_label[key] = _Labelled()
        labelled.add(rank, values)

    def _firsts_for(self, claim: PersistentVolumeClaim, depth: int) -> "_Firsts":
        modes = frozenset(claim.spec.access_modes)
        selector = selectors.canonical(claim.spec.selector)
        key = (Form.of(claim), modes, size_wanted(claim), selector, depth)
        firsts = self._firsts.get(key)
        if firsts is None:
            suiting = self._suiting(claim, modes)
            firsts = self._firsts[key] = _Firsts(
                [
                    (label, labelled.values, labelled.firsts(suiting, depth, none=self.none))
                    for label, labelled in self._by_label.items()
                ],
                [
                    (affinity, kept[:depth])
                    for affinity, ranks in self._by_selector.items()
                    if (kept := [rank for rank in ranks if suiting[rank]])
                ],
            )
        return firsts

    def _suiting(self, claim: PersistentVolumeClaim, modes: frozenset[str]) -> Bools:
        """By rank, whether the volume would serve the claim if it can be reached."""
        form = Form.of(claim)
        serving = [form == offered and modes <= allowed for offered, allowed in self._uses.values]
        suiting: Bools = np.array(serving, dtype=np.bool_)[self._use_ids] & self._there
        suiting[: bisect_left(self._sizes, size_wanted(claim))] = False
        if claim.spec.selector is not None:
            for rank in np.flatnonzero(suiting).tolist():
                labels = self._volumes[rank].metadata.labels
                suiting[rank] = selectors.matches(claim.spec.selector, labels)
        return suiting


class _Firsts(msgspec.Struct, frozen=True):
    """The best ranks by the value of a label, and by selector."""

    by_label: list[tuple[str, ValueTable, Ints]]
    by_selector: list[tuple[NodeSelector | None, list[int]]]


class _Labelled:
    """Volumes reachable from nodes that have one of their values of a label."""

    def __init__(self) -> None:
        self.values = ValueTable(default=0)
        self._places: Interner[str] = Interner(first=1)
        self._ranks: list[int] = []
        self._value_of: list[int] = []

    def add(self, rank: int, values: Iterable[str]) -> None:
        """Ranks come in ascending order."""
        for value in dict.fromkeys(values):
            place = self._places.id_of(value)
            self._ranks.append(rank)
            self._value_of.append(place)
            self.values.set(value, place)

    def firsts(self, suiting: Bools, depth: int, *, none: int) -> Ints:
        """The best ranks by value; value 0 is any other, which no volume is reachable from."""
        ranks = np.array(self._ranks, dtype=np.int64)
        values = np.array(self._value_of, dtype=np.intp)
        kept = suiting[ranks]
        # Stable, so that the ranks of a value stay in ascending order.
        order = np.argsort(values[kept], kind="stable")
        ranks, values = ranks[kept][order], values[kept][order]
        counts = np.bincount(values, minlength=len(self._places))
        place = np.arange(len(values)) - (np.cumsum(counts) - counts)[values]
        best = place < depth
        table = np.full((depth, len(self._places)), none, dtype=np.int64)
        table[place[best], values[best]] = ranks[best]
        return table


def _by_size(volumes: list[PersistentVolume]) -> list[PersistentVolume]:
    # There are few different sizes, and comparing fractions is slow.
    written = {volume.spec.capacity.get("storage", 0) for volume in volumes}
    sizes = sorted({quantities.exact(size) for size in written})
    place = {size: number for number, size in enumerate(sizes)}
    places = {size: place[quantities.exact(size)] for size in written}
    # Upstream takes equals in no order; by name the answer does not depend on what was changed.
    return sorted(
        volumes,
        key=lambda volume: (places[volume.spec.capacity.get("storage", 0)], volume.metadata.name),
    )


def _one_label(affinity: NodeSelector | None) -> tuple[str, tuple[str, ...]] | None:
    """Key and values of an affinity that is nothing but "this label has one of these values"."""
    if affinity is None or len(affinity.node_selector_terms) != 1:
        return None
    (term,) = affinity.node_selector_terms
    if len(term.match_expressions) != 1 or term.match_fields or not selectors.valid_term(term):
        return None
    (one,) = term.match_expressions
    return (one.key, one.values) if one.operator == "In" else None
