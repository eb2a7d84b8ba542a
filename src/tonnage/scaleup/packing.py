"""How many nodes of a template hold these pods, and which pods go where.

Groups of interchangeable pods are placed many at a time: "how many more fit" is
arithmetic over columns. Where pods keep each other together or apart, the same is said
by caps: so many in all, so many on a node.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.filters import inter_pod_affinity, pipeline, pod_topology_spread
from tonnage.filters.features import Features
from tonnage.filters.framework import Ask
from tonnage.objects.pods import PodAffinityTerm, TopologySpreadConstraint
from tonnage.scaleup.podgroups import Placed, PodGroup
from tonnage.snapshot import imagined
from tonnage.snapshot.imagined import TemplateRow
from tonnage.snapshot.labels import ABSENT
from tonnage.snapshot.nodes import PODS
from tonnage.snapshot.rows import Ints
from tonnage.snapshot.snapshot import Snapshot

PLENTY = np.iinfo(np.int64).max // 4


class Caps(NamedTuple):
    """How many pods of a group may go on new nodes of a template, besides what there is room for.

    In all at most `total`, on a row that is there `on_row`, on one more row `fresh`. With
    `level` set, rows must also stay within that many of each other and of `floor`; with
    `one_row` all must go on a single row.
    """

    total: int
    on_row: Ints
    fresh: int
    level: int | None = None
    floor: int = 0
    one_row: bool = False


class Packing:
    """Pods put on new nodes of one template, in order. Empty nodes are not counted."""

    def __init__(
        self,
        snapshot: Snapshot,
        template: TemplateRow,
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
        self._prefix = prefix
        self._first_number = first_number
        self._taken: dict[int, int] = {}
        self._fresh = fresh

    @property
    def rows(self) -> slice:
        return slice(self.first, self.first + len(self.names))

    @property
    def pod_count(self) -> int:
        return sum(len(one.pods) for one in self.placed)

    @property
    def used_rows(self) -> list[int]:
        return sorted({one.row for one in self.placed})

    def name_of(self, row: int) -> str:
        return self.names[row - self.first]

    def add_nodes(self, count: int) -> None:
        number = self._first_number + len(self.names)
        names = [f"{self._prefix}{number + index}" for index in range(count)]
        imagined.add_copies(self.snapshot, self.template, names)
        self.names.extend(names)

    def fresh_room(self, group: PodGroup) -> int:
        """How many pods of the group an empty node of the template has room for."""
        known = self._fresh.get(id(group.held))
        if known is not None:
            return known
        return int(headroom(self.snapshot, group, np.array([self.template.row]))[0])

    def taken(self, group: PodGroup) -> int:
        """How many pods of the group have found a place."""
        return self._taken.get(id(group), 0)

    def remaining(self, group: PodGroup) -> int:
        return group.size - self.taken(group)

    def requested(self, resource: str) -> int:
        """What all placed pods request together."""
        return sum(one.group.requests(resource) * len(one.pods) for one in self.placed)

    def put(self, group: PodGroup, counts: Ints, *, by_level: bool = False) -> None:
        """Place so many pods of the group on each of the rows."""
        chosen = np.flatnonzero(counts)
        if not len(chosen):
            return
        rows, amounts = chosen + self.first, counts[chosen]
        taken = self._taken.get(id(group), 0)
        if group.apart:
            self.snapshot.place(group.sample, self.name_of(int(rows[0])))
        else:
            imagined.hold(self.snapshot, group.held, rows, amounts)
        if by_level:
            self._put_by_level(group, rows.tolist(), amounts.tolist(), taken)
        else:
            for row, amount in zip(rows.tolist(), amounts.tolist(), strict=True):
                pods = tuple(group.members[taken : taken + amount])
                self.placed.append(Placed(group, pods, row))
                taken += amount
        self._taken[id(group)] = self._taken.get(id(group), 0) + int(amounts.sum())

    def _put_by_level(
        self, group: PodGroup, rows: list[int], amounts: list[int], taken: int
    ) -> None:
        """One pod on each row, then a second: so that rows never drift apart on the way."""
        for level in range(max(amounts)):
            for row, amount in zip(rows, amounts, strict=True):
                if amount > level:
                    self.placed.append(Placed(group, (group.members[taken],), row))
                    taken += 1


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

    Everything is placed in the snapshot; the caller forks before and keeps or reverts. `fresh`
    says how many pods of a group an empty node of this template holds, where that is known.
    """
    packing = Packing(
        snapshot,
        template,
        prefix=prefix,
        first_number=first_number,
        fresh={} if fresh is None else fresh,
    )
    for group in groups:
        if stop():
            break
        if group.apart:
            _place_apart(packing, group, features, limit)
        else:
            _place_group(packing, group, features, limit)
    return packing


