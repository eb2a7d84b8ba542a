"""How many pods that match something are on each row.

Spread and affinity ask that again and again. A question is registered once and
its counts are kept while pods come and go, so that asking is reading a column.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from tonnage.objects import selectors
from tonnage.objects.meta import LabelSelector
from tonnage.objects.pods import PodAffinityTerm
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.rows import Column, RowTable

_COUNTERS_LIMIT = 4096


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """`selectors.matches` for a selector that was checked before, once for thousands of classes."""
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    for one in selector.match_expressions:
        if not selectors.requirement_matches(one.key, one.operator, one.values, labels):
            return False
    return True


class Scope(msgspec.Struct, frozen=True):
    """Pods of some namespaces whose labels match. `namespaces` of `None` is every namespace."""

    namespaces: frozenset[str] | None
    selector: LabelSelector | None

    def covers(self, pod_class: PodClass) -> bool:
        return (self.namespaces is None or pod_class.namespace in self.namespaces) and selects(
            self.selector, pod_class.labels
        )

    def key(self) -> Hashable:
        return (
            self.namespaces,
            None if self.selector is None else selectors.canonical(self.selector),
        )


class PodCounter:
    """Pods in all of the scopes, per row; those being deleted count only with `terminating`."""

    __slots__ = ("column", "scopes", "terminating", "total")

    def __init__(
        self, scopes: tuple[Scope, ...], column: Column[np.int32], *, terminating: bool
    ) -> None:
        self.scopes = scopes
        self.column = column
        self.terminating = terminating
        self.total = 0

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces of the first scope: no other pod can be in all of them."""
        return self.scopes[0].namespaces

    def covers(self, pod_class: PodClass) -> bool:
        return all(scope.covers(pod_class) for scope in self.scopes)

    def change(self, row: int, by: int) -> None:
        self.column.data[row] += by
        self.total += by


class PodCounters:
    """Each counter equals a count from scratch over the pods now on rows."""

    def __init__(self, table: RowTable) -> None:
        self._table = table
        self._classes: dict[str, dict[PodClass, None]] = {}
        self._counters: dict[Hashable, PodCounter] = {}

    def register(self, pod_class: PodClass) -> None:
        """Count a class from now on; it is on no row yet."""
        self._classes.setdefault(pod_class.namespace, {})[pod_class] = None
        pod_class.counters = None

    def forget(self, gone: Iterable[PodClass]) -> None:
        """Let classes go that are on no row, and all counters: they are made again when asked."""
        for pods in gone:
            left = self._classes[pods.namespace]
            del left[pods]
            if not left:
                del self._classes[pods.namespace]
        self._forget_all()

    def counter(self, scopes: tuple[Scope, ...], *, terminating: bool) -> PodCounter:
        key = (tuple(scope.key() for scope in scopes), terminating)
        counter = self._counters.get(key)
        if counter is None:
            if len(self._counters) >= _COUNTERS_LIMIT:
                self._forget_all()
            counter = PodCounter(scopes, self._table.tally(np.int32), terminating=terminating)
            self._counters[key] = counter
            self._count(counter)
        return counter

    def added(self, pod_class: PodClass, row: int, by: int, *, terminating: bool) -> None:
        for counter in self._covering(pod_class):
            if counter.terminating or not terminating:
                counter.change(row, by)

    def added_many(
        self, pod_class: PodClass, rows: npt.NDArray[np.intp], by: npt.NDArray[np.int64]
    ) -> None:
        """The same for several rows, each named once, none of whose pods is being deleted."""
        for counter in self._covering(pod_class):
            counter.column.data[rows] += by.astype(np.int32)
            counter.total += int(by.sum())

    def _covering(self, pod_class: PodClass) -> list[PodCounter]:
        if pod_class.counters is None:
            pod_class.counters = [one for one in self._counters.values() if one.covers(pod_class)]
        return pod_class.counters

    def _count(self, counter: PodCounter) -> None:
        for pods in self._classes_in(counter.namespaces):
            if not counter.covers(pods):
                continue
            if pods.counters is not None:
                pods.counters.append(counter)
            for row, count in pods.nodes.items():
                leaving = 0 if counter.terminating else pods.terminating.get(row, 0)
                counter.change(row, count - leaving)

    def _forget_all(self) -> None:
        self._table.drop(one.column for one in self._counters.values())
        self._counters.clear()
        for pods in self._classes_in(None):
            pods.counters = None

    def _classes_in(self, namespaces: frozenset[str] | None) -> Iterator[PodClass]:
        for namespace in self._classes if namespaces is None else namespaces:
            yield from self._classes.get(namespace, ())


