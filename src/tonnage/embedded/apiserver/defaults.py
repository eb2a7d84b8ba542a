"""What a server fills in that a client left out, as far as Tonnage or kubectl reads it.

Of a new object the status is the server's, so it starts here too.
"""

from collections.abc import Callable
from typing import Any

from tonnage.embedded.apiserver.kinds import definition_spec
from tonnage.embedded.apiserver.refusals import Tree, forbidden
from tonnage.embedded.apiserver.store import ObjectStore
from tonnage.objects.nodes import NAMESPACE_NAME

_STATUS_GIVEN = frozenset({"nodes"})
"""Kinds whose creator may bring a status along: a kubelet registers with one."""

_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def complete(store: ObjectStore, plural: str, tree: Tree, *, has_status: bool) -> Tree:
    """A new object with what the server adds; the given tree's top level may be changed."""
    if has_status and plural not in _STATUS_GIVEN:
        tree.pop("status", None)
    fill = _BY_PLURAL.get(plural)
    if fill is not None:
        fill(store, tree)
    return tree


def revised(plural: str, tree: Tree) -> Tree:
    """A changed object with what the server adds whenever it is missing."""
    if plural == "customresourcedefinitions":
        return {**tree, "status": _definition_status(tree)}
    return tree


def _pod(store: ObjectStore, tree: Tree) -> None:
    spec = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        **tree.get("spec", {}),
    }
    name = spec.get("priorityClassName")
    if "priority" not in spec or name:
        priority_class = _priority_class(store, tree["metadata"]["name"], name)
        spec["priority"] = priority_class.get("value", 0)
        spec.setdefault("preemptionPolicy", priority_class.get("preemptionPolicy", _PREEMPT))
        if "metadata" in priority_class:
            spec["priorityClassName"] = priority_class["metadata"]["name"]
    tree["spec"] = spec
    tree["status"] = {"phase": "Pending"}


_PREEMPT = "PreemptLowerPriority"


def _priority_class(store: ObjectStore, pod: str, name: str | None) -> Tree:
    """The class a pod names, or the one for pods that name none."""
    classes = store.collections["scheduling.k8s.io", "v1", "priorityclasses"]
    if name:
        found = classes.get("", name)
        if found is not None:
            return found.tree
        if name in _SYSTEM_PRIORITIES:
            return {"value": _SYSTEM_PRIORITIES[name]}
        raise forbidden("pods", pod, f"no PriorityClass with name {name} was found")
    return next((one.tree for one in classes.within() if one.tree.get("globalDefault")), {})


def _claim(store: ObjectStore, tree: Tree) -> None:
    spec = {"volumeMode": "Filesystem", **tree.get("spec", {})}
    if "storageClassName" not in spec:
        classes = store.collections["storage.k8s.io", "v1", "storageclasses"]
        defaults = [one for one in classes.within() if _is_default(one.meta)]
        if defaults:
            newest = max(defaults, key=lambda one: (one.meta["creationTimestamp"], one.name))
            spec["storageClassName"] = newest.name
    tree["spec"] = spec
    tree["status"] = {"phase": "Pending"}


def _is_default(meta: Tree) -> bool:
    annotations = meta.get("annotations") or {}
    return annotations.get("storageclass.kubernetes.io/is-default-class") == "true"


def _volume(_: ObjectStore, tree: Tree) -> None:
    spec = tree.get("spec", {})
    tree["spec"] = {
        "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem", **spec
    }  # fmt: skip
    tree["status"] = {"phase": "Pending"}


def _namespace(_: ObjectStore, tree: Tree) -> None:
    meta = tree["metadata"]
    labels = {**(meta.get("labels") or {}), NAMESPACE_NAME: meta["name"]}
    tree["metadata"] = {**meta, "labels": labels}
    tree["spec"] = {"finalizers": ["kubernetes"]}
    tree["status"] = {"phase": "Active"}


def _with_spec(**defaults: Any) -> Callable[[ObjectStore, Tree], None]:
    def fill(_: ObjectStore, tree: Tree) -> None:
        tree["spec"] = {**defaults, **tree.get("spec", {})}

    return fill


def _at_top(**defaults: Any) -> Callable[[ObjectStore, Tree], None]:
    def fill(_: ObjectStore, tree: Tree) -> None:
        for name, value in defaults.items():
            tree.setdefault(name, value)

    return fill


def _workload(**more: Any) -> Callable[[ObjectStore, Tree], None]:
    def fill(_: ObjectStore, tree: Tree) -> None:
        tree["spec"] = {"replicas": 1, **more, **tree.get("spec", {})}
        tree["status"] = {"replicas": 0}

    return fill


def _rolling(**how: Any) -> Tree:
    return {"type": "RollingUpdate", "rollingUpdate": how}


def _definition(_: ObjectStore, tree: Tree) -> None:
    tree["status"] = _definition_status(tree)


def _definition_status(tree: Tree) -> Tree:
    """A definition is accepted as soon as it is there."""
    spec = definition_spec(tree)
    kind, names = spec.names.kind, tree.get("spec", {}).get("names", {})
    at = tree["metadata"]["creationTimestamp"]
    return {
        "acceptedNames": {"listKind": f"{kind}List", "singular": kind.lower(), **names},
        "storedVersions": [version.name for version in spec.versions if version.storage],
        "conditions": [
            {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": at}
            for kind, reason in (("NamesAccepted", "NoConflicts"), ("Established", "Installed"))
        ],
    }  # fmt: skip


_BY_PLURAL: dict[str, Callable[[ObjectStore, Tree], None]] = {
    "pods": _pod,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "namespaces": _namespace,
    "deployments": _workload(strategy=_rolling(maxSurge="25%", maxUnavailable="25%")),
    "replicasets": _workload(),
    "statefulsets": _workload(updateStrategy=_rolling(partition=0)),
    "replicationcontrollers": _workload(),
    "daemonsets": _with_spec(updateStrategy=_rolling(maxSurge=0, maxUnavailable=1)),
    "services": _with_spec(type="ClusterIP", sessionAffinity="None"),
    "jobs": _with_spec(parallelism=1, backoffLimit=6),
    "storageclasses": _at_top(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    "csidrivers": _with_spec(
        attachRequired=True, podInfoOnMount=False, requiresRepublish=False, storageCapacity=False
    ),
    "secrets": _at_top(type="Opaque"),
    "customresourcedefinitions": _definition,
}