def headroom(snapshot: Snapshot, group: PodGroup, span: slice | npt.NDArray[np.intp]) -> Ints:
    """How many pods of the group there is room for on each row, by count alone."""
    columns = snapshot.columns
    room = columns.allocatable[PODS].data[span] - columns.used[PODS].data[span]
    pods = group.sample.pods
    for name, amount in pods.requests.items():
        if amount:
            resource = columns.resource(name)
            free = columns.allocatable[resource].data[span] - columns.used[resource].data[span]
            room = np.minimum(room, free // amount)
    for driver, slots in group.held.slots.items():
        column = snapshot.slots.driver(driver)
        free = column.limit.data[span] - column.used.data[span] - column.held.data[span]
        room = np.minimum(room, free // slots)
    if pods.ports:
        free_ports = np.ones(snapshot.table.size, dtype=np.int64)
        free_ports[list(snapshot.host_ports.conflicts(pods.ports))] = 0
        room = np.minimum(room, free_ports[span])
    return np.maximum(room, 0)


def _place_group(packing: Packing, group: PodGroup, features: Features, limit: int) -> None:
    snapshot = packing.snapshot
    wanted = packing.remaining(group)
    room = headroom(snapshot, group, packing.rows)
    fresh = packing.fresh_room(group)
    caps = _caps(packing, group, features)
    if caps is not None:
        wanted = min(wanted, caps.total)
        room = np.minimum(room, caps.on_row)
        fresh = min(fresh, caps.fresh)
    if wanted <= 0:
        return
    if caps is not None and caps.one_row:
        _fill_one_row(packing, group, room, fresh, wanted, limit)
        return
    if caps is not None and caps.level is not None:
        _fill_level(packing, group, room, fresh, wanted, limit, caps)
        return
    counts = first_fit(room, wanted)
    left = wanted - int(counts.sum())
    more = min(-(-left // fresh), limit - len(packing.names)) if fresh > 0 and left > 0 else 0
    if more > 0:
        packing.add_nodes(more)
        added = np.full(more, fresh, dtype=np.int64)
        counts = np.concatenate((counts, first_fit(added, left)))
    packing.put(group, counts)


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
    assert caps.level is not None
    possible = limit - len(packing.names)
    more = 0
    while True:
        all_room = np.concatenate((room, np.full(more, fresh, dtype=np.int64)))
        top = caps.level + min(caps.floor, int(all_room.min(initial=PLENTY)))
        usable = np.minimum(all_room, top)
        short = wanted - int(usable.sum())
        if short <= 0 or fresh <= 0 or more >= possible:
            break
        step = min(fresh, caps.level + min(caps.floor, fresh, int(room.min(initial=PLENTY))))
        if step <= 0:
            break
        more = min(possible, more + -(-short // step))
    counts = _evenly(usable, wanted)
    more = max(int(np.flatnonzero(counts).max(initial=-1)) + 1 - len(room), 0)
    if more:
        packing.add_nodes(more)
    packing.put(group, counts[: len(room) + more], by_level=True)


def first_fit(room: Ints, wanted: int) -> Ints:
    """Take from the front as much as there is."""
    before = room.cumsum() - room
    return np.minimum(np.maximum(wanted - before, 0), room)


def _evenly(room: Ints, wanted: int) -> Ints:
    """Fill all rows to the same height as far as there is room."""
    if int(room.sum()) <= wanted:
        return room
    low, high = 0, int(room.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(room, middle).sum()) <= wanted:
            low = middle
        else:
            high = middle - 1
    counts = np.minimum(room, low)
    extra = wanted - int(counts.sum())
    counts[np.flatnonzero(room > low)[:extra]] += 1
    return counts


def _place_apart(packing: Packing, group: PodGroup, features: Features, limit: int) -> None:
    """A pod whose volumes are followed by name: every new row is asked as it is now."""
    if packing.remaining(group) == 0:
        return
    fits = pipeline.evaluate(packing.snapshot, group.sample, features).fits[packing.rows]
    if not fits.any():
        if len(packing.names) >= limit:
            return
        packing.snapshot.fork()
        packing.add_nodes(1)
        fits = pipeline.evaluate(packing.snapshot, group.sample, features).fits[packing.rows]
        if not fits.any():
            packing.snapshot.revert()
            packing.names.pop()
            return
        packing.snapshot.commit()
    counts = np.zeros(len(packing.names), dtype=np.int64)
    counts[np.flatnonzero(fits)[0]] = 1
    packing.put(group, counts)


def _caps(packing: Packing, group: PodGroup, features: Features) -> Caps | None:
    """What other pods, and the group's own, allow on the new rows; `None` if they do not care."""
    snapshot = packing.snapshot
    ask = Ask(snapshot, group.sample, features)
    refusing = inter_pod_affinity.refusing_terms(ask)
    if not group.interacting and not refusing:
        return None
    caps = _CapsBuilder(ask, packing)
    for constraint in group.sample.pods.spread:
        caps.spread(constraint)
    for term in group.sample.pods.anti_affinity:
        caps.apart(term)
    if group.sample.pods.affinity:
        caps.together(group.sample.pods.affinity)
    for identity in refusing:
        caps.refused(identity)
    return caps.build()


class _CapsBuilder:
    """Gathers caps for new rows, which differ from each other in nothing but their hostname."""

    def __init__(self, ask: Ask, packing: Packing) -> None:
        self._ask = ask
        self._rows = packing.rows
        self._template = packing.template.row
        self._host_keys = packing.template.host_keys
        self._total = PLENTY
        self._on_row: Ints = np.full(len(packing.names), PLENTY, dtype=np.int64)
        self._fresh = PLENTY
        self._level: int | None = None
        self._floor = PLENTY
        self._one_row = False

    def build(self) -> Caps:
        return Caps(self._total, self._on_row, self._fresh, self._level, self._floor, self._one_row)

    def _refuse(self) -> None:
        self._total = 0

    def spread(self, constraint: TopologySpreadConstraint) -> None:
        key = constraint.topology_key
        domains = pod_topology_spread.count(self._ask, constraint)
        own = self._label(key)
        if own == ABSENT:
            self._refuse()
        elif key in self._host_keys:
            self._spread_over_hosts(constraint, domains)
        else:
            self._spread_over(constraint, domains, own)

    def _spread_over(
        self,
        constraint: TopologySpreadConstraint,
        domains: pod_topology_spread.Domains,
        own: int,
    ) -> None:
        """All new rows are in one domain: it may grow to the skew above the lowest other."""
        count = int(domains.counts[own])
        others = domains.registered.copy()
        others[own] = False
        lowest = int(domains.counts[others].min(initial=PLENTY))
        if int(others.sum()) + 1 < (constraint.min_domains or 1):
            lowest = 0
        if domains.self_match:
            self._total = min(self._total, max(constraint.max_skew + lowest - count, 0))
        elif count - min(lowest, count) > constraint.max_skew:
            self._refuse()

    def _spread_over_hosts(
        self, constraint: TopologySpreadConstraint, domains: pod_topology_spread.Domains
    ) -> None:
        """Each new row is a domain of its own."""
        new = domains.of_row[self._rows]
        others = domains.registered.copy()
        others[new] = False
        lowest = int(domains.counts[others].min(initial=PLENTY))
        if int(others.sum()) + max(len(new), 1) < (constraint.min_domains or 1):
            lowest = 0
        here = domains.counts[new]
        if not domains.self_match:
            floor = min(lowest, int(here.min(initial=PLENTY)))
            self._on_row[here - floor > constraint.max_skew] = 0
            return
        if here.any():
            # Rows that hold matching pods of other groups: stay within the skew of the lowest.
            top = constraint.max_skew + min(lowest, int(here.min()))
            self._on_row = np.minimum(self._on_row, np.maximum(top - here, 0))
            self._fresh = min(self._fresh, constraint.max_skew)
            return
        self._level = (
            constraint.max_skew if self._level is None else min(self._level, constraint.max_skew)
        )
        self._floor = min(self._floor, lowest)

    def apart(self, term: PodAffinityTerm) -> None:
        scope = inter_pod_affinity.scope_of(self._ask, term)
        counter = self._ask.snapshot.counters.counter((scope,), terminating=True)
        to_itself = scope.covers(self._ask.pods)
        self._keep_away(term.topology_key, counter.column.data, to_itself=to_itself)

    def refused(self, term: int) -> None:
        anti_terms = self._ask.snapshot.anti_terms
        held = np.zeros(self._ask.size, dtype=np.int32)
        for holder in anti_terms.holders[term]:
            held[list(holder.nodes)] = 1
        own = term in self._ask.pods.own_anti_terms
        self._keep_away(anti_terms.terms[term].topology_key, held, to_itself=own)

    def _keep_away(self, key: str, held: npt.NDArray[np.int32], *, to_itself: bool) -> None:
        own = self._label(key)
        if own == ABSENT:
            return
        if key in self._host_keys:
            self._on_row[held[self._rows] > 0] = 0
            if to_itself:
                self._on_row = np.minimum(self._on_row, 1)
                self._fresh = min(self._fresh, 1)
            return
        domains = self._ask.snapshot.columns.labels.key(key).data[: self._ask.size]
        if (held[: self._ask.size][domains == own] > 0).any():
            self._refuse()
        elif to_itself:
            self._total = min(self._total, 1)

    def together(self, terms: tuple[PodAffinityTerm, ...]) -> None:
        scopes = tuple(inter_pod_affinity.scope_of(self._ask, term) for term in terms)
        counter = self._ask.snapshot.counters.counter(scopes, terminating=True)
        size = self._ask.size
        matching = counter.column.data[:size] > 0
        labels = self._ask.snapshot.columns.labels
        columns = [labels.key(term.topology_key).data[:size] for term in terms]
        starts = not any((matching & (column != ABSENT)).any() for column in columns) and all(
            scope.covers(self._ask.pods) for scope in scopes
        )
        for term, column in zip(terms, columns, strict=True):
            own = self._label(term.topology_key)
            if own == ABSENT:
                self._refuse()
            elif term.topology_key in self._host_keys:
                self._together_on_host(matching, starts=starts)
            elif not starts and not matching[column == own].any():
                self._refuse()

    def _together_on_host(self, matching: npt.NDArray[np.bool_], *, starts: bool) -> None:
        """Pods that must share a node: with those that are there, or all on one."""
        if starts:
            self._one_row = True
        else:
            self._on_row[~matching[self._rows]] = 0
            self._fresh = 0

    def _label(self, key: str) -> int:
        return int(self._ask.snapshot.columns.labels.key(key).data[self._template])
