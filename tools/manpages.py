"""Manual pages and shell completion, made from the commands themselves."""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from tonnage.cli.app import program

SHELLS = {"bash": "tonnage.bash", "zsh": "_tonnage", "fish": "tonnage.fish"}


def write(directory: Path, *, version: str, time: int) -> None:
    """`man/man1/*.1` and `completions/*` below a directory."""
    date = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d")
    pages = directory / "man" / "man1"
    pages.mkdir(parents=True)
    context = click.Context(program, info_name="tonnage")
    for name, text in _pages(program, context, version=version, date=date):
        (pages / f"{name}.1").write_text(text)
    completions = directory / "completions"
    completions.mkdir()
    for shell, name in SHELLS.items():
        made = subprocess.run(
            [sys.executable, "-m", "tonnage", "completion", shell],
            capture_output=True,
            text=True,
            check=True,
        )
        (completions / name).write_text(made.stdout)


def _pages(
    command: click.Command, context: click.Context, *, version: str, date: str
) -> Iterator[tuple[str, str]]:
    path = context.command_path
    name = path.replace(" ", "-")
    subcommands = []
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            found = command.get_command(context, one)
            if found is not None and not found.hidden:
                inside = click.Context(found, info_name=one, parent=context)
                subcommands.append(f"{name}-{one}")
                yield from _pages(found, inside, version=version, date=date)
    yield name, _page(command, context, name, subcommands, version=version, date=date)


def _page(
    command: click.Command,
    context: click.Context,
    name: str,
    subcommands: list[str],
    *,
    version: str,
    date: str,
) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    summary = command.get_short_help_str(limit=200)
    lines = [
        f'.TH "{name.upper()}" "1" "{date}" "tonnage {version}" "Tonnage"',
        ".SH NAME",
        rf"{_text(name)} \- {_text(summary)}",
        ".SH SYNOPSIS",
        rf"\fB{_text(context.command_path)}\fR {_text(usage)}",
        ".SH DESCRIPTION",
    ]
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        plain = paragraph.startswith("\b")
        body = paragraph.removeprefix("\b").strip("\n")
        text = "\n".join(_text(line.rstrip()) for line in body.splitlines())
        lines += [".nf", text, ".fi"] if plain else [".PP", " ".join(text.split())]
    options = [
        record
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) is not None
    ]
    if options:
        lines.append(".SH OPTIONS")
        for flags, text in options:
            lines += [".TP", rf"\fB{_text(flags)}\fR", _text(" ".join(text.split()))]
    if subcommands:
        lines += [".SH SEE ALSO", ", ".join(rf"\fB{_text(one)}\fR(1)" for one in subcommands)]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """As roff shows it: a dash is a dash, and no line begins with a dot or an apostrophe."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
