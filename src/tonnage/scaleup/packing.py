"""How many nodes of a template hold these pods, and which pods go where.

Groups of interchangeable pods are placed many at a time: "how many more fit" is
arithmetic over columns. Where pods keep each other together or apart, the same is said
by `caps`.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tonnage.rules import pipeline, registry
from tonnage.rules.caps import PLENTY, Caps
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask
from tonnage.scaleup.pod_groups import Placed, PodGroup
from tonnage.snapshot import imagined
from tonnage.snapshot.imagined import TemplateRow
from tonnage.snapshot.rows import Ints
from tonnage.snapshot.snapshot import PodRecord, Snapshot


class Packing:
    """Pods put on new nodes of one template, in order. Empty nodes are not counted.

    `depends_on_node_count`: some placement depends on how many nodes there were at that moment.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        template: TemplateRow,
        features: Features,
        *,
        prefix: str,
        first_number: int,
        fresh: Mapping[int, int],
    ) -> None:
        self.snapshot = snapshot
        self.template = template
        self.first = snapshot.table.size
        self.names: list[str] = []
        self.placed: list[Placed] = []
        self.depends_on_node_count = False
        self._prefix = prefix
        self._first_number = first_number
        self._taken: dict[int, int] = {}
        self._fresh = fresh
        self._features = features

    def another(self) -> "Packing":
        """An empty packing of the same template, on the snapshot as it is now."""
        return Packing(
            self.snapshot,
            self.template,
            self._features,
            prefix=self._prefix,
            first_number=self._first_number,
            fresh=self._fresh,
        )

    @property
    def rows(self) -> slice:
        return slice(self.first, self.first + len(self.names))

    @property
    def pod_count(self) -> int:
        return sum(len(one.pods) for one in self.placed)

    @property
    def pods(self) -> list[PodRecord]:
        return [pod for one in self.placed for pod in one.pods]

    @property
    def used_rows(self) -> list[int]:
        return sorted({one.row for one in self.placed})

    @property
    def node_count(self) -> int:
        return len(self.used_rows)

    def name_of(self, row: int) -> str:
        return self.names[row - self.first]

    def add_nodes(self, count: int) -> None:
        first = self._first_number + len(self.names)
        names = imagined.free_names(self.snapshot, self._prefix, count, first=first)
        imagined.add_copies(self.snapshot, self.template, names)
        self.names.extend(names)

    def fresh_room(self, group: PodGroup) -> int:
        """How many pods of the group an empty node of the template has room for."""
        known = self._fresh.get(id(group.footprint))
        if known is not None:
            return known
        row = np.array([self.template.row])
        return int(registry.room(self.snapshot, group.footprint, row, self._features)[0])

    def taken(self, group: PodGroup) -> int:
        """How many pods of the group have found a place."""
        return self._taken.get(id(group), 0)

    def remaining(self, group: PodGroup) -> int:
        return group.size - self.taken(group)

    def requested(self, resource: str) -> int:
        """What all placed pods request together."""
        return sum(one.group.requests(resource) * len(one.pods) for one in self.placed)

    def put(self, group: PodGroup, counts: Ints, *, heights: Ints | None = None) -> None:
        """Place so many pods of the group on each of the rows.

        With `heights` the lowest row is always next, so that none drifts too far above another on
        the way.
        """
        chosen = np.flatnonzero(counts)
        if not len(chosen):
            return
        rows, amounts = chosen + self.first, counts[chosen]
        taken = self._taken.get(id(group), 0)
        if group.tracked:
            registry.place(Ask(self.snapshot, group.sample, self._features), int(rows[0]))
        else:
            imagined.place(self.snapshot, group.footprint, rows, amounts)
        if heights is not None:
            self._put_by_level(group, rows, amounts, heights[chosen], taken)
        else:
            self.placed += group.in_turn(rows, amounts, first=taken)
        self._taken[id(group)] = taken + int(amounts.sum())

    def _put_by_level(
        self,
        group: PodGroup,
        rows: npt.NDArray[np.intp],
        amounts: Ints,
        heights: Ints,
        taken: int,
    ) -> None:
        where = np.repeat(rows, amounts)
        nth = np.arange(len(where)) - np.repeat(amounts.cumsum() - amounts, amounts)
        order = np.argsort(np.repeat(heights, amounts) + nth, kind="stable")
        for index, row in enumerate(where[order].tolist(), taken):
            self.placed.append(Placed(group, (group.members[index],), row))


