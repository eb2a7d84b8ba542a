"""Binding, eviction and scale: the parts of an object that have verbs of their own."""

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from tonnage.embedded.apiserver.deletion import DeleteOptions, Deletion
from tonnage.embedded.apiserver.disruptions import Disruptions, is_ready
from tonnage.embedded.apiserver.refusals import ApiRefusal, Tree, bad_request, conflict, invalid
from tonnage.embedded.apiserver.store import Collection, ObjectStore, Stored
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import DISRUPTION_TARGET, EVICTED, FINISHED
from tonnage.objects.timestamps import rfc3339

_T = TypeVar("_T")

_WITHOUT_BUDGET = (*FINISHED, "Pending")


class _ScaleSpec(msgspec.Struct, frozen=True):
    replicas: int = 0


class _Scale(msgspec.Struct, frozen=True):
    spec: _ScaleSpec = _ScaleSpec()
    metadata: ObjectMeta = ObjectMeta()


class _Target(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = "Node"


class _Binding(msgspec.Struct, frozen=True):
    target: _Target = _Target()
    metadata: ObjectMeta = ObjectMeta()


def bind(store: ObjectStore, pod: Stored, binding: Tree, *, now: datetime, dry: bool) -> None:
    """Give a pod its node, once and for all."""
    pods = store.built_in("pods")
    given = _read_as(_Binding, binding, "Binding")
    target, node = given.target, given.target.name
    if not node or target.kind not in ("", "Node"):
        raise invalid("Binding", pod.name, [("target", 'expected a name, and kind "Node"')])
    meta, spec = pod.meta, pod.tree["spec"]
    if given.metadata.uid and given.metadata.uid != pod.uid:
        why = f"the pod's UID is {pod.uid}, not {given.metadata.uid}"
        raise conflict("pods/binding", pod.name, why)
    if pod.deleting:
        raise conflict("pods/binding", pod.name, f"pod {pod.name} is being deleted")
    if spec.get("nodeName"):
        why = f"pod {pod.name} is already assigned to node {spec['nodeName']!r}"
        raise conflict("pods/binding", pod.name, why)
    if spec.get("schedulingGates"):
        why = f"pod {pod.name} has non-empty .spec.schedulingGates"
        raise conflict("pods/binding", pod.name, why)
    if dry:
        return
    for field in ("annotations", "labels"):
        if added := getattr(given.metadata, field):
            meta = {**meta, field: {**(meta.get(field) or {}), **added}}
    status = pod.tree.get("status", {})
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(now),
    }
    others = [one for one in status.get("conditions") or () if one["type"] != "PodScheduled"]
    tree = {
        **pod.tree,
        "metadata": meta,
        "spec": {**spec, "nodeName": node},
        "status": {**status, "conditions": [*others, scheduled]},
    }
    store.put(pods, tree, pod)


class Evictions:
    """Deletions of pods that ask their disruption budget first."""

    def __init__(self, store: ObjectStore, deleting: Deletion, disruptions: Disruptions) -> None:
        self._pods = store.built_in("pods")
        self._deleting = deleting
        self._disruptions = disruptions

    def evict(self, pod: Stored, eviction: Tree, *, dry: bool) -> None:
        given = eviction.get("deleteOptions") or {}
        options = _read_as(DeleteOptions, given, "deleteOptions of the Eviction")
        if not pod.deleting and pod.tree["status"].get("phase") not in _WITHOUT_BUDGET:
            self._ask_budget(pod)
        marked = pod if pod.deleting else _disrupted(pod, now=self._deleting.now)
        dry = dry or "All" in (options.dry_run or ())
        self._deleting.delete(self._pods, marked, options, dry=dry)

    def _ask_budget(self, pod: Stored) -> None:
        budgets = self._disruptions.covering(pod)
        if not budgets:
            return
        if len(budgets) > 1:
            raise ApiRefusal(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget,"
                " which the eviction subresource does not support.",
            )
        spec, status = budgets[0].tree.get("spec", {}), budgets[0].tree["status"]
        if not is_ready(pod.tree):
            enough = status["currentHealthy"] >= status["desiredHealthy"] > 0
            if enough or spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
                return
        if status["disruptionsAllowed"] > 0:
            return
        name = budgets[0].name
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {name} needs {status['desiredHealthy']} healthy"
            f" pods and has {status['currentHealthy']} currently",
        }
        raise ApiRefusal(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={"name": pod.name, "kind": "pods", "causes": [cause]},
        )


def _disrupted(pod: Stored, *, now: datetime) -> Stored:
    """The pod with the condition that says why it goes, as it is written with its deletion."""
    status = pod.tree.get("status", {})
    others = [one for one in status.get("conditions") or () if one["type"] != DISRUPTION_TARGET]
    told = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": EVICTED,
        "message": "Eviction API: evicting",
        "lastTransitionTime": rfc3339(now),
    }
    tree = {**pod.tree, "status": {**status, "conditions": [*others, told]}}
    return Stored(pod.namespace, pod.name, pod.version, tree, pod.data)


def scale_of(collection: Collection, obj: Stored) -> Tree:
    """The Scale of an object, the same for every kind that has one."""
    assert collection.kind.scale is not None
    wanted, present, selector = (_read(obj.tree, path) for path in collection.kind.scale)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Tree = {"replicas": present or 0}
    if selector:
        status["selector"] = selector if isinstance(selector, str) else _selector_text(selector)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: obj.meta[field] for field in kept if field in obj.meta},
        "spec": {"replicas": wanted or 0},
        "status": status,
    }


def scaled(collection: Collection, obj: Stored, scale: Tree) -> Tree:
    """The object's tree with the replicas that a Scale wants."""
    assert collection.kind.scale is not None
    wanted = _read_as(_Scale, scale, "Scale")
    replicas = wanted.spec.replicas
    if not 0 <= replicas < 2**31:
        problem = f"Invalid value: {replicas}: must be a whole number, 0 or more, of 31 bits"
        raise invalid("Scale", obj.name, [("spec.replicas", problem)])
    version = wanted.metadata.resource_version or str(obj.version)
    tree = {**obj.tree, "metadata": {**obj.meta, "resourceVersion": version}}
    return _written(tree, collection.kind.scale[0].split("."), replicas)


def _read_as(type_: type[_T], tree: object, what: str) -> _T:
    """Part of a request in its type; a null reads as absent."""
    if isinstance(tree, dict):
        tree = {key: value for key, value in tree.items() if value is not None}
    try:
        return msgspec.convert(tree, type_)
    except msgspec.ValidationError as error:
        raise bad_request(f"{what} in the request cannot be read: {error}") from None


def _read(tree: Tree, path: str) -> Any:
    value: Any = tree
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _written(tree: Tree, path: list[str], value: object) -> Tree:
    step, *rest = path
    inner = tree.get(step)
    return {
        **tree,
        step: _written(inner if isinstance(inner, dict) else {}, rest, value) if rest else value,
    }


def _selector_text(selector: Tree) -> str:
    """A selector as it stands in a request; a map of labels is one too."""
    labels: dict[str, str] = selector.get("matchLabels") or {}
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        labels = selector
    parts = [f"{key}={value}" for key, value in sorted(labels.items())]
    for one in selector.get("matchExpressions") or ():
        key, operator = one["key"], one["operator"]
        among = f"({','.join(one.get('values') or ())})"
        words = {"In": f"{key} in {among}", "NotIn": f"{key} notin {among}", "Exists": key}
        parts.append(words.get(operator, f"!{key}"))
    return ",".join(parts)
