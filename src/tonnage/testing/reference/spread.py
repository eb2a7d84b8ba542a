"""PodTopologySpread: matching pods stay balanced over the values of a node label."""

from collections import defaultdict
from typing import NamedTuple

from tonnage.objects import selectors
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.pods import Pod, TopologySpreadConstraint
from tonnage.testing.reference.cluster import ReferenceCluster
from tonnage.testing.reference.inventory import HostedNode, namespace
from tonnage.testing.reference.outcomes import (
    SKIP,
    AttemptError,
    PluginRefusal,
    Stance,
    unresolvable,
    unschedulable,
)
from tonnage.testing.reference.placement import attracted, tolerates_node

UNBALANCED = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN = f"{UNBALANCED} (missing required label)"


class _Rule(NamedTuple):
    """A hard constraint, with its selector completed and its domains counted."""

    constraint: TopologySpreadConstraint
    selector: LabelSelector | None
    counts: dict[str, int]

    @property
    def least(self) -> int:
        enough = len(self.counts) >= (self.constraint.min_domains or 1)
        return min(self.counts.values()) if enough else 0


def pod_topology_spread(cluster: ReferenceCluster, pod: Pod) -> Stance:
    """Only the pod's own constraints filter; the built-in defaults are preferences."""
    hard = [
        constraint
        for constraint in pod.spec.topology_spread_constraints
        if constraint.when_unsatisfiable == "DoNotSchedule"
    ]
    if not hard:
        return SKIP
    rules = [
        _Rule(constraint, _completed(constraint, pod), defaultdict(int)) for constraint in hard
    ]
    for hosted in cluster.nodes.values():
        # A node that lacks one constraint's key is left out of all of them.
        if all(rule.constraint.topology_key in hosted.labels for rule in rules):
            for rule in rules:
                if _included(cluster, pod, rule.constraint, hosted):
                    domain = hosted.labels[rule.constraint.topology_key]
                    rule.counts[domain] += _count(rule.selector, pod, hosted)

    def check(hosted: HostedNode) -> PluginRefusal | None:
        for rule in rules:
            domain = hosted.labels.get(rule.constraint.topology_key)
            if domain is None:
                return unresolvable(NO_DOMAIN)
            itself = selectors.matches(rule.selector, pod.metadata.labels)
            skew = rule.counts.get(domain, 0) + itself - rule.least
            if skew > rule.constraint.max_skew:
                return unschedulable(UNBALANCED)
        return None

    return Stance(check=check)


def _completed(constraint: TopologySpreadConstraint, pod: Pod) -> LabelSelector | None:
    """The selector with `matchLabelKeys` put in; keys the pod does not have are passed over."""
    selector = constraint.label_selector
    try:
        selectors.check(selector)
    except selectors.SelectorError as error:
        raise AttemptError(
            f"get constraints from pod: obtaining pod's hard topology spread constraints: {error}"
        ) from error
    if selector is None:
        return None
    own = tuple(
        LabelRequirement(key=label, operator="In", values=(pod.metadata.labels[label],))
        for label in constraint.match_label_keys
        if label in pod.metadata.labels
    )
    return LabelSelector(
        match_labels=selector.match_labels, match_expressions=selector.match_expressions + own
    )


def _included(
    cluster: ReferenceCluster, pod: Pod, constraint: TopologySpreadConstraint, hosted: HostedNode
) -> bool:
    if (constraint.node_affinity_policy or "Honor") == "Honor" and not attracted(pod, hosted.node):
        return False
    honors_taints = (constraint.node_taints_policy or "Ignore") == "Honor"
    return not honors_taints or tolerates_node(cluster, pod, hosted.node)


def _count(selector: LabelSelector | None, pod: Pod, hosted: HostedNode) -> int:
    # A selector that matches everything counts nothing, though it matches the pod itself.
    if selector == LabelSelector():
        return 0
    return sum(
        selectors.matches(selector, other.metadata.labels)
        for other in hosted.pods
        if other.metadata.deletion_timestamp is None
        and namespace(other.metadata) == namespace(pod.metadata)
    )
