"""`tonnage schema`: what the documents look like that are printed and read."""

import difflib
from typing import Any

import click

from tonnage.cli import console
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
        from tonnage.cli import schema_page

        console.print_lines(schema_page.page())
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
