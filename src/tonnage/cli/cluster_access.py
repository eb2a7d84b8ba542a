"""Which cluster a command talks to, and what else it could be given where there is none."""

import functools
import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tonnage.cli import completion, durations
from tonnage.errors import ClusterError, InputError

if TYPE_CHECKING:
    from tonnage.cluster.calls import CallPatience
    from tonnage.cluster.client import Client
    from tonnage.cluster.config import Access


_INSTEAD = {
    "-f": "files with -f FILE",
    "--url": "the debug address with --url URL",
    "--demo": "--demo",
}
"""What some commands take instead of a cluster, by the option that takes it."""


class ClusterChoice(NamedTuple):
    """What the command line says of the live cluster; `timeout` is of a request, in seconds."""

    kubeconfig: str | None = None
    context: str | None = None
    timeout: float | None = None

    @property
    def is_given(self) -> bool:
        return bool(self.kubeconfig or self.context)


AS_KUBECTL = ClusterChoice()


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that lead to a live cluster, and as `live` what they say."""

    @click.option(
        "--kubeconfig",
        metavar="FILE",
        shell_complete=completion.files,
        help="Kubeconfig of the live cluster.  [default: as kubectl]",
    )
    @click.option(
        "--request-timeout",
        type=durations.Duration(least=0.001),
        help="How long the API server may take to answer a request, such as 30s.  [default: 1m]",
    )
    @click.option(
        "--context", metavar="NAME", help="Context of the kubeconfig.  [default: the current one]"
    )
    @functools.wraps(command)
    def taking(
        *arguments: Any,
        kubeconfig: str | None,
        request_timeout: float | None,
        context: str | None,
        **others: Any,
    ) -> None:
        command(*arguments, live=ClusterChoice(kubeconfig, context, request_timeout), **others)

    return taking


def find(live: ClusterChoice) -> "Access":
    """The access kubectl would choose; if there is none, the error says what to give."""
    from tonnage.cluster import config

    try:
        return config.find(
            environ=os.environ, kubeconfig_file=live.kubeconfig, context=live.context
        )
    except InputError as error:
        if live.is_given:
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


_HTML = re.compile(r"<(!doctype|html|head|body)", re.IGNORECASE)


def explained(error: ClusterError, access: "Access") -> ClusterError:
    """The same failure with the context, the server and the next step."""
    context = f"context {access.context}, " if access.context else ""
    where = f"{context}server {access.endpoint.shown}"
    text = access.endpoint.without_secrets(str(error)).removeprefix(f"{access.endpoint.shown}: ")
    hint = _hint(error, text)
    if _HTML.search(text):
        text = text.partition("<")[0].rstrip(": ")
    return ClusterError(f"{where}: {text}{f'; {hint}' if hint else ''}")


def _hint(error: ClusterError, text: str) -> str:
    from tonnage.cluster import errors

    status = error.status if isinstance(error, errors.ApiError) else 0
    if isinstance(error, errors.Unauthorized):
        return "you are not logged in, or no longer: log in as for kubectl, and try kubectl get ns"
    if 300 <= status < 400 or _HTML.search(text):
        return (
            "this is a login page or a proxy, not a Kubernetes API: log in, or correct the server"
            " of the context"
        )
    if isinstance(error, errors.CredentialsFailed):
        return "the kubeconfig's credentials do not work: try kubectl get ns"
    if isinstance(error, errors.Forbidden):
        return f"{error.right}; docs/deploying.md has the rights of every command"
    if isinstance(error, errors.ConnectionFailed):
        return "is the cluster reachable from here? kubectl get ns asks the same"
    return ""


T = TypeVar("T")


def talk(
    act: "Callable[[Client], Awaitable[T]]", live: ClusterChoice, *, read_only: bool = False
) -> T:
    """What becomes of it."""
    import asyncio

    from tonnage.cluster import errors
    from tonnage.service import connections

    access = find(live)

    async def main() -> T:
        async with connections.connected(
            access, environ=os.environ, read_only=read_only, patience=patience(live)
        ) as reached:
            return await act(reached.client)

    try:
        return asyncio.run(main())
    except ClusterError as error:
        if isinstance(error, errors.NotFound | errors.Conflict):
            raise
        raise explained(error, access) from error


def patience(live: ClusterChoice) -> "CallPatience | None":
    """How long requests may take; with a time of the user's own they are sent once."""
    from tonnage.cluster.calls import CallPatience

    return None if live.timeout is None else CallPatience(timeout=live.timeout, attempts=1)