class AntiTerm(msgspec.Struct, frozen=True):
    """A required anti-affinity term that pods on nodes hold against newcomers."""

    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector | None
    topology_key: str

    def refuses(self, pod_class: PodClass, namespace_labels: Mapping[str, str]) -> bool:
        inside = pod_class.namespace in self.namespaces or selects(
            self.namespace_selector, namespace_labels
        )
        return inside and selects(self.selector, pod_class.labels)


class Refusals:
    """The terms that refuse a class, among those looked at so far in this generation of terms."""

    __slots__ = ("generation", "looked_at", "selecting_looked_at", "terms")

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.looked_at = 0
        self.selecting_looked_at = 0
        self.terms: list[int] = []


class AntiTerms:
    """Every required anti-affinity term of every class, once, with the classes that hold it."""

    def __init__(self) -> None:
        self._ids: dict[Hashable, int] = {}
        self._next_id = 0
        self.terms: dict[int, AntiTerm] = {}
        self.holders: dict[int, dict[PodClass, None]] = {}
        self._by_namespace: dict[str, list[int]] = {}
        self._selecting: list[int] = []
        self._generation = 0

    def register(self, pod_class: PodClass) -> None:
        # One term that does not parse takes all of the pod's terms with it, as upstream.
        if all(is_usable(term) for term in pod_class.anti_affinity):
            pod_class.own_anti_terms = tuple(
                dict.fromkeys(
                    self._id_of(anti_term(term, pod_class.namespace))
                    for term in pod_class.anti_affinity
                )
            )
        for identity in pod_class.own_anti_terms:
            self.holders[identity][pod_class] = None

    def forget(self, gone: Iterable[PodClass]) -> None:
        """Let classes go, and the terms that nobody else holds."""
        unheld: set[int] = set()
        for pods in gone:
            for identity in pods.own_anti_terms:
                holders = self.holders[identity]
                holders.pop(pods, None)
                if not holders:
                    unheld.add(identity)
        if not unheld:
            return
        for identity in unheld:
            del self.terms[identity], self.holders[identity]
        self._ids = {key: one for key, one in self._ids.items() if one not in unheld}
        self._selecting = [one for one in self._selecting if one not in unheld]
        kept = {
            namespace: [one for one in terms if one not in unheld]
            for namespace, terms in self._by_namespace.items()
        }
        self._by_namespace = {namespace: terms for namespace, terms in kept.items() if terms}
        self._generation += 1

    def refusing(self, pod_class: PodClass, namespace_labels: Mapping[str, str]) -> Iterable[int]:
        """Terms that would keep `pods` away from wherever they are held."""
        refusals = pod_class.refusals
        if refusals is None or refusals.generation != self._generation:
            refusals = pod_class.refusals = Refusals(self._generation)
        named = self._by_namespace.get(pod_class.namespace, [])
        if refusals.looked_at < len(named) or refusals.selecting_looked_at < len(self._selecting):
            fresh = named[refusals.looked_at :] + self._selecting[refusals.selecting_looked_at :]
            refusals.terms += [
                term for term in fresh if self.terms[term].refuses(pod_class, namespace_labels)
            ]
            refusals.looked_at = len(named)
            refusals.selecting_looked_at = len(self._selecting)
        return refusals.terms

    def namespaces_changed(self) -> None:
        self._generation += 1

    def _id_of(self, term: AntiTerm) -> int:
        key = (
            term.namespaces,
            None
            if term.namespace_selector is None
            else selectors.canonical(term.namespace_selector),
            None if term.selector is None else selectors.canonical(term.selector),
            term.topology_key,
        )
        identity = self._ids.get(key)
        if identity is None:
            identity = self._ids[key] = self._next_id
            self._next_id += 1
            self.terms[identity] = term
            self.holders[identity] = {}
            if term.namespace_selector is not None:
                self._selecting.append(identity)
            else:
                for namespace in term.namespaces:
                    self._by_namespace.setdefault(namespace, []).append(identity)
        return identity


def anti_term(term: PodAffinityTerm, namespace: str) -> AntiTerm:
    own_only = not term.namespaces and term.namespace_selector is None
    return AntiTerm(
        frozenset((namespace,) if own_only else term.namespaces),
        term.namespace_selector,
        term.label_selector,
        term.topology_key,
    )


def is_usable(term: PodAffinityTerm) -> bool:
    """Whether the term's selectors parse."""
    return all(
        selector is None or selectors.is_valid(selector)
        for selector in (term.label_selector, term.namespace_selector)
    )
