"""What other pods, and a group's own, allow on new nodes: affinity and spread as numbers.

New nodes of a template differ in nothing but their hostname, so that rules between pods come
down to caps: so many in all, so many on a node, none much higher than the lowest.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.objects.pods import PodAffinityTerm, TopologySpreadConstraint
from tonnage.rules import inter_pod_affinity, pod_topology_spread
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask
from tonnage.scaleup.podgroups import PodGroup
from tonnage.snapshot.counting import Scope
from tonnage.snapshot.imagined import TemplateRow
from tonnage.snapshot.labels import ABSENT
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.snapshot import Snapshot

T = TypeVar("T")

PLENTY = np.iinfo(np.int64).max // 4


class Caps(NamedTuple):
    """How many pods of a group may go on new nodes of a template, besides what there is room for.

    In all at most `total`, on a row that is there `on_row`, on one more row `fresh`. With
    `level` set, no row may rise more than that above the lowest row or `floor`; rows start
    at `heights`. With `one_row` all must go on a single row. `drifting` says that it depends on
    how many nodes there are, `untold` that these numbers do not say it all.
    """

    total: int
    on_row: Ints
    fresh: int
    heights: Ints
    level: int | None = None
    floor: int = 0
    one_row: bool = False
    drifting: bool = False
    untold: bool = False


def of(
    snapshot: Snapshot, group: PodGroup, features: Features, *, template: TemplateRow, rows: slice
) -> Caps | None:
    """The caps of a group on the rows of new nodes; `None` if nobody cares."""
    ask = Ask(snapshot, group.sample, features)
    starting = [held.pod_class for held in template.starting]
    refusing = inter_pod_affinity.refusing_terms(ask, besides=starting)
    if not group.interacting and not refusing:
        return None
    caps = _Builder(ask, template, rows)
    for rule in _rules(caps, snapshot, group, refusing):
        rule()
        if caps.none_fit:
            # What else there is to say makes no difference; it may be thousands of rules.
            break
    return caps.build()


def _rules(
    caps: "_Builder", snapshot: Snapshot, group: PodGroup, refusing: Sequence[int]
) -> Iterator[Callable[[], None]]:
    pod_class = group.sample.pod_class
    for constraint in pod_class.spread:
        yield partial(caps.spread, constraint)
    for key, terms in _by(pod_class.anti_affinity, key=lambda term: term.topology_key).items():
        yield partial(caps.apart, key, terms)
    if pod_class.affinity:
        yield partial(caps.together, pod_class.affinity)
    known = snapshot.anti_terms.terms
    for key, against in _by(refusing, key=lambda term: known[term].topology_key).items():
        yield partial(caps.refused, key, against)


def _by(items: Iterable[T], *, key: Callable[[T], str]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


class _Builder:
    """Gathers caps for new rows, each rule lowering what the ones before it left."""

    def __init__(self, ask: Ask, template: TemplateRow, rows: slice) -> None:
        self._ask = ask
        self._rows = rows
        self._template = template.row
        self._host_keys = template.host_keys
        self._starting = [held.pod_class for held in template.starting]
        count = rows.stop - rows.start
        self._total = PLENTY
        self._on_row: Ints = np.full(count, PLENTY, dtype=np.int64)
        self._fresh = PLENTY
        self._heights: Ints = np.zeros(count, dtype=np.int64)
        self._level: int | None = None
        self._floor = PLENTY
        self._one_row = False
        self._drifting = False
        self._untold = False

    def build(self) -> Caps:
        return Caps(
            self._total,
            self._on_row,
            self._fresh,
            self._heights,
            self._level,
            self._floor,
            self._one_row,
            self._drifting,
            self._untold or (self._one_row and self._level is not None),
        )

    @property
    def none_fit(self) -> bool:
        return self._total == 0

    def _refuse(self) -> None:
        self._total = 0

    def spread(self, constraint: TopologySpreadConstraint) -> None:
        key = constraint.topology_key
        domains = pod_topology_spread.count(self._ask, constraint)
        own = self._label(key)
        selector = pod_topology_spread.effective_selector(constraint, self._ask.pod_class)
        if self._starts_with(Scope(frozenset((self._ask.pod_class.namespace,)), selector)):
            # Every node brings a pod that counts.
            self._drifting = self._untold = True
        if own == ABSENT:
            self._refuse()
        elif key in self._host_keys:
            self._drifting = True
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
        elif self._level is None:
            self._level, self._floor, self._heights = constraint.max_skew, lowest, here
        elif (self._heights == here).all():
            self._level = min(self._level, constraint.max_skew)
            self._floor = min(self._floor, lowest)
        else:
            self._untold = True

    def apart(self, key: str, terms: Sequence[PodAffinityTerm]) -> None:
        """Anti-affinity of the pods over the domains of one label."""
        if self._label(key) == ABSENT:
            return
        held = np.zeros(self._ask.size, dtype=np.bool_)
        to_itself = everywhere = False
        for term in terms:
            scope = inter_pod_affinity.scope_of(self._ask, term)
            counter = self._ask.snapshot.counters.counter((scope,), terminating=True)
            if counter.total:
                held |= counter.column.data[: self._ask.size] > 0
            to_itself = to_itself or scope.covers(self._ask.pod_class)
            everywhere = everywhere or self._starts_with(scope)
        self._keep_away(key, held, to_itself=to_itself, everywhere=everywhere)

    def refused(self, key: str, terms: Sequence[int]) -> None:
        """Anti-affinity of others against the pods over the domains of one label."""
        if self._label(key) == ABSENT:
            return
        holders = self._ask.snapshot.anti_terms.holders
        held = np.zeros(self._ask.size, dtype=np.bool_)
        for holder in {id(one): one for term in terms for one in holders[term]}.values():
            held[list(holder.nodes)] = True
        self._keep_away(
            key,
            held,
            to_itself=not set(terms).isdisjoint(self._ask.pod_class.own_anti_terms),
            everywhere=any(
                not set(terms).isdisjoint(pods.own_anti_terms) for pods in self._starting
            ),
        )

    def _keep_away(self, key: str, held: Bools, *, to_itself: bool, everywhere: bool) -> None:
        """Keep out of the domains of the rows that hold; `everywhere`: every new node would."""
        if everywhere:
            self._refuse()
        if key in self._host_keys:
            self._on_row[held[self._rows]] = 0
            if to_itself:
                self._on_row = np.minimum(self._on_row, 1)
                self._fresh = min(self._fresh, 1)
            return
        domains = self._ask.snapshot.columns.labels.find(key).data[: self._ask.size]
        if held[domains == self._label(key)].any():
            self._refuse()
        elif to_itself:
            self._total = min(self._total, 1)

    def together(self, terms: tuple[PodAffinityTerm, ...]) -> None:
        scopes = tuple(inter_pod_affinity.scope_of(self._ask, term) for term in terms)
        counter = self._ask.snapshot.counters.counter(scopes, terminating=True)
        size = self._ask.size
        matching = counter.column.data[:size] > 0
        labels = self._ask.snapshot.columns.labels
        columns = {
            key: labels.find(key).data[:size]
            for key in dict.fromkeys(term.topology_key for term in terms)
        }
        starts = not any(
            (matching & (column != ABSENT)).any() for column in columns.values()
        ) and all(scope.covers(self._ask.pod_class) for scope in scopes)
        brought = any(all(scope.covers(pods) for scope in scopes) for pods in self._starting)
        for key, column in columns.items():
            own = self._label(key)
            if own == ABSENT:
                self._refuse()
            elif brought:
                continue
            elif key in self._host_keys:
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

    def _starts_with(self, scope: Scope) -> bool:
        """Whether every new node comes with a pod that the scope speaks of."""
        return any(scope.covers(pods) for pods in self._starting)

    def _label(self, key: str) -> int:
        return int(self._ask.snapshot.columns.labels.find(key).data[self._template])
