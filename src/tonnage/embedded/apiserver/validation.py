"""What is refused as it stands: names, labels, types of fields, and a few rules per kind."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from tonnage.embedded.apiserver.kinds import DEFINITIONS, ServedKind, definition_spec
from tonnage.embedded.apiserver.refusals import ApiRefusal, Tree, bad_request, invalid
from tonnage.objects import codec, selectors
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.resources import valid_qualified_name

Problem: TypeAlias = tuple[str, str]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH_SEGMENT = re.compile(r"[^/%]+")
_LABEL_VALUE = re.compile(r"(?:(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PERCENTAGE = re.compile(r"[0-9]{1,3}%")
_LOOSE_NAMES = ("rbac.authorization.k8s.io", "events")

_POD_MUTABLE = frozenset(
    {
        "activeDeadlineSeconds", "containers", "initContainers", "ephemeralContainers",
        "terminationGracePeriodSeconds", "tolerations", "schedulingGates",
    }
)  # fmt: skip
_GATED_MUTABLE = _POD_MUTABLE | {"nodeSelector", "affinity"}
_STATEFUL_SET_MUTABLE = frozenset(
    {
        "replicas", "ordinals", "template", "updateStrategy", "minReadySeconds",
        "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy",
    }
)  # fmt: skip
_CLAIM_MUTABLE = frozenset({"resources", "volumeAttributesClassName"})
_FIXED = {
    "csistoragecapacities": ("nodeTopology", "storageClassName"),
    "storageclasses": ("provisioner", "parameters"),
}
"""Fields of kinds without a spec that stay what they were."""


def check_new(kind: ServedKind, tree: Tree, data: bytes) -> None:
    """Refuse an object that could not be created; `data` is its JSON."""
    _raise(kind, tree, _typed(kind, data))
    _raise(kind, tree, _problems(kind, tree))


def check_changed(kind: ServedKind, before: Tree, tree: Tree, data: bytes) -> None:
    """Refuse a change of what cannot change, or into what could not be created."""
    _raise(kind, tree, _typed(kind, data))
    _raise(kind, tree, _changes(kind, before, tree))


def restored(kind: ServedKind, data: bytes) -> Tree:
    """An object that an earlier run has stored; refused if this one could not live with it."""
    try:
        tree = check_shape(kind, msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _malformed(kind, str(error)) from None
    check_new(kind, tree, data)
    if not tree["metadata"].get("uid"):
        raise _malformed(kind, "metadata.uid: expected one")
    return tree


def check_shape(kind: ServedKind, tree: object) -> Tree:
    """The tree of an object whose metadata can be relied on; nulls in it read as absent."""
    if not isinstance(tree, dict):
        raise _malformed(kind, "expected an object")
    tree = {key: value for key, value in tree.items() if value is not None}
    meta = tree.get("metadata", {})
    for part in _PARTS:
        if not isinstance(tree.get(part, meta), dict):
            raise _malformed(kind, f"{part}: expected an object")
    tree["metadata"] = meta = {key: value for key, value in meta.items() if value is not None}
    try:
        msgspec.convert(meta, ObjectMeta)
        if kind is DEFINITIONS:
            definition_spec(tree)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _malformed(kind, str(error)) from None
    return tree


_PARTS = ("metadata", "spec", "status")


def _raise(kind: ServedKind, tree: Tree, problems: Iterable[Problem]) -> None:
    try:
        found = list(problems)
    except (AttributeError, KeyError, TypeError) as error:
        # The rules trust shapes, which `_typed` has checked only in kinds that Tonnage reads.
        raise _malformed(kind, f"a field has another type than expected ({error})") from None
    if found:
        raise invalid(kind.kind, tree["metadata"].get("name", ""), found)


def _malformed(kind: ServedKind, why: str) -> ApiRefusal:
    return bad_request(f"{kind.kind} in the request cannot be read: {why}")


def _changes(kind: ServedKind, before: Tree, tree: Tree) -> Iterator[Problem]:
    old, new = before["metadata"], tree["metadata"]
    if old.get("labels") is not new.get("labels"):
        yield from _labels(new)
    if old.get("ownerReferences") is not new.get("ownerReferences"):
        yield from _owners(new)
    if "deletionTimestamp" in old:
        yield from _new_finalizers(old, new)
    for field in _FIXED.get(kind.plural, ()):
        if before.get(field) != tree.get(field):
            yield field, "Invalid value: field is immutable"
    if any(before.get(part) is not tree.get(part) for part in ("spec", "data", "binaryData")):
        yield from _RULES.get(kind.plural, _nothing)(tree)
        yield from _CHANGES.get(kind.plural, _nothing_changed)(before, tree)


def _problems(kind: ServedKind, tree: Tree) -> Iterator[Problem]:
    meta = tree["metadata"]
    yield from _name(kind, meta["name"])
    yield from _labels(meta)
    yield from _owners(meta)
    yield from _RULES.get(kind.plural, _nothing)(tree)


def _owners(meta: Tree) -> Iterator[Problem]:
    for place, owner in enumerate(meta.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield f"metadata.ownerReferences[{place}].{field}", "must not be empty"


def _name(kind: ServedKind, name: str) -> Iterator[Problem]:
    loose = kind.group in _LOOSE_NAMES or kind.plural in _LOOSE_NAMES
    if not (_PATH_SEGMENT if loose else _SUBDOMAIN).fullmatch(name) or len(name) > 253:
        problem = (
            f'Invalid value: "{name}": expected up to 253 small letters, digits, "-" and ".",'
            " beginning and ending with a letter or digit"
        )
        yield "metadata.name", problem


def _labels(meta: Tree) -> Iterator[Problem]:
    for key, value in (meta.get("labels") or {}).items():
        if not _valid_label(key, value):
            problem = (
                f'Invalid value: "{key}={value}": expected a label key with an optional DNS'
                " prefix, and a value of up to 63 letters, digits, '-', '_' and '.'"
            )
            yield "metadata.labels", problem


@lru_cache(maxsize=1 << 14)
def _valid_label(key: str, value: object) -> bool:
    text = isinstance(value, str) and len(value) <= 63 and _LABEL_VALUE.fullmatch(value)
    return bool(text) and valid_qualified_name(key)


def _new_finalizers(before: Tree, meta: Tree) -> Iterator[Problem]:
    added = set(meta.get("finalizers") or ()) - set(before.get("finalizers") or ())
    if added:
        problem = (
            "Forbidden: no new finalizers can be added if the object is being deleted,"
            f" found new finalizers {sorted(added)}"
        )
        yield "metadata.finalizers", problem


def _typed(kind: ServedKind, data: bytes) -> Iterator[Problem]:
    """Fields of the wrong type, in the kinds that Tonnage reads."""
    if kind.row is None:
        return
    try:
        codec.decode(data, kind.row)
    except codec.DecodeError as error:
        yield error.field or "object", error.message


def _pod(tree: Tree) -> Iterator[Problem]:
    containers = tree.get("spec", {}).get("containers")
    if not containers or not isinstance(containers, list):
        yield "spec.containers", "Required value"
        return
    names = [container.get("name") for container in containers if isinstance(container, dict)]
    for place, name in enumerate(names):
        if not name:
            yield f"spec.containers[{place}].name", "Required value"
        elif name in names[:place]:
            yield f"spec.containers[{place}].name", f'Duplicate value: "{name}"'


def _config_map(tree: Tree) -> Iterator[Problem]:
    for key in {**tree.get("data", {}), **tree.get("binaryData", {})}:
        if not _CONFIG_KEY.fullmatch(key) or len(key) > 253:
            yield f"data[{key}]", f"Invalid value: {key!r}: expected letters, digits, '-', '_', '.'"


def _workload(tree: Tree) -> Iterator[Problem]:
    spec = tree.get("spec", {})
    if not spec.get("selector"):
        yield "spec.selector", "Required value"
        return
    labels = spec.get("template", {}).get("metadata", {}).get("labels") or {}
    try:
        selector = msgspec.convert(spec["selector"], LabelSelector)
        if not selectors.matches(selector, labels):
            yield "spec.template.metadata.labels", "`selector` does not match template `labels`"
    except (msgspec.ValidationError, selectors.SelectorError) as error:
        yield "spec.selector", f"Invalid value: {error}"


def _claim(tree: Tree) -> Iterator[Problem]:
    spec = tree.get("spec", {})
    if not spec.get("accessModes"):
        yield "spec.accessModes", "Required value: at least 1 access mode is required"
    if "storage" not in spec.get("resources", {}).get("requests", {}):
        yield "spec.resources[storage]", "Required value"


def _budget(tree: Tree) -> Iterator[Problem]:
    spec = tree.get("spec", {})
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield "spec", "Invalid value: minAvailable and maxUnavailable cannot be both set"
    for field in ("minAvailable", "maxUnavailable"):
        amount = spec.get(field)
        if isinstance(amount, str) and not _PERCENTAGE.fullmatch(amount):
            yield f"spec.{field}", f"Invalid value: {amount!r}: expected a percentage such as 50%"


def _definition(tree: Tree) -> Iterator[Problem]:
    spec: Any = tree.get("spec") or {}
    names: Any = spec.get("names") or {}
    for field in ("plural", "kind"):
        if not names.get(field):
            yield f"spec.names.{field}", "Required value"
    if not spec.get("group"):
        yield "spec.group", "Required value"
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        yield "spec.scope", 'Unsupported value: expected "Namespaced" or "Cluster"'
    storage = [one for one in spec.get("versions") or () if one.get("storage")]
    if len(storage) != 1:
        yield "spec.versions", "Invalid value: expected exactly one version with storage: true"
    if tree["metadata"]["name"] != f"{names.get('plural')}.{spec.get('group')}":
        yield "metadata.name", "Invalid value: must be spec.names.plural+'.'+spec.group"


def _only(mutable: frozenset[str], before: Tree, tree: Tree) -> Iterator[Problem]:
    old, new = before.get("spec") or {}, tree.get("spec") or {}
    changed = {key for key in {*old, *new} if old.get(key) != new.get(key)} - mutable
    if changed:
        yield "spec", f"Forbidden: updates may not change {', '.join(sorted(changed))}"


def _pod_change(before: Tree, tree: Tree) -> Iterator[Problem]:
    gated = bool(before["spec"].get("schedulingGates"))
    yield from _only(_GATED_MUTABLE if gated else _POD_MUTABLE, before, tree)
    gates = [one["name"] for one in tree["spec"].get("schedulingGates") or ()]
    known = {one["name"] for one in before["spec"].get("schedulingGates") or ()}
    if not known.issuperset(gates):
        yield "spec.schedulingGates", "Forbidden: only deletion is allowed"


def _claim_change(before: Tree, tree: Tree) -> Iterator[Problem]:
    mutable = _CLAIM_MUTABLE
    if not before["spec"].get("volumeName"):
        # Binding fills them in, once.
        mutable |= {"volumeName"}
    if before["spec"].get("storageClassName") is None:
        mutable |= {"storageClassName"}
    yield from _only(mutable, before, tree)


def _stateful_set_change(before: Tree, tree: Tree) -> Iterator[Problem]:
    yield from _only(_STATEFUL_SET_MUTABLE, before, tree)


def _attachment_change(before: Tree, tree: Tree) -> Iterator[Problem]:
    yield from _only(frozenset(), before, tree)


def _nothing(_: Tree) -> Iterator[Problem]:
    yield from ()


def _nothing_changed(_: Tree, __: Tree) -> Iterator[Problem]:
    yield from ()


_RULES: dict[str, Callable[[Tree], Iterator[Problem]]] = {
    "pods": _pod,
    "configmaps": _config_map,
    "deployments": _workload,
    "replicasets": _workload,
    "statefulsets": _workload,
    "daemonsets": _workload,
    "persistentvolumeclaims": _claim,
    "poddisruptionbudgets": _budget,
    "customresourcedefinitions": _definition,
}
_CHANGES: dict[str, Callable[[Tree, Tree], Iterator[Problem]]] = {
    "pods": _pod_change,
    "persistentvolumeclaims": _claim_change,
    "statefulsets": _stateful_set_change,
    "volumeattachments": _attachment_change,
}
