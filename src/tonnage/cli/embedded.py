"""`tonnage embedded`: a Kubernetes API on this machine, with nothing installed."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli import console
from tonnage.errors import InputError, system_errors

if TYPE_CHECKING:
    from tonnage.embedded.apiserver import ApiServer


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    default=0,
    help="Where to listen on 127.0.0.1; a free port unless given.",
)
@console.file_option(
    "--data", help="Keep the objects in this file; without it they are gone at the end."
)
@console.file_option("--kubeconfig", help="Write the kubeconfig here instead of printing it.")
@click.option(
    "--event-ttl",
    metavar="DURATION",
    default="1h",
    show_default=True,
    help="Keep an Event for so long after it was last written.",
)
@click.option(
    "--no-token",
    is_flag=True,
    help="Let everybody on this machine in; otherwise only who has the kubeconfig.",
)
def embedded(
    port: int, data: Path | None, kubeconfig: Path | None, event_ttl: str, no_token: bool
) -> None:
    """Serve a Kubernetes API from memory, on loopback only, until interrupted.

    It stores, watches and deletes objects as a real API server does. Nothing runs in it: no
    scheduler, no kubelet, no controllers but garbage collection. kubectl and every client that
    speaks JSON work against it, with the kubeconfig: the URL in it begins with a random token.

    \b
    Examples:
      tonnage embedded --kubeconfig embedded.yaml
      tonnage embedded --port 8001 --data cluster.jsonl --kubeconfig embedded.yaml
      kubectl --kubeconfig embedded.yaml get nodes
    """
    import asyncio
    import random
    import secrets

    from tonnage.clock import SystemClock
    from tonnage.embedded.apiserver import ApiServer
    from tonnage.objects import durations
    from tonnage.service import lifecycle

    seconds = durations.seconds(event_ttl)
    if seconds is None or seconds <= 0:
        raise InputError(f"--event-ttl {event_ttl!r}: expected a duration such as 1h or 10m")
    token = "" if no_token else secrets.token_urlsafe(16)
    server = ApiServer(clock=SystemClock(), rng=random.Random(), data=data, event_ttl=seconds)
    try:
        asyncio.run(lifecycle.until_signalled(lambda: _serve(server, port, kubeconfig, token)))
    finally:
        server.close()


async def _serve(server: "ApiServer", port: int, kubeconfig: Path | None, token: str) -> None:
    import asyncio

    from tonnage.embedded.apiserver.http import HttpFront

    front = HttpFront(server, port=port, token=token)
    await front.start()
    try:
        _tell(front.url, kubeconfig)
        await asyncio.Event().wait()
    finally:
        await front.close()


def _tell(url: str, kubeconfig: Path | None) -> None:
    from tonnage.cluster.config import masked
    from tonnage.embedded.apiserver import kubeconfig as kubeconfigs

    if kubeconfig is not None:
        with system_errors(kubeconfig):
            kubeconfigs.write(kubeconfig, url)
    console.echo(f"The embedded cluster listens on {masked(url)}; Ctrl-C ends it.", err=True)
    if kubeconfig is None:
        console.print_lines(kubeconfigs.text(url))
    else:
        console.echo(f"Try: kubectl --kubeconfig {kubeconfig} get namespaces", err=True)
