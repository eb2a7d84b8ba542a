"""How answers are printed: as a table for people, or as one versioned document for programs.

Everything that commands print goes through here, because here, and nowhere else, what came from a
cluster or a file is made harmless to a terminal.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import click

from tonnage.objects import printable

_SAID = "tonnage.cli.said"
Command = TypeVar("Command", bound=Callable[..., Any])

Format: TypeAlias = Literal["table", "wide", "json", "yaml", "markdown"]

API_VERSION = "tonnage.dev/v1alpha1"

PlainFormat: TypeAlias = Literal["table", "json", "yaml"]


def output_as(*forms: str, help: str) -> Callable[[Command], Command]:
    """`--output`, with the forms of an answer, the usual one first."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help=help,
    )


output_option = output_as(
    "table", "wide", "json", "yaml", help="How to print; wide is a table with more columns."
)
plain_output_option = output_as("table", "json", "yaml", help="How to print.")


def file_option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """An option that names one file to write or read."""
    from pathlib import Path  # brings a twentieth of what `tonnage --help` imports

    return click.option(
        *names, metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), **settings
    )


def pairs_option(*names: str, metavar: str, help: str) -> Callable[[Command], Command]:
    """A repeatable option of the form NAME=VALUE, as a dictionary."""

    def read(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
        pairs = {}
        for value in values:
            name, equals, text = value.partition("=")
            if not name or not equals:
                raise click.BadParameter(f"{value!r}: expected {metavar}", ctx=ctx, param=param)
            pairs[name] = text
        return pairs

    return click.option(*names, metavar=metavar, multiple=True, callback=read, help=help)


def print_document(kind: str, *, form: Format, **fields: object) -> None:
    """Print one document of ours as JSON or YAML."""
    print_record({"apiVersion": API_VERSION, "kind": kind, **fields}, form=form)


def print_record(record: object, *, form: Format) -> None:
    """The same for one that says itself what it is; version and kind come first."""
    import msgspec

    fields = msgspec.to_builtins(record)
    document = {"apiVersion": fields["apiVersion"], "kind": fields["kind"], **fields}
    if form == "yaml":
        import yaml

        dumper = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper
        # Not everything that YAML takes for printable is harmless: letters of other scripts are
        # escaped together with what turns the direction of writing.
        text = yaml.dump(document, Dumper=dumper, sort_keys=False, width=1000, allow_unicode=False)
        click.echo(text, nl=False)
    else:
        print_json(msgspec.json.format(msgspec.json.encode(document), indent=2))


def print_json(text: bytes | str) -> None:
    """Print JSON that stands as it should; only escapes are added, which mean the same."""
    click.echo(printable.escape_json(text.decode() if isinstance(text, bytes) else text))


def print_lines(lines: str) -> None:
    """Print text of several lines, each escaped, that ends its last line itself."""
    click.echo("\n".join(map(printable.escape, lines.split("\n"))), nl=False)


def echo(
    line: str = "", *, err: bool = False, bold: bool | None = None, fg: str | None = None
) -> None:
    """Print one line; a line break in it is shown as an escape, like all that is not printable."""
    click.secho(printable.escape(line), err=err, bold=bold, fg=fg)


def progress(line: str) -> None:
    """Replace the line of the terminal that standard error is on."""
    click.echo(f"\r{printable.escape(line)}", err=True, nl=False)


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, alarming: Collection[int] = ()
) -> None:
    """Print rows under headings. On a terminal the alarming ones, by position, are red.

    Lines are as long as they need to be: folded into columns, reasons cannot be read.
    """
    cells = [[printable.escape(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    echo(_line(headings, widths), bold=True)
    for position, row in enumerate(cells):
        alarm = position in alarming
        echo(_line(row, widths), bold=alarm or None, fg="red" if alarm else None)


def print_section(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, alarming: Collection[int] = ()
) -> None:
    """Print a table below what is there already; nothing at all if it has no row."""
    if rows:
        echo()
        print_table(headings, rows, alarming=alarming)


def note(text: str) -> None:
    """Say something beside the answer, on standard error."""
    echo(f"tonnage: note: {' '.join(text.split())}", err=True)


def warn(text: str, *, instead_of: str = "") -> None:
    """Say what may make the answer wrong, on standard error.

    What it stands `instead_of`, having more to tell, is not said after it.
    """
    context = click.get_current_context(silent=True)
    said = context.meta.setdefault(_SAID, set()) if context is not None else set()
    said.add(instead_of)
    if text not in said:
        echo(f"tonnage: warning: {' '.join(text.split())}", err=True)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()
