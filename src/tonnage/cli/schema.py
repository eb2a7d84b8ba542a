"""`tonnage schema`: what the documents look like that are printed and read."""

import difflib
from collections.abc import Iterator
from typing import Any

import click

from tonnage.cli import console, output_types
from tonnage.errors import InputError


@click.command()
@click.argument("kind", required=False)
@click.option("--markdown", is_flag=True, help="Print the fields of all kinds as a page.")
def schema(kind: str | None, markdown: bool) -> None:
    """Print the JSON schema of a document; without KIND, which kinds there are.

    Documents are what commands print with -o json or -o yaml, and the kinds that files may have.
    Fields may be added in later versions, and are never renamed.

    \b
    Examples:
      tonnage schema
      tonnage schema Plan > plan.schema.json
    """
    from tonnage.autoscaler.config import AutoscalerConfig
    from tonnage.cli import output_types
    from tonnage.service import config_file

    if markdown:
        console.print_lines(page())
        return
    if kind is None:
        rows = [[name, f"tonnage {by} -o json"] for name, (by, _) in output_types.PRINTED.items()]
        rows += [[name, "read by -f and --node-groups"] for name in output_types.READ]
        rows.append(["AutoscalerConfig", "read by tonnage run --config"])
        console.print_table(["KIND", "WHERE"], rows)
        return
    types = {name: type_ for name, (_, type_) in output_types.PRINTED.items()} | output_types.READ
    by_lower = {name.lower(): name for name in (*types, "AutoscalerConfig")}
    name = by_lower.get(kind.lower())
    if name is None:
        near = difflib.get_close_matches(kind.lower(), by_lower, n=3)
        hint = (
            f"near matches: {', '.join(by_lower[one] for one in near)}"
            if near
            else f"expected one of {', '.join(sorted(by_lower.values()))}"
        )
        raise InputError(f"no document of kind {kind!r}; {hint}")
    made = (
        config_file.schema(AutoscalerConfig)
        if name == "AutoscalerConfig"
        else of(name, types[name])
    )
    _print(made)


def of(name: str, type_: Any) -> dict[str, Any]:
    """The schema of a kind: with the kind as a constant, and a title."""
    import msgspec

    made = msgspec.json.schema(type_, schema_hook=lambda _: {"description": "anything"})
    definition = made["$defs"][name] = made["$defs"].pop(type_.__name__)
    made["$ref"] = f"#/$defs/{name}"
    definition["title"] = name
    properties = definition["properties"]
    if "kind" in properties:
        properties["kind"] = {"const": name}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _print(made: dict[str, Any]) -> None:
    import msgspec

    console.print_json(msgspec.json.format(msgspec.json.encode(made), indent=2))


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
        made = of(name, type_)
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
