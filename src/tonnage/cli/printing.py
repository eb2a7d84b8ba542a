"""How answers are printed: as a table for people, or as one versioned document for programs."""

from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

import click

Format: TypeAlias = Literal["table", "wide", "json", "yaml"]

API_VERSION = "tonnage.dev/v1alpha1"

output_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print; wide is a table with more columns.",
)


def print_document(kind: str, *, form: Format, **fields: object) -> None:
    """Print one document of ours as JSON or YAML."""
    document = {"apiVersion": API_VERSION, "kind": kind, **fields}
    if form == "yaml":
        import yaml

        dumper = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper
        text = yaml.dump(document, Dumper=dumper, sort_keys=False, width=1000, allow_unicode=True)
        click.echo(text, nl=False)
    else:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, alarming: Collection[int] = ()
) -> None:
    """Print rows under headings. On a terminal the alarming ones, by position, are red.

    Lines are as long as they need to be: folded into columns, reasons cannot be read.
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    click.secho(_line(headings, widths), bold=True)
    for position, row in enumerate(rows):
        alarm = position in alarming
        click.secho(_line(row, widths), bold=alarm or None, fg="red" if alarm else None)


def note(text: str) -> None:
    """Say something beside the answer, on standard error."""
    click.echo(f"tonnage: note: {' '.join(text.split())}", err=True)


def warn(text: str) -> None:
    """Say what may make the answer wrong, on standard error."""
    click.echo(f"tonnage: warning: {' '.join(text.split())}", err=True)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()
