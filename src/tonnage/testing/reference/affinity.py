"""InterPodAffinity: pods that seek, or keep away from, other pods near them."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from tonnage.objects import selectors
from tonnage.objects.meta import LabelSelector
from tonnage.objects.pods import Pod, PodAffinityTerm
from tonnage.testing.reference.cluster import ReferenceCluster
from tonnage.testing.reference.inventory import HostedNode, namespace
from tonnage.testing.reference.outcomes import (
    SKIP,
    PluginRefusal,
    Stance,
    unresolvable,
    unschedulable,
)

TOO_FAR = "node(s) didn't match pod affinity rules"
TOO_CLOSE = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"

Counts: TypeAlias = Counter[tuple[str, str]]
"""How often a rule was met, by node label and its value."""


class _Term(NamedTuple):
    """A term of the pod to place, its namespaces looked up."""

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str]
    everywhere: bool

    def matches(self, pod: Pod) -> bool:
        return (self.everywhere or namespace(pod.metadata) in self.namespaces) and (
            selectors.matches(self.selector, pod.metadata.labels)
        )


def inter_pod_affinity(cluster: ReferenceCluster, pod: Pod) -> Stance:
    problem = _parsing_problem(pod)
    if problem is not None:
        return Stance(refusal=unresolvable(f"parsing pod: {problem}"))
    wanted = [_resolved(cluster, pod, term) for term in _affinity_terms(pod)]
    shunned = [_resolved(cluster, pod, term) for term in _anti_affinity_terms(pod)]
    unwelcome = _unwelcome(cluster, pod)
    if not wanted and not shunned and not unwelcome:
        return SKIP
    near: Counts = Counter()
    close: Counts = Counter()
    for hosted in cluster.nodes.values():
        for other in hosted.pods:
            # One pod has to meet all terms of the affinity at once.
            if wanted and all(term.matches(other) for term in wanted):
                _record(near, hosted, wanted)
            _record(close, hosted, [term for term in shunned if term.matches(other)])
    starts_group = not near and all(term.matches(pod) for term in wanted)

    def check(hosted: HostedNode) -> PluginRefusal | None:
        labels = hosted.labels
        if any(term.topology_key not in labels for term in wanted):
            return unresolvable(TOO_FAR)
        if not starts_group and not all(_met(near, hosted, term) for term in wanted):
            return unresolvable(TOO_FAR)
        if any(_met(close, hosted, term) for term in shunned):
            return unschedulable(TOO_CLOSE)
        if any(pair in unwelcome for pair in labels.items()):
            return unschedulable(UNWELCOME)
        return None

    return Stance(check=check)


def _unwelcome(cluster: ReferenceCluster, pod: Pod) -> set[tuple[str, str]]:
    """Where pods that are there already do not want this one."""
    home = cluster.namespaces.get(namespace(pod.metadata))
    home_labels = home.metadata.labels if home is not None else {}
    found: set[tuple[str, str]] = set()
    for hosted in cluster.nodes.values():
        for other in hosted.pods:
            if _term_problem(_anti_affinity_terms(other)) is not None:
                continue
            for term in _anti_affinity_terms(other):
                value = hosted.labels.get(term.topology_key)
                if value is not None and _rejects(term, other, pod, home_labels):
                    found.add((term.topology_key, value))
    return found


def _rejects(term: PodAffinityTerm, owner: Pod, pod: Pod, home_labels: dict[str, str]) -> bool:
    """Whether a term of a placed pod is about the new pod.

    Unlike a term of the new pod, it is held against the labels of the pod's namespace,
    and a namespace nobody has heard of has none.
    """
    in_scope = namespace(pod.metadata) in _named_namespaces(owner, term) or selectors.matches(
        term.namespace_selector, home_labels
    )
    return in_scope and selectors.matches(term.label_selector, pod.metadata.labels)


def _resolved(cluster: ReferenceCluster, pod: Pod, term: PodAffinityTerm) -> _Term:
    """Looks up the namespaces a term selects; an empty selector needs none to exist."""
    selector = term.namespace_selector
    selected = {
        name
        for name, found in cluster.namespaces.items()
        if selectors.matches(selector, found.metadata.labels)
    }
    everywhere = selector == LabelSelector()
    if (1, 34) <= cluster.kubernetes_version <= (1, 36):
        # These versions also held the selector against no labels at all.
        everywhere = selectors.matches(selector, {})
    return _Term(
        term.topology_key,
        term.label_selector,
        _named_namespaces(pod, term) | selected,
        everywhere,
    )


def _named_namespaces(owner: Pod, term: PodAffinityTerm) -> frozenset[str]:
    if not term.namespaces and term.namespace_selector is None:
        return frozenset({namespace(owner.metadata)})
    return frozenset(term.namespaces)


def _affinity_terms(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return ()
    return affinity.pod_affinity.required


def _anti_affinity_terms(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return ()
    return affinity.pod_anti_affinity.required


def _parsing_problem(pod: Pod) -> str | None:
    found = []
    for name, terms in (
        ("requiredAffinityTerms", _affinity_terms(pod)),
        ("requiredAntiAffinityTerms", _anti_affinity_terms(pod)),
    ):
        problem = _term_problem(terms)
        if problem is not None:
            found.append(f"{name}: {problem}")
    if len(found) > 1:
        return f"[{', '.join(found)}]"
    return found[0] if found else None


def _term_problem(terms: Iterable[PodAffinityTerm]) -> str | None:
    try:
        for term in terms:
            selectors.check(term.label_selector)
            selectors.check(term.namespace_selector)
    except selectors.SelectorError as error:
        return str(error)
    return None


def _record(counts: Counts, hosted: HostedNode, terms: Iterable[_Term]) -> None:
    for term in terms:
        if term.topology_key in hosted.labels:
            counts[term.topology_key, hosted.labels[term.topology_key]] += 1


def _met(counts: Counts, hosted: HostedNode, term: _Term) -> bool:
    # A node without the label is in no domain, not even in that of an empty value.
    value = hosted.labels.get(term.topology_key)
    return value is not None and counts[term.topology_key, value] > 0
