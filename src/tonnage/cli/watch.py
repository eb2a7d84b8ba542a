"""`--watch`: the same question again and again, of a live cluster."""

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import click

INTERVAL = 5.0
"""Seconds between two answers."""


def watchable(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `-w`; whatever reads the cluster asks `again` whether to go on."""
    return click.option(
        "-w",
        "--watch",
        is_flag=True,
        expose_value=False,
        callback=_note,
        help=f"Ask a live cluster again every {INTERVAL:g} s.",
    )(command)


def repeated(command: Callable[..., None]) -> Callable[..., None]:
    """Run the whole command again while `--watch` was given."""

    @functools.wraps(command)
    def running(*arguments: Any, **options: Any) -> None:
        context = click.get_current_context()
        if not context.meta.get(__name__):
            command(*arguments, **options)
            return
        if options.get("filenames"):
            raise click.UsageError("--watch asks a live cluster again; files do not change")
        while True:
            if sys.stdout.isatty():
                click.clear()
            command(*arguments, **options)
            sys.stdout.flush()
            time.sleep(INTERVAL)

    return running


def _note(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[__name__] = value
