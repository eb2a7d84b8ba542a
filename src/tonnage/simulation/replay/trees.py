"""Objects of a trace as plain trees: what they say, and how a replay writes them anew."""

from typing import Any, TypeAlias

from tonnage.groups.passing_taints import TO_BE_DELETED
from tonnage.objects.pods import DISRUPTION_TARGET
from tonnage.objects.storage import BIND_COMPLETED_ANNOTATION, SELECTED_NODE_ANNOTATION

Tree: TypeAlias = dict[str, Any]

_REVISION = "controller-revision-hash"
_LEAVING = (TO_BE_DELETED, "karpenter.sh/disrupted", "karpenter.sh/disruption")
"""Taints of nodes that an autoscaler is taking away."""


def owners(tree: Tree) -> list[Tree]:
    return tree["metadata"].get("ownerReferences") or []


def uid(tree: Tree) -> Any:
    return tree["metadata"].get("uid")


def new(tree: Tree, *, among: set[Any] | None = None) -> Tree:
    """As somebody would write it who wants it: without what a server adds and others wait for.

    Owners stay that are `among` those uids.
    """
    dropped = {"finalizers", "deletionTimestamp", "ownerReferences", "resourceVersion"}
    meta = {key: value for key, value in tree["metadata"].items() if key not in dropped}
    kept = [one for one in owners(tree) if among is not None and one.get("uid") in among]
    if kept:
        meta["ownerReferences"] = kept
    labels = meta.get("labels") or {}
    if _REVISION in labels:
        # The replay's controllers name revisions otherwise, and would replace the pod.
        meta["labels"] = {key: value for key, value in labels.items() if key != _REVISION}
    return {**tree, "metadata": meta}


def anonymous(tree: Tree) -> Tree:
    """Without the uid, which is another one in the replay."""
    meta = {key: value for key, value in tree["metadata"].items() if key != "uid"}
    return {**tree, "metadata": meta}


def unbound(pod: Tree) -> Tree:
    spec = {key: value for key, value in pod.get("spec", {}).items() if key != "nodeName"}
    return {**{key: value for key, value in pod.items() if key != "status"}, "spec": spec}


def unclaimed(claim: Tree) -> Tree:
    """A claim that nobody has bound yet."""
    meta = claim["metadata"]
    binding = (BIND_COMPLETED_ANNOTATION, SELECTED_NODE_ANNOTATION)
    annotations = {
        key: value for key, value in (meta.get("annotations") or {}).items() if key not in binding
    }
    return {
        **{key: value for key, value in claim.items() if key != "status"},
        "metadata": {**meta, "annotations": annotations},
    }


def silent(node: Tree) -> Tree:
    """A node that has not reported yet."""
    status = {key: value for key, value in node.get("status", {}).items() if key != "conditions"}
    return {**node, "status": status}


def annotated(tree: Tree, key: str, value: str) -> Tree:
    meta = tree.get("metadata") or {}
    annotations = {**(meta.get("annotations") or {}), key: value}
    return {**tree, "metadata": {**meta, "annotations": annotations}}


def asks(tree: Tree) -> Tree:
    """The part of an object that people write."""
    meta = tree["metadata"]
    own = {key: meta.get(key) for key in ("labels", "annotations")}
    return {**{key: value for key, value in tree.items() if key != "status"}, "metadata": own}


def only_replicas(before: Tree, after: Tree) -> bool:
    first, second = dict(before.get("spec", {})), dict(after.get("spec", {}))
    first.pop("replicas", None), second.pop("replicas", None)
    return first == second and before["spec"].get("replicas") != after["spec"].get("replicas")


def drivers(csi_node: Tree) -> dict[str, int | None]:
    return {
        one["name"]: (one.get("allocatable") or {}).get("count")
        for one in csi_node.get("spec", {}).get("drivers") or ()
    }


def is_ready(node: Tree) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one.get("status") == "True" for one in conditions)


def is_leaving(node: Tree) -> bool:
    taints = node.get("spec", {}).get("taints") or ()
    return any(one.get("key") in _LEAVING for one in taints)


def is_disrupted(pod: Tree) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == DISRUPTION_TARGET for one in conditions)


def rank(tree: Tree) -> int:
    """Owners before what they own, and what pods name before pods."""
    kind = tree["kind"]
    if kind == "Namespace":
        return 0
    if kind in ("Node", "StatefulSet", "DaemonSet"):
        return 1
    if kind in ("ReplicaSet", "ReplicationController", "Job"):
        return 2
    if kind == "PersistentVolumeClaim":
        return 6 if any(one.get("kind") == "Pod" for one in owners(tree)) else 3
    return 5 if kind == "Pod" else 4
