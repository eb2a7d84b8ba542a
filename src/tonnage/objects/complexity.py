"""How much there is to look at in a pod: a count of its rules and of what they name.

What a decision costs grows with it. It is a property of the object alone, so that the same pod
counts the same on every machine.
"""

from collections.abc import Iterable

from tonnage.objects.meta import LabelSelector
from tonnage.objects.pods import (
    Affinity,
    Container,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
)

MOST = 1_000
"""What no ordinary pod comes near to; past it a pod is decided on last and alone."""


def of(spec: PodSpec) -> int:
    """Constraints, terms, expressions, values, resources, tolerations, ports and so on.

    Without its volumes, which are not what makes pods equal.
    """
    return (
        sum(map(_container, spec.containers))
        + sum(map(_container, spec.init_containers))
        + len(spec.overhead)
        + (len(spec.resources.requests) if spec.resources is not None else 0)
        + len(spec.node_selector)
        + (_affinity(spec.affinity) if spec.affinity is not None else 0)
        + len(spec.tolerations)
        + sum(map(_constraint, spec.topology_spread_constraints))
        + len(spec.scheduling_gates)
        + len(spec.resource_claims)
    )


def _container(container: Container) -> int:
    return 1 + len(container.resources.requests) + len(container.ports)


def _affinity(affinity: Affinity) -> int:
    nodes = affinity.node_affinity
    found = 0
    if nodes is not None:
        if nodes.required is not None:
            found += sum(map(_node_term, nodes.required.node_selector_terms))
        found += sum(_node_term(one.preference) for one in nodes.preferred)
    for pods in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if pods is not None:
            found += sum(map(_pod_term, pods.required))
    return found


def _node_term(term: NodeSelectorTerm) -> int:
    return 1 + sum(1 + len(one.values) for one in (*term.match_expressions, *term.match_fields))


def _pod_term(term: PodAffinityTerm) -> int:
    selectors = (term.label_selector, term.namespace_selector)
    return 1 + len(term.namespaces) + _selectors(selectors)


def _constraint(constraint: TopologySpreadConstraint) -> int:
    return 1 + len(constraint.match_label_keys) + _selectors((constraint.label_selector,))


def _selectors(selectors: Iterable[LabelSelector | None]) -> int:
    return sum(
        len(selector.match_labels)
        + sum(1 + len(each.values) for each in selector.match_expressions)
        for selector in selectors
        if selector is not None
    )
