"""The fields of all documents as a page of the documentation."""

from collections.abc import Iterator
from typing import Any

from tonnage.cli import output_types, schema

_HEAD = """# JSON documents

What commands print with `-o json` and `-o yaml`, field by field. `tonnage schema KIND` prints the JSON schema of one.
Every document has `apiVersion: tonnage.dev/v1alpha1` and its `kind`. Fields may be added, and are never renamed.
This page is printed by `tonnage schema --markdown`.

Kinds that are read: `tonnage schema NodeGroup`, `tonnage schema Scenario`, `tonnage schema Sweep` and `tonnage schema AutoscalerConfig`.
"""  # noqa: E501


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for name, (command, type_) in output_types.PRINTED.items():
        made = schema.of(name, type_)
        definitions = made["$defs"]
        top = definitions[name]
        rows = [
            f"| `{path}` | {_escaped(kind)} |"
            for path, kind in _fields(top, definitions, seen=(name,))
        ]
        table = "\n".join(["| field | type |", "|---|---|", *rows])
        parts.append(f"## {name}\n\nPrinted by `tonnage {command}`.\n\n{table}\n")
    return "\n".join(parts)


def _fields(
    definition: dict[str, Any], definitions: dict[str, Any], *, seen: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    for name, field in definition.get("properties", {}).items():
        if name in ("apiVersion", "kind") and len(seen) == 1:
            continue
        inner, kind, mark = _unfolded(field)
        yield f"{name}{mark}", kind
        if inner and inner not in seen and definitions[inner].get("properties"):
            for path, of in _fields(definitions[inner], definitions, seen=(*seen, inner)):
                yield f"{name}{mark}.{path}", of


def _unfolded(field: dict[str, Any]) -> tuple[str, str, str]:
    """The definition a field leads to, its type in words, and `[]` for lists."""
    if "anyOf" in field:
        parts = [_unfolded(one) for one in field["anyOf"]]
        inner = next((one for one, _, _ in parts if one), "")
        mark = next((mark for _, _, mark in parts if mark), "")
        return inner, " or ".join(dict.fromkeys(kind for _, kind, _ in parts)), mark
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2], "object", ""
    if field.get("type") == "array":
        inner, kind, _ = _unfolded(field.get("items", {}))
        return inner, f"list of {kind}", "[]"
    if field.get("type") == "object":
        return "", "mapping", ""
    if "enum" in field:
        return "", " or ".join(f"`{one}`" for one in field["enum"]), ""
    return "", str(field.get("type", "any")), ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
