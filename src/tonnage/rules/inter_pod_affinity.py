"""InterPodAffinity: required affinity and anti-affinity between pods, both ways."""

from collections.abc import Iterable, Mapping

import numpy as np

from tonnage.objects import selectors
from tonnage.objects.meta import LabelSelector
from tonnage.objects.pods import PodAffinityTerm
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Aspect,
    Code,
    Event,
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
from tonnage.snapshot.counting import Scope, selects
from tonnage.snapshot.labels import ABSENT
from tonnage.snapshot.rows import Bools, RowIndex
from tonnage.snapshot.snapshot import PodRecord, Snapshot


class InterPodAffinity(Rule):
    name = "InterPodAffinity"
    about = frozenset({Aspect.OTHER_PODS})
    cures = (
        Event.POD_ADDED,
        Event.POD_DELETED,
        Event.POD_LABELLED,
        Event.NODE_ADDED,
        Event.NODE_LABELLED,
        Event.NAMESPACE_LABELLED,
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

    def depends_on_others(self, ask: Ask, footprint: Footprint) -> bool:
        pod_class = ask.pod_class
        return bool(pod_class.affinity or pod_class.anti_affinity) or may_be_refused(ask)

    def helps(self, event: Event, subject: object, pod: PodRecord, snapshot: Snapshot) -> bool:
        if event is not Event.POD_ADDED or not isinstance(subject, PodRecord):
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
    if _is_empty(term.namespace_selector) or (
        ask.features.namespace_selectors_leak and selectors.matches(term.namespace_selector, {})
    ):
        return Scope(None, term.label_selector)
    selected = ask.snapshot.namespace_index.selected(term.namespace_selector)
    return Scope(frozenset((*term.namespaces, *selected)), term.label_selector)


def own_scope(pod_class: PodClass, term: PodAffinityTerm) -> bool:
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


def _is_empty(selector: LabelSelector) -> bool:
    """An empty selector is every namespace, also one that has no Namespace object."""
    return not selector.match_labels and not selector.match_expressions


def _namespace_labels(ask: Ask) -> dict[str, str]:
    namespace = ask.snapshot.namespaces.get(ask.pod_class.namespace)
    return {} if namespace is None else namespace.metadata.labels
