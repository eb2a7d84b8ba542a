"""`tonnage node-agent`: the true attach limits of one node, published on it."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.cluster.client import Client
    from tonnage.cluster.config import Access
    from tonnage.nodeagent.config import Config
    from tonnage.nodeagent.program import Settings
    from tonnage.service.configfile import ConfigFile


def _counts(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, int] | None:
    counts = {}
    for value in values:
        driver, _, number = value.partition("=")
        if not driver or not (number.isdecimal() and number.isascii()):
            message = f"{value!r}: expected DRIVER=COUNT"
            raise click.BadParameter(message, ctx=ctx, param=param)
        counts[driver] = int(number)
    return counts or None


def _reaching(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--context", metavar="NAME", help="Which context of the kubeconfig."),
        click.option(
            "--kubeconfig", metavar="FILE", help="How to reach the cluster, if not from inside."
        ),
    ):
        command = option(command)
    return command


@click.group(invoke_without_command=True)
@click.option(
    "--node-name",
    metavar="NAME",
    envvar="NODE_NAME",
    show_envvar=True,
    help="The node this runs on.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Settings in YAML, read again when the file changes; docs/node-agent.md lists them.",
)
@_reaching
@click.option(
    "--kubelet-dir",
    metavar="DIR",
    default="/var/lib/kubelet",
    show_default=True,
    help="Where the kubelet keeps its sockets, as the host names it.",
)
@click.option(
    "--host-root",
    metavar="DIR",
    default="/",
    show_default=True,
    help="Below it are the host's sys and proc.",
)
@click.option(
    "--override",
    "overrides",
    metavar="DRIVER=COUNT",
    multiple=True,
    callback=_counts,
    help="The limit of a driver, whatever anybody says; goes before overrides of the file.",
)
@click.option(
    "--reserved",
    metavar="DRIVER=COUNT",
    multiple=True,
    callback=_counts,
    help="Slots to keep free; goes before reserved of the file.",
)
@click.option(
    "--write-csinode/--no-write-csinode",
    default=None,
    help="Set the count in the CSINode too, which is what kube-scheduler reads.",
)
@click.option(
    "--publish-intree/--no-publish-intree",
    default=None,
    help="Publish the key of the cloud's in-tree plugin too, for schedulers before 1.32.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    default=":8087",
    show_default=True,
    help="Where health, metrics and status are served.",
)
@click.option("--once", is_flag=True, help="Look and publish once, print it, and end.")
@click.option("--dry-run", is_flag=True, help="Change nothing at all.")
@click.option(
    "--logging-format",
    "log_form",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
@click.pass_context
def node_agent(
    ctx: click.Context,
    node_name: str | None,
    config_file: str | None,
    kubeconfig: str | None,
    context: str | None,
    kubelet_dir: str,
    host_root: str,
    overrides: dict[str, int] | None,
    reserved: dict[str, int] | None,
    write_csinode: bool | None,
    publish_intree: bool | None,
    address: str,
    once: bool,
    dry_run: bool,
    log_form: Any,
    log_level: str,
) -> None:
    """Publish the true attach limits of this node, and keep them true.

    Asks the CSI drivers registered with the kubelet, corrects what they say by what the machine
    has, and publishes the result on the node. docs/node-agent.md says who reads it.

    \b
    Examples:
      tonnage node-agent --node-name worker-1 --once --dry-run
      tonnage node-agent --node-name worker-1 --override ebs.csi.aws.com=20
      tonnage node-agent uninstall --dry-run
    """
    if ctx.invoked_subcommand is not None:
        return
    if not node_name:
        raise InputError("--node-name is missing, and so is NODE_NAME: which node is this?")
    import asyncio

    from tonnage.cluster import config as access_config
    from tonnage.objects import limitkeys
    from tonnage.service import logs, running
    from tonnage.service.configfile import ConfigFile

    try:
        from tonnage.nodeagent.config import Config
        from tonnage.nodeagent.program import Settings
    except ImportError as error:
        raise InputError(
            f"node-agent needs the package {error.name}: install tonnage[grpc]"
        ) from error

    given: dict[str, object] = {
        "overrides": overrides,
        "reserved": reserved,
        "writeCSINode": write_csinode,
        "publishIntree": publish_intree,
    }
    config = ConfigFile(
        Path(config_file) if config_file is not None else None,
        Config,
        given={name: value for name, value in given.items() if value is not None},
    )
    access = access_config.find(environ=os.environ, kubeconfig_file=kubeconfig, context=context)
    settings = Settings(
        node_name=node_name,
        kubelet_dir=Path(kubelet_dir),
        host_root=Path(host_root),
        address=address,
        env_max=limitkeys.max_from_environment(os.environ.get("KUBE_MAX_PD_VOLS")),
        dry_run=dry_run,
        once=once,
    )
    logs.set_up(form=log_form, level=log_level)
    asyncio.run(running.until_signalled(lambda: _run(access, config, settings)))


async def _run(access: "Access", config: "ConfigFile[Config]", settings: "Settings") -> None:
    import random

    from tonnage.clock import SystemClock
    from tonnage.nodeagent.program import Program

    async def work(client: "Client") -> None:
        program = Program(
            client,
            config=config,
            settings=settings,
            clock=SystemClock(),
            rng=random.Random(),
            new_id=lambda: uuid.uuid4().hex[:16],
        )
        await program.run()
        if settings.once:
            _print(program.agent.document())

    await _with_client(access, work, read_only=settings.dry_run)


@node_agent.command()
@click.option("--node-name", metavar="NAME", help="Only this node; all of them by default.")
@_reaching
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def uninstall(
    node_name: str | None, kubeconfig: str | None, context: str | None, dry_run: bool
) -> None:
    """Remove what the agents have published, from one node or all.

    Keys of limits and the annotation go; counts of CSINodes that an agent wrote are put back to
    what they were. Remove the agents first, or they publish again.

    \b
    Examples:
      tonnage node-agent uninstall --dry-run
      tonnage node-agent uninstall --node-name worker-1
    """
    import asyncio

    from tonnage.cluster import config as access_config
    from tonnage.nodeagent import removal

    access = access_config.find(environ=os.environ, kubeconfig_file=kubeconfig, context=context)

    async def work(client: "Client") -> None:
        found = False
        async for one in removal.remove(client, node=node_name or "", dry_run=dry_run):
            found = True
            parts = [*one.keys, *(f"count of {driver} in the CSINode" for driver in one.csinode)]
            verb = "would remove" if dry_run else "removed"
            click.echo(f"{one.node}: {verb} {', '.join(parts) or 'the annotation'}")
        if not found:
            click.echo("nothing is published")

    asyncio.run(_with_client(access, work, read_only=dry_run))


async def _with_client(
    access: "Access", work: Callable[["Client"], Any], *, read_only: bool
) -> None:
    import random

    from tonnage.clock import SystemClock
    from tonnage.cluster.client import Client
    from tonnage.cluster.http import HttpTransport
    from tonnage.service.readonly import ReadOnlyTransport

    clock = SystemClock()
    transport = HttpTransport(access, clock=clock, environ=os.environ)
    try:
        way = ReadOnlyTransport(transport) if read_only else transport
        await work(Client(way, clock=clock, rng=random.Random()))
    finally:
        await transport.close()


def _print(document: dict[str, Any]) -> None:
    import json

    click.echo(json.dumps(document, indent=2))