def pack(
    snapshot: Snapshot,
    template: TemplateRow,
    groups: Sequence[PodGroup],
    features: Features,
    *,
    limit: int,
    prefix: str,
    first_number: int = 1,
    fresh: Mapping[int, int] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Packing:
    """Place the groups in the order given on at most `limit` new nodes, first fit.

    Everything is placed in the snapshot; the caller opens a trial and keeps it or not. `fresh`
    says how many pods of a group an empty node of this template holds, where that is known.
    """
    packing = Packing(
        snapshot,
        template,
        features,
        prefix=prefix,
        first_number=first_number,
        fresh={} if fresh is None else fresh,
    )
    _place_all(packing, groups, features, limit, stop)
    return packing


def repack(
    packed: Packing,
    groups: Sequence[PodGroup],
    features: Features,
    *,
    nodes: int,
    keep_empty: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Packing:
    """The same on so many nodes, all there from the start; what was packed must be reverted.

    Who finds a place may depend on nodes that later pods bring. Nodes that stay empty then are
    left out, unless they are kept, and everything is placed again without them.
    """
    snapshot = packed.snapshot
    while True:
        with snapshot.trial() as trial:
            again = packed.another()
            again.add_nodes(nodes)
            _place_all(again, groups, features, nodes, stop)
            used = len(again.used_rows)
            if used == nodes or keep_empty:
                trial.keep()
                return again
        nodes = used or nodes - 1


def _place_all(
    packing: Packing,
    groups: Sequence[PodGroup],
    features: Features,
    limit: int,
    stop: Callable[[], bool],
) -> None:
    for group in groups:
        if stop():
            break
        if group.tracked:
            _place_each(packing, group, features, limit, packing.remaining(group), stop)
        else:
            _place_group(packing, group, features, limit, stop)


def _place_group(
    packing: Packing, group: PodGroup, features: Features, limit: int, stop: Callable[[], bool]
) -> None:
    snapshot = packing.snapshot
    wanted = min(packing.remaining(group), _shared_room(packing, group, features))
    room = registry.room(snapshot, group.footprint, packing.rows, features)
    fresh = packing.fresh_room(group)
    caps = registry.caps(Ask(snapshot, group.sample, features), packing.template, packing.rows)
    if caps is not None:
        packing.depends_on_node_count |= caps.depends_on_node_count
        wanted = min(wanted, caps.total)
        room = np.minimum(room, caps.on_row)
        fresh = min(fresh, caps.fresh)
    if wanted <= 0:
        return
    if caps is not None and caps.needs_pod_by_pod:
        _place_each(packing, group, features, limit, wanted, stop)
        return
    if caps is not None and caps.one_row:
        _fill_one_row(packing, group, room, fresh, wanted, limit)
        return
    if caps is not None and caps.max_skew is not None:
        _fill_level(packing, group, room, fresh, wanted, limit, caps)
        return
    counts, more = first_fit_and_more(room, wanted, fresh, most=limit - len(packing.names))
    if more:
        packing.add_nodes(more)
    packing.put(group, counts)


def _shared_room(packing: Packing, group: PodGroup, features: Features) -> int:
    """How many pods find what all new nodes share, if they take of any."""
    row, plenty = np.array([packing.template.row]), np.array([PLENTY])
    snapshot, footprint = packing.snapshot, group.footprint
    return int(registry.within_shared(snapshot, footprint, plenty, row, features)[0])


def _fill_one_row(
    packing: Packing, group: PodGroup, room: Ints, fresh: int, wanted: int, limit: int
) -> None:
    """All on the row with the most room, or on one more if that has more."""
    best = int(room.max(initial=0))
    if fresh > best and best < wanted and len(packing.names) < limit:
        packing.add_nodes(1)
        room = np.concatenate((room, np.array([fresh], dtype=np.int64)))
    counts = np.zeros(len(room), dtype=np.int64)
    if len(room):
        row = int(room.argmax())
        counts[row] = min(wanted, int(room[row]))
    packing.put(group, counts)


def _fill_level(
    packing: Packing,
    group: PodGroup,
    room: Ints,
    fresh: int,
    wanted: int,
    limit: int,
    caps: Caps,
) -> None:
    """Fill rows evenly: none may rise more than the skew above the lowest."""
    assert caps.max_skew is not None
    possible = limit - len(packing.names)
    more = 0
    while True:
        all_room = np.concatenate((room, np.full(more, fresh, dtype=np.int64)))
        heights = np.concatenate((caps.heights, np.zeros(more, dtype=np.int64)))
        top = caps.max_skew + min(
            caps.global_minimum, int((heights + all_room).min(initial=PLENTY))
        )
        usable = np.minimum(all_room, np.maximum(top - heights, 0))
        short = wanted - int(usable.sum())
        step = min(fresh, caps.max_skew + min(caps.global_minimum, fresh))
        if short <= 0 or step <= 0 or more >= possible:
            break
        more = min(possible, more + -(-short // step))
    counts = _evenly(usable, heights, wanted)
    more = max(int(np.flatnonzero(counts).max(initial=-1)) + 1 - len(room), 0)
    if more:
        packing.add_nodes(more)
    packing.put(group, counts[: len(room) + more], heights=heights[: len(room) + more])


def first_fit(room: Ints, wanted: int) -> Ints:
    """Take from the front as much as there is."""
    before = room.cumsum() - room
    return np.minimum(np.maximum(wanted - before, 0), room)


def first_fit_and_more(room: Ints, wanted: int, fresh: int, *, most: int) -> tuple[Ints, int]:
    """The same, and as many more rows, at most so many, with the room of a fresh one as it takes.

    Gives how many go on each row, and how many rows are added.
    """
    counts = first_fit(room, wanted)
    left = wanted - int(counts.sum())
    more = min(-(-left // fresh), most) if fresh > 0 and left > 0 else 0
    if more <= 0:
        return counts, 0
    added = np.full(more, fresh, dtype=np.int64)
    added[-1] = min(fresh, left - fresh * (more - 1))
    return np.concatenate((counts, added)), more


def _evenly(room: Ints, heights: Ints, wanted: int) -> Ints:
    """Fill all rows from their heights to the same height, as far as there is room."""
    if int(room.sum()) <= wanted:
        return room
    low, high = int(heights.min(initial=0)), int((heights + room).max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.clip(middle - heights, 0, room).sum()) <= wanted:
            low = middle
        else:
            high = middle - 1
    counts = np.clip(low - heights, 0, room)
    extra = wanted - int(counts.sum())
    counts[np.flatnonzero((heights <= low) & (room > counts))[:extra]] += 1
    return counts


def _place_each(
    packing: Packing,
    group: PodGroup,
    features: Features,
    limit: int,
    wanted: int,
    stop: Callable[[], bool],
) -> None:
    """Pod by pod, each row asked as it is now: for pods whose volumes are followed by name."""
    packing.depends_on_node_count |= bool(group.sample.pod_class.spread)
    for _ in range(wanted):
        if stop():
            return
        fits = pipeline.evaluate(packing.snapshot, group.sample, features).fits[packing.rows]
        if not fits.any():
            if len(packing.names) >= limit:
                return
            with packing.snapshot.trial() as trial:
                packing.add_nodes(1)
                found = pipeline.evaluate(packing.snapshot, group.sample, features)
                fits = found.fits[packing.rows]
                if not fits.any():
                    packing.names.pop()
                    return
                trial.keep()
        counts = np.zeros(len(packing.names), dtype=np.int64)
        counts[np.flatnonzero(fits)[0]] = 1
        packing.put(group, counts)
