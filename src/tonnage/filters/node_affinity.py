"""NodeAffinity: the pod's node selector and required node affinity."""

from tonnage.filters.causes import Cause
from tonnage.filters.framework import SKIP, Ask, Begun, Code, Outcome, Rejection, Screen, always
from tonnage.objects.pods import NodeSelector
from tonnage.snapshot.rows import Bools
from tonnage.snapshot.snapshot import PodRecord, Snapshot

_NAME_FIELD = "metadata.name"


class NodeAffinity:
    name = "NodeAffinity"
    cures = ("Node.add", "Node.label")

    def begin(self, ask: Ask) -> Outcome:
        pods = ask.pods
        if pods.node_affinity is None and not pods.node_selector:
            return SKIP
        names = None if pods.node_affinity is None else _named_nodes(ask.pod, pods.node_affinity)
        if names is not None and not names:
            return Rejection(Code.UNRESOLVABLE, Cause.NODE_AFFINITY_CONFLICT)
        return Begun(
            lambda: Screen.passing(
                matching(ask.snapshot, ask.pod),
                Code.UNRESOLVABLE,
                always(Cause.NODE_AFFINITY_MISMATCH),
            ),
            only=names,
        )


def matching(snapshot: Snapshot, pod: PodRecord) -> Bools:
    """Rows that pass the pod's node selector and required affinity."""
    pods, labels = pod.pods, snapshot.columns.labels
    if pods.node_affinity is None:
        return labels.equal(pods.node_selector)
    mask = labels.matching_nodes(pods.node_affinity, by_name=not pods.pinned)
    if pods.pinned:
        mask = mask & labels.named(pod.pin or "")
    return mask & labels.equal(pods.node_selector) if pods.node_selector else mask


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
