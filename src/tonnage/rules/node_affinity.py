"""NodeAffinity: the pod's node selector and required node affinity."""

from tonnage.objects.pods import NodeSelector
from tonnage.rules.causes import Cause
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Code,
    EventKind,
    NodeResults,
    Outcome,
    PreFilter,
    Rejection,
    Rule,
    always,
)
from tonnage.snapshot.rows import Bools
from tonnage.snapshot.snapshot import PodRecord, Snapshot

_NAME_FIELD = "metadata.name"


class NodeAffinityRule(Rule):
    name = "NodeAffinity"
    cures = (
        EventKind.NODE_ADDED,
        EventKind.NODE_LABELLED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        pod_class = ask.pod_class
        if pod_class.node_affinity is None and not pod_class.node_selector:
            return SKIP
        names = (
            None
            if pod_class.node_affinity is None
            else _named_nodes(ask.pod, pod_class.node_affinity)
        )
        if names is not None and not names:
            return Rejection(Code.UNRESOLVABLE, Cause.NODE_AFFINITY_CONFLICT)
        return PreFilter(
            lambda: NodeResults.passing(
                matching(ask.snapshot, ask.pod),
                Code.UNRESOLVABLE,
                always(Cause.NODE_AFFINITY_MISMATCH),
            ),
            only=names,
        )


def matching(snapshot: Snapshot, pod: PodRecord) -> Bools:
    """Rows that pass the pod's node selector and required affinity."""
    pod_class, labels = pod.pod_class, snapshot.columns.labels
    if pod_class.node_affinity is None:
        return labels.equal(pod_class.node_selector)
    mask = labels.matching_nodes(pod_class.node_affinity, by_name=not pod_class.pinned)
    if pod_class.pinned:
        mask = mask & labels.named(pod.pin or "")
    return mask & labels.equal(pod_class.node_selector) if pod_class.node_selector else mask


def _named_nodes(pod: PodRecord, affinity: NodeSelector) -> set[str] | None:
    """The only nodes the terms allow by name; `None` if some term names none.

    Upstream narrows before it checks whether a term can match at all, so neither do we.
    """
    if pod.pin is not None:
        return {pod.pin}
    names: set[str] = set()
    for term in affinity.node_selector_terms:
        named: set[str] | None = None
        for field in term.match_fields:
            if field.key == _NAME_FIELD and field.operator == "In":
                named = set(field.values) if named is None else named & set(field.values)
        if named is None:
            return None
        names |= named
    return names if affinity.node_selector_terms else None
