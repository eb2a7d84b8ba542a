"""`tonnage node-agent`: the true attach limits of one node, published on it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli import cluster_access, console, services
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.cluster.client import Client
    from tonnage.service.connections import Connection


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


@click.group(invoke_without_command=True)
@click.option(
    "--node-name",
    metavar="NAME",
    envvar="NODE_NAME",
    show_envvar=True,
    help="The node this runs on.",
)
@services.config_option("docs/node-agent.md")
@services.cluster_options
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
    help="Where the file system of the host is mounted; its sys and proc are read.",
)
@click.option(
    "--override",
    "overrides",
    metavar="DRIVER=COUNT",
    multiple=True,
    callback=_counts,
    help="The limit of a driver, whatever anybody says; overrides overrides of --config; "
    "repeatable.",
)
@click.option(
    "--reserved",
    metavar="DRIVER=COUNT",
    multiple=True,
    callback=_counts,
    help="Slots of a driver to keep free; overrides reserved of --config; repeatable.",
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
@services.address_option(":8087")
@click.option("--once", is_flag=True, help="Look and publish once, print it, and end.")
@click.option("--dry-run", is_flag=True, help="Look and report, and change nothing at all.")
@services.logging_options
@services.pass_service
@click.pass_context
def node_agent(
    ctx: click.Context,
    service: services.ServiceOptions,
    node_name: str | None,
    kubelet_dir: str,
    host_root: str,
    overrides: dict[str, int] | None,
    reserved: dict[str, int] | None,
    write_csinode: bool | None,
    publish_intree: bool | None,
    once: bool,
    dry_run: bool,
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
    from tonnage.objects import limit_keys

    try:
        from tonnage.nodeagent.config import NodeAgentConfig, NodeAgentSettings
        from tonnage.nodeagent.program import NodeAgentProgram
    except ImportError as error:
        raise InputError(
            f"node-agent needs the package {error.name}: install tonnage[grpc]"
        ) from error

    config = service.config(
        NodeAgentConfig,
        {
            "overrides": overrides,
            "reserved": reserved,
            "writeCSINode": write_csinode,
            "publishIntree": publish_intree,
        },
    )
    settings = NodeAgentSettings(
        node_name=node_name,
        kubelet_dir=Path(kubelet_dir),
        host_root=Path(host_root),
        address=service.address,
        env_max=limit_keys.max_from_environment(os.environ.get("KUBE_MAX_PD_VOLS")),
        dry_run=dry_run,
        once=once,
    )

    async def publish(cluster: "Connection") -> None:
        program = NodeAgentProgram(
            cluster.client,
            config=config,
            settings=settings,
            clock=cluster.clock,
            rng=cluster.rng,
            new_id=services.new_id,
        )
        await program.run()
        if once:
            import json

            console.print_json(json.dumps(program.agent.document(), indent=2))

    service.run(publish, read_only=dry_run)


@node_agent.command()
@click.option("--node-name", metavar="NAME", help="Only this node; all of them by default.")
@services.cluster_options
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@services.pass_service
def uninstall(service: services.ServiceOptions, node_name: str | None, dry_run: bool) -> None:
    """Remove what the agents have published, from one node or all.

    Keys of limits and the annotation go; counts of CSINodes that an agent wrote are put back to
    what they were. Remove the agents first, or they publish again.

    \b
    Examples:
      tonnage node-agent uninstall --dry-run
      tonnage node-agent uninstall --node-name worker-1
    """
    from tonnage.nodeagent import removal

    async def remove(client: "Client") -> None:
        found = False
        async for one in removal.remove(client, node=node_name or "", dry_run=dry_run):
            found = True
            parts = [*one.keys, *(f"count of {driver} in the CSINode" for driver in one.csinode)]
            verb = "would remove" if dry_run else "removed"
            console.echo(f"{one.node}: {verb} {', '.join(parts) or 'the annotation'}")
        if not found:
            console.echo("nothing is published")

    cluster_access.talk(remove, service.live, read_only=dry_run)
