"""InterPodAffinity: required affinity and anti-affinity between pods, both ways."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from tonnage.objects import selectors
from tonnage.objects.meta import LabelSelector
from tonnage.objects.pods import PodAffinityTerm
from tonnage.rules.caps import CapsBuilder, CapStep
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Aspect,
    Code,
    EventKind,
    NodeResults,
    Outcome,
    PreFilter,
    Rejection,
    Rule,
    kinds_of,
    single,
)
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.imagined import TemplateRow
from tonnage.snapshot.labels import ABSENT
from tonnage.snapshot.pod_counters import Scope, selects
from tonnage.snapshot.rows import Bools, RowIndex
from tonnage.snapshot.snapshot import PodRecord, Snapshot

T = TypeVar("T")


class InterPodAffinity(Rule):
    name = "InterPodAffinity"
    about = frozenset({Aspect.OTHER_PODS})
    cures = (
        EventKind.POD_ADDED,
        EventKind.POD_DELETED,
        EventKind.POD_LABELLED,
        EventKind.NODE_ADDED,
        EventKind.NODE_LABELLED,
        EventKind.NAMESPACE_LABELLED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        pod_class = ask.pod_class
        problems = [
            f"{name}: {problem}"
            for name, terms in (
                ("requiredAffinityTerms", pod_class.affinity),
                ("requiredAntiAffinityTerms", pod_class.anti_affinity),
            )
            if (problem := _problem_of(terms)) is not None
        ]
        if problems:
            detail = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            return Rejection(
                Code.UNRESOLVABLE, Cause.SELECTOR_INVALID, context="parsing pod", detail=detail
            )
        refusing = refusing_terms(ask)
        if not refusing and not pod_class.affinity and not pod_class.anti_affinity:
            return SKIP
        return PreFilter(lambda: _results(ask, refusing))

    def caps(self, ask: Ask, template: TemplateRow) -> Iterator[CapStep]:
        pod_class = ask.pod_class
        for key, terms in _by(pod_class.anti_affinity, lambda term: term.topology_key).items():
            yield partial(_cap_anti_affinity, key=key, terms=terms)
        if pod_class.affinity:
            yield partial(_cap_affinity, terms=pod_class.affinity)
        known = ask.snapshot.anti_terms.terms
        refusing = refusing_terms(ask, besides=[one.pod_class for one in template.starting])
        for key, against in _by(refusing, lambda term: known[term].topology_key).items():
            yield partial(_cap_refused, key=key, terms=against)

    def alone_on_node(self, pod_class: PodClass, templates: Sequence[TemplateRow]) -> Bools | None:
        terms = pod_class.anti_affinity
        keys = {term.topology_key for term in terms if _own_scope(pod_class, term)}
        if not keys:
            return None
        return np.array([not keys.isdisjoint(one.host_keys) for one in templates], dtype=np.bool_)

    def depends_on_others(self, ask: Ask, footprint: Footprint) -> bool:
        pod_class = ask.pod_class
        return bool(pod_class.affinity or pod_class.anti_affinity) or may_be_refused(ask)

    def helps(self, event: EventKind, subject: object, pod: PodRecord, snapshot: Snapshot) -> bool:
        if event is not EventKind.POD_ADDED or not isinstance(subject, PodRecord):
            return True
        labels = subject.meta.labels
        return any(selects(one.label_selector, labels) for one in pod.pod_class.affinity)


def _problem_of(terms: tuple[PodAffinityTerm, ...]) -> str | None:
    """What is wrong with the first term that does not parse."""
    try:
        for term in terms:
            selectors.check(term.label_selector)
            selectors.check(term.namespace_selector)
    except selectors.SelectorError as error:
        return str(error)
    return None


def refusing_terms(ask: Ask, *, besides: Iterable[PodClass] = ()) -> list[int]:
    """Anti-affinity terms of pods on nodes, and of those `besides`, that speak against the pod."""
    anti_terms = ask.snapshot.anti_terms
    coming = {term for pods in besides for term in pods.own_anti_terms}
    return [
        term
        for term in anti_terms.refusing(ask.pod_class, _namespace_labels(ask))
        if term in coming or any(holder.nodes for holder in anti_terms.holders[term])
    ]


def may_be_refused(ask: Ask) -> bool:
    """Whether a pod anywhere, on a node or not yet, has anti-affinity that speaks of the pod."""
    return any(
        True for _ in ask.snapshot.anti_terms.refusing(ask.pod_class, _namespace_labels(ask))
    )


def _results(ask: Ask, refusing: list[int]) -> NodeResults:
    together = _affinity_met(ask)
    apart = _anti_affinity_met(ask)
    tolerated = _existing_content(ask, refusing)
    codes = np.zeros(ask.size, dtype=np.int8)
    codes[~(apart & tolerated)] = Code.UNSCHEDULABLE
    codes[~together] = Code.UNRESOLVABLE

    def reasons(row: int) -> tuple[Reason, ...]:
        if not together[row]:
            return single(Cause.POD_AFFINITY_UNMET)
        if not apart[row]:
            return single(Cause.POD_ANTI_AFFINITY)
        return single(Cause.EXISTING_ANTI_AFFINITY)

    return NodeResults(codes, reasons, kinds=lambda: kinds_of((apart,)))


def scope_of(ask: Ask, term: PodAffinityTerm) -> Scope:
    """The pods a term of the incoming pod speaks of."""
    if not term.namespaces and term.namespace_selector is None:
        return Scope(frozenset((ask.pod_class.namespace,)), term.label_selector)
    if term.namespace_selector is None:
        return Scope(frozenset(term.namespaces), term.label_selector)
    # An empty selector is every namespace, also one that has no Namespace object.
    if term.namespace_selector == LabelSelector() or (
        ask.features.namespace_selectors_leak and selectors.matches(term.namespace_selector, {})
    ):
        return Scope(None, term.label_selector)
    selected = ask.snapshot.namespace_index.selected(term.namespace_selector)
    return Scope(frozenset((*term.namespaces, *selected)), term.label_selector)


def _own_scope(pod_class: PodClass, term: PodAffinityTerm) -> bool:
    """Whether a term speaks of the pod's own kind, by its own namespace and labels."""
    own = not term.namespaces and term.namespace_selector is None
    return (own or pod_class.namespace in term.namespaces) and selectors.matches(
        term.label_selector, pod_class.labels
    )


