"""A click group that loads a command only when it runs.

Numbers, YAML and colours take several times longer to import than the shell takes to start; a
command that needs none of them, `tonnage --help` first of all, should not wait for them.
"""

import gc
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from tonnage.cli import USUAL_THRESHOLDS
from tonnage.objects.phrases import near_names


class LazyCommand(NamedTuple):
    """Where a command lives, and what the group's help says of it without loading it."""

    target: str  # "module:attribute"
    summary: str
    lasting: bool = False  # it runs until it is stopped

    def load(self) -> click.Command:
        """Import the command's module and give the command."""
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.target} is not a click command but {command!r}")
        return command


class LazyGroup(click.Group):
    """A group whose commands are names until they are invoked."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        found = self.lazy.get(cmd_name)
        if found is None:
            return None
        if found.lasting:
            # What a program leaves behind is looked for as often as Python does.
            gc.set_threshold(*USUAL_THRESHOLDS)
        return found.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A command that is not there is an error with those that come near."""
        if args and args[0] not in self.lazy and not args[0].startswith("-"):
            options = [option for param in self.get_params(ctx) for option in param.opts]
            near = near_names(args[0], [*self.lazy, *options])
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.lazy.items()])
