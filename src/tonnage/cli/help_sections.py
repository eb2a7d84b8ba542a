"""Help of a command with many options: what most people need first, the rest on request."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import click

from tonnage.cli import console

Sections: TypeAlias = Mapping[str, Sequence[str]]
"""Headings, each with the options below it."""

OTHERS = "Other options"
_ALL = "tonnage.cli.help_all"


class SectionedCommand(click.Command):
    """Lists its options by section; --help only names those of `rare`, --help-all has them too.

    An option that no section names is never lost: it comes last.
    """

    def __init__(self, *args: Any, sections: Sections, rare: Sections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.context_settings["max_content_width"] = 100
        self.sections = sections
        self.rare = rare
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_all,
                help="Show all options and exit.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        params = {option: param for param in self.get_params(ctx) for option in param.opts}
        named = {
            option for one in (self.sections, self.rare) for part in one.values() for option in part
        }
        others = [one for one in self.get_params(ctx) if not named.intersection(one.opts)]
        shown = {**self.sections, **(self.rare if ctx.meta.get(_ALL) else {})}
        for title, options in shown.items():
            _write(ctx, formatter, title, (params[one] for one in options if one in params))
        _write(ctx, formatter, OTHERS, others)
        if not ctx.meta.get(_ALL):
            rare = [option for options in self.rare.values() for option in options]
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} --help-all explains {', '.join(rare)} too.")


def _write(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    title: str,
    params: Iterable[click.Parameter],
) -> None:
    rows = [record for one in params if (record := one.get_help_record(ctx)) is not None]
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _print_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        console.print_lines(f"{ctx.get_help()}\n")
        ctx.exit()