def _affinity_met(ask: Ask) -> Bools:
    """Every term's domain holds a pod that matches all terms, or the pod starts the group."""
    terms = ask.pod_class.affinity
    met = np.ones(ask.size, dtype=np.bool_)
    if not terms:
        return met
    scopes = tuple(scope_of(ask, term) for term in terms)
    counter = ask.snapshot.counters.counter(scopes, terminating=True)
    counts = counter.column.data[: ask.size]
    labelled = np.ones(ask.size, dtype=np.bool_)
    anywhere = False
    for key in dict.fromkeys(term.topology_key for term in terms):
        domains = ask.snapshot.columns.labels.find(key).data[: ask.size]
        occupied = np.zeros(int(domains.max(initial=0)) + 1, dtype=np.bool_)
        occupied[domains[counts > 0]] = True
        occupied[ABSENT] = False
        anywhere = anywhere or bool(occupied.any())
        met &= occupied[domains]
        labelled &= domains != ABSENT
    if not anywhere and _matches_itself(ask.pod_class, scopes):
        return labelled
    return met


def _matches_itself(pod_class: PodClass, scopes: tuple[Scope, ...]) -> bool:
    return all(scope.covers(pod_class) for scope in scopes)


def _anti_affinity_met(ask: Ask) -> Bools:
    occupied: dict[str, Bools] = {}
    for term in ask.pod_class.anti_affinity:
        key = term.topology_key
        if key not in ask.snapshot.columns.labels:
            continue
        counter = ask.snapshot.counters.counter((scope_of(ask, term),), terminating=True)
        if counter.total:
            rows = counter.column.data[: ask.size] > 0
            occupied[key] = occupied[key] | rows if key in occupied else rows
    return _outside_domains(ask, {key: np.flatnonzero(rows) for key, rows in occupied.items()})


def _existing_content(ask: Ask, refusing: list[int]) -> Bools:
    """Rows outside the domains of pods whose anti-affinity speaks against the newcomer."""
    anti_terms = ask.snapshot.anti_terms
    holders: dict[str, dict[int, PodClass]] = {}
    for term in refusing:
        by_identity = holders.setdefault(anti_terms.terms[term].topology_key, {})
        by_identity.update((id(holder), holder) for holder in anti_terms.holders[term])
    return _outside_domains(
        ask,
        {
            key: np.array([row for one in found.values() for row in one.nodes], dtype=np.intp)
            for key, found in holders.items()
        },
    )


