"""The difference of two trees as JSON Patch (RFC 6902): `add`, `remove` and `replace` alone."""

from typing import Any, TypeAlias

from tonnage.errors import InputError

Operation: TypeAlias = dict[str, Any]


def difference(before: Any, after: Any) -> list[Operation]:
    """What makes the one out of the other; nothing if they are equal."""
    found: list[Operation] = []
    _compare(before, after, "", found)
    return found


def patched(tree: Any, operations: Any) -> Any:
    """The tree after the operations; it shares with the old one what they do not touch."""
    if not isinstance(operations, list):
        raise InputError("expected a list of operations")
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise InputError("expected an operation with a path")
        tree = _done(tree, operation["path"].split("/")[1:], operation)
    return tree


def _compare(before: Any, after: Any, path: str, found: list[Operation]) -> None:
    if before == after and type(before) is type(after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                found.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})
        for key, value in after.items():
            inside = f"{path}/{_escaped(key)}"
            if key not in before:
                found.append({"op": "add", "path": inside, "value": value})
            else:
                _compare(before[key], value, inside, found)
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for position, (old, new) in enumerate(zip(before, after, strict=False)):
            _compare(old, new, f"{path}/{position}", found)
        for value in after[len(before) :]:
            found.append({"op": "add", "path": f"{path}/-", "value": value})
    else:
        found.append({"op": "replace", "path": path, "value": after})


def _done(tree: Any, steps: list[str], operation: Operation) -> Any:
    op = operation.get("op")
    if op not in ("add", "remove", "replace") or (op != "remove" and "value" not in operation):
        raise InputError(f"{op!r}: expected add, remove or replace, with a value")
    if not steps:
        if op == "remove":
            raise InputError("remove: expected a path into the object")
        return operation["value"]
    step, rest = steps[0].replace("~1", "/").replace("~0", "~"), steps[1:]
    if isinstance(tree, dict):
        if step not in tree and (rest or op != "add"):
            raise InputError(f"{operation['path']}: there is no such field")
        changed = dict(tree)
        if rest:
            changed[step] = _done(tree[step], rest, operation)
        elif op == "remove":
            del changed[step]
        else:
            changed[step] = operation["value"]
        return changed
    if isinstance(tree, list):
        return _done_in_list(tree, step, rest, operation)
    raise InputError(f"{operation['path']}: there is no such field")


def _done_in_list(tree: list[Any], step: str, rest: list[str], operation: Operation) -> list[Any]:
    op = operation["op"]
    end = len(tree) if op == "add" and not rest else len(tree) - 1
    at = len(tree) if step == "-" and op == "add" and not rest else -1
    if at < 0 and step.isascii() and step.isdecimal() and len(step) < 10 and int(step) <= end:
        at = int(step)
    if at < 0:
        raise InputError(f"{operation['path']}: there is no such item")
    if rest:
        return [*tree[:at], _done(tree[at], rest, operation), *tree[at + 1 :]]
    if op == "remove":
        return [*tree[:at], *tree[at + 1 :]]
    return [*tree[:at], operation["value"], *tree[at + (op == "replace") :]]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
