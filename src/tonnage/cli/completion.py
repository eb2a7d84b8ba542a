"""`tonnage completion`: what shells need to complete commands, options and file names."""

from typing import TYPE_CHECKING

import click

from tonnage.cli import console

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "_TONNAGE_COMPLETE"


def files(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Let the shell complete a file name."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that lets a shell complete commands, options and file names.

    \b
    Examples:
      source <(tonnage completion bash)
      tonnage completion zsh > "${fpath[1]}/_tonnage"
      tonnage completion fish > ~/.config/fish/completions/tonnage.fish
    """
    from click.shell_completion import get_completion_class

    from tonnage.cli.app import program

    chosen = get_completion_class(shell)
    assert chosen is not None
    console.print_lines(chosen(program, {}, "tonnage", VARIABLE).source())