def _outside_domains(ask: Ask, rows_by_key: Mapping[str, RowIndex]) -> Bools:
    """Rows that share no value of a label with one of the rows given for it."""
    outside = np.ones(ask.size, dtype=np.bool_)
    for key, rows in rows_by_key.items():
        domains = ask.snapshot.columns.labels.find(key).data[: ask.size]
        hit = np.zeros(int(domains.max(initial=0)) + 1, dtype=np.bool_)
        hit[domains[rows]] = True
        hit[ABSENT] = False
        outside &= ~hit[domains]
    return outside


def _namespace_labels(ask: Ask) -> dict[str, str]:
    namespace = ask.snapshot.namespaces.get(ask.pod_class.namespace)
    return {} if namespace is None else namespace.metadata.labels


# On new nodes


def _by(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def _cap_anti_affinity(caps: CapsBuilder, key: str, terms: Sequence[PodAffinityTerm]) -> None:
    """Anti-affinity of the pods over the domains of one label."""
    if caps.label(key) == ABSENT:
        return
    held = np.zeros(caps.ask.size, dtype=np.bool_)
    to_itself = everywhere = False
    for term in terms:
        scope = scope_of(caps.ask, term)
        counter = caps.ask.snapshot.counters.counter((scope,), terminating=True)
        if counter.total:
            held |= counter.column.data[: caps.ask.size] > 0
        to_itself = to_itself or scope.covers(caps.ask.pod_class)
        everywhere = everywhere or caps.starts_with(scope)
    _keep_away(caps, key, held, to_itself=to_itself, everywhere=everywhere)


def _cap_refused(caps: CapsBuilder, key: str, terms: Sequence[int]) -> None:
    """Anti-affinity of others against the pods over the domains of one label."""
    if caps.label(key) == ABSENT:
        return
    holders = caps.ask.snapshot.anti_terms.holders
    held = np.zeros(caps.ask.size, dtype=np.bool_)
    for holder in {id(one): one for term in terms for one in holders[term]}.values():
        held[list(holder.nodes)] = True
    _keep_away(
        caps,
        key,
        held,
        to_itself=not set(terms).isdisjoint(caps.ask.pod_class.own_anti_terms),
        everywhere=any(not set(terms).isdisjoint(pods.own_anti_terms) for pods in caps.starting),
    )


def _keep_away(
    caps: CapsBuilder, key: str, held: Bools, *, to_itself: bool, everywhere: bool
) -> None:
    """Keep out of the domains of the rows that hold; `everywhere`: every new node would."""
    if everywhere:
        caps.refuse()
    if key in caps.host_keys:
        caps.on_row[held[caps.rows]] = 0
        if to_itself:
            caps.on_row = np.minimum(caps.on_row, 1)
            caps.fresh = min(caps.fresh, 1)
        return
    domains = caps.ask.snapshot.columns.labels.find(key).data[: caps.ask.size]
    if held[domains == caps.label(key)].any():
        caps.refuse()
    elif to_itself:
        caps.total = min(caps.total, 1)


def _cap_affinity(caps: CapsBuilder, terms: tuple[PodAffinityTerm, ...]) -> None:
    scopes = tuple(scope_of(caps.ask, term) for term in terms)
    counter = caps.ask.snapshot.counters.counter(scopes, terminating=True)
    size = caps.ask.size
    matching = counter.column.data[:size] > 0
    labels = caps.ask.snapshot.columns.labels
    columns = {
        key: labels.find(key).data[:size]
        for key in dict.fromkeys(term.topology_key for term in terms)
    }
    starts = not any((matching & (column != ABSENT)).any() for column in columns.values()) and all(
        scope.covers(caps.ask.pod_class) for scope in scopes
    )
    brought = any(all(scope.covers(pods) for scope in scopes) for pods in caps.starting)
    for key, column in columns.items():
        own = caps.label(key)
        if own == ABSENT:
            caps.refuse()
        elif brought:
            continue
        elif key in caps.host_keys:
            _cap_affinity_on_host(caps, matching, starts=starts)
        elif not starts and not matching[column == own].any():
            caps.refuse()


def _cap_affinity_on_host(caps: CapsBuilder, matching: Bools, *, starts: bool) -> None:
    """Pods that must share a node: with those that are there, or all on one."""
    if starts:
        caps.one_row = True
    else:
        caps.on_row[~matching[caps.rows]] = 0
        caps.fresh = 0
