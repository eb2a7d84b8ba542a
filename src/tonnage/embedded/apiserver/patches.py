"""The ways to change part of an object: merge, strategic merge, JSON patch, apply.

All of them give a new tree that shares with the old one what they do not touch.
"""

from typing import Any

from tonnage.embedded.apiserver.refusals import ApiRefusal, Tree, bad_request

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
STYLES = (JSON, MERGE, STRATEGIC, APPLY)

KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "drivers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists of objects that a strategic merge knows by name: the field, and what tells items apart.

The API declares this per type; the names are distinct enough to do without types, except for the
ports of containers and of services.
"""

SETS = frozenset({"finalizers", "podCIDRs"})
"""Lists of texts to which a strategic merge adds."""

_PATCH, _RETAIN = "$patch", "$retainKeys"
_DELETE_FROM, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def merged(target: object, patch: object) -> Any:
    """RFC 7386: null removes, objects are merged, everything else is replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def strategically_merged(target: Tree, patch: Tree) -> Tree:
    """A merge that goes into the lists of `KEYS`, with the directives of Kubernetes."""
    how = patch.get(_PATCH)
    if how == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if how == "delete":
        return {}
    if how not in (None, "merge"):
        raise bad_request(f"unknown patch directive {how!r}: expected merge, replace or delete")
    result = dict(target)
    if _RETAIN in patch:
        _require_list(_RETAIN, patch[_RETAIN])
        result = {key: value for key, value in result.items() if key in patch[_RETAIN]}
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            _require_list(key, value)
            _require_list(name, result.get(name) or [])
            result[name] = [one for one in result.get(name) or [] if one not in value]
        elif value is None:
            result.pop(key, None)
        elif not key.startswith("$"):
            result[key] = _strategic(key, result.get(key), value)
    for key, order in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            _require_list(key, order)
            if isinstance(result.get(name), list):
                result[name] = _ordered(name, result[name], order)
    return result


def _require_list(field: str, value: object) -> None:
    if not isinstance(value, list):
        raise bad_request(f"{field}: expected a list")


def applied(target: Tree, patch: Tree) -> Tree:
    """Server-side apply without ownership: what is named is set, nothing is ever taken away."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            before = result.get(key)
            result[key] = applied(before if isinstance(before, dict) else {}, value)
        elif isinstance(value, list):
            result[key] = _strategic(key, result.get(key), value)
        else:
            result[key] = value
    return result


def json_patched(target: Tree, operations: object) -> Tree:
    """RFC 6902. An operation that does not apply refuses the whole patch."""
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise bad_request("a JSON patch is a list of operations")
    result: Any = target
    for operation in operations:
        result = _operated(result, operation)
    if not isinstance(result, dict):
        raise bad_request("the patched document is no longer an object")
    return result


def _strategic(field: str, before: object, value: object) -> Any:
    if isinstance(value, dict):
        return strategically_merged(before if isinstance(before, dict) else {}, value)
    if not isinstance(value, list):
        return value
    present = before if isinstance(before, list) else []
    if field in SETS:
        return [*present, *(one for one in value if one not in present)]
    key = _key(field, [*value, *present])
    return value if key is None else _list_merged(key, present, value)


def _list_merged(key: str, present: list[Any], changes: list[Any]) -> list[Any]:
    """Items with the same key merged in place, new ones at the end."""
    if any(not isinstance(one, dict) for one in changes):
        raise bad_request(f"expected objects with {key!r} in the list of the patch")
    if any(one.get(_PATCH) == "replace" and len(one) == 1 for one in changes):
        return [one for one in changes if _PATCH not in one]
    result = list(present)
    places = {one.get(key): place for place, one in enumerate(result)}
    removed = set()
    for change in changes:
        if key not in change:
            raise bad_request(f"an item of the patch lacks its merge key {key!r}")
        identity = change[key]
        if isinstance(identity, dict | list):
            raise bad_request(f"the merge key {key!r} of an item is no name or number")
        place = places.get(identity)
        if change.get(_PATCH) == "delete":
            removed.add(identity)
        elif place is None:
            places[identity] = len(result)
            result.append(strategically_merged({}, change))
        else:
            result[place] = strategically_merged(result[place], change)
    return [one for one in result if one.get(key) not in removed] if removed else result


def _ordered(field: str, present: list[Any], order: list[Any]) -> list[Any]:
    """Those that the order names, in that order; then the others."""
    key = _key(field, present)
    names = [one[key] if key and isinstance(one, dict) else one for one in order]
    rank = {name: place for place, name in enumerate(names)}
    last = len(rank)
    return sorted(present, key=lambda one: rank.get(one.get(key) if key else one, last))


def _key(field: str, items: list[Any]) -> str | None:
    if field == "ports":
        of_container = any(isinstance(one, dict) and "containerPort" in one for one in items)
        return "containerPort" if of_container else "port"
    return KEYS.get(field)


def _operated(document: Any, operation: Tree) -> Any:
    op, path = operation.get("op"), _pointer(operation.get("path"))
    match op:
        case "test":
            if _found(document, path) != operation.get("value"):
                raise _inapplicable(f"testing value at {operation['path']!r} failed")
            return document
        case "add" | "replace":
            if "value" not in operation:
                raise bad_request(f"the operation {op!r} needs a value")
            return _changed(document, path, operation["value"], op=op)
        case "remove":
            return _changed(document, path, None, op=op)
        case "move" | "copy":
            source = _pointer(operation.get("from"))
            value = _found(document, source)
            if op == "move":
                document = _changed(document, source, None, op="remove")
            return _changed(document, path, value, op="add")
    raise bad_request(f"unknown operation {op!r} in a JSON patch")


def _pointer(text: object) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise bad_request(f"{text!r} is no JSON pointer: it starts with '/'")
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _found(document: Any, path: list[str]) -> Any:
    for step in path:
        document = document[_step(document, step)]
    return document


def _changed(document: Any, path: list[str], value: Any, *, op: str) -> Any:
    """The document with one place changed, copied along the way to it."""
    if not path:
        return value
    step, *rest = path
    if rest:
        key = _step(document, step)
        inner = _changed(document[key], rest, value, op=op)
        copy: Any = list(document) if isinstance(document, list) else dict(document)
        copy[key] = inner
        return copy
    if isinstance(document, list):
        items = list(document)
        if op == "add":
            items.insert(len(items) if step == "-" else _index(step, len(items)), value)
        elif op == "replace":
            items[_step(items, step)] = value
        else:
            del items[_step(items, step)]
        return items
    if op == "add" and isinstance(document, dict):
        return {**document, step: value}
    key = _step(document, step)
    if op == "replace":
        return {**document, key: value}
    return {name: item for name, item in document.items() if name != key}


def _step(document: Any, step: str) -> Any:
    """The key or index that a step means, which must exist."""
    if isinstance(document, list):
        return _index(step, len(document) - 1)
    if not isinstance(document, dict) or step not in document:
        raise _inapplicable(f"there is no {step!r}")
    return step


def _index(step: str, largest: int) -> int:
    if not (step.isascii() and step.isdigit() and len(step) < 10) or int(step) > largest:
        raise _inapplicable(f"there is no item {step!r}")
    return int(step)


def _inapplicable(why: str) -> ApiRefusal:
    return ApiRefusal(422, "Invalid", f"the server rejected our request due to an error: {why}")
