"""Which cluster a command talks to, and what else it could be given where there is none."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.cluster.config import Access

_INSTEAD = {
    "-f": "files with -f FILE",
    "--url": "the autoscaler's debug address with --url URL",
}
"""What some commands take instead of a cluster, by the option that takes it."""


def find(
    *, kubeconfig: str | None, context: str | None, environ: Mapping[str, str] = os.environ
) -> "Access":
    """The access kubectl would choose; if there is none, the error says what to give."""
    from tonnage.cluster import config

    try:
        return config.find(environ=environ, kubeconfig_file=kubeconfig, context=context)
    except InputError as error:
        if kubeconfig or context:
            raise
        error.add_note(f"give {' or '.join(_ways())}")
        error.add_note("tonnage embedded serves one to try")
        raise


def _ways() -> list[str]:
    """What the command that runs can be given, in the words of its options."""
    ctx = click.get_current_context(silent=True)
    params = ctx.command.params if ctx is not None else ()
    taken = {option for param in params for option in param.opts}
    ways = [text for name, text in _INSTEAD.items() if name in taken]
    return [*ways, "a cluster with --kubeconfig FILE"]
