"""`tonnage run`: the autoscaler on a live cluster."""

import os
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tonnage.cli import run_providers
from tonnage.cli.capacity_templates import BesideTheLoop, label_option
from tonnage.cli.reading import gates_of
from tonnage.cli.run_providers import Wanted
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.autoscaler.program import Settings
    from tonnage.autoscaler.world import World
    from tonnage.providers.protocol import Provider


_Command = TypeVar("_Command", bound=Callable[..., Any])


def _sizes(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[int, int]]:
    sizes = {}
    for value in values:
        least, _, rest = value.partition(":")
        most, _, name = rest.partition(":")
        if not (least.isdigit() and most.isdigit() and name and int(least) <= int(most)):
            message = f"{value!r}: expected MIN:MAX:NAME"
            raise click.BadParameter(message, ctx=ctx, param=param)
        sizes[name] = (int(least), int(most))
    return sizes


def _switch(
    flag: str, name: str, *, default: bool | None = None, help: str
) -> Callable[[_Command], _Command]:
    """A flag as Go programs take it: `--flag` and `--flag=false`."""
    return click.option(
        flag,
        name,
        type=bool,
        is_flag=False,
        flag_value=True,
        default=default,
        show_default=default is not None,
        metavar="[=BOOL]",
        help=help,
    )


def _print_schema(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    import msgspec

    from tonnage.autoscaler.config import Config

    schema = msgspec.json.encode(msgspec.json.schema(Config))
    click.echo(msgspec.json.format(schema, indent=2).decode())
    ctx.exit()


@click.command()
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Settings in YAML, read again when the file changes; docs/configuration.md lists them.",
)
@click.option(
    "--config-schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON schema of the configuration file, and end.",
)
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster, if not from inside.")
@click.option("--context", metavar="NAME", help="Which context of the kubeconfig.")
@click.option(
    "--provider",
    "--cloud-provider",
    type=click.Choice(list(run_providers.NAMES)),
    help="Who makes nodes: kwok makes objects without machines, for trying; declarative only "
    "counts, for dry runs; none has no node groups.  [default: none]",
)
@click.option(
    "--node-groups",
    metavar="FILE",
    multiple=True,
    help="NodeGroup manifests; repeatable.",
)
@click.option(
    "--node-groups-configmap",
    metavar="NAME",
    help="A ConfigMap with NodeGroup manifests, in the namespace of the autoscaler.",
)
@click.option(
    "--cloud-config",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="What the provider has to know beside: how to reach its server, for externalgrpc; the "
    "kubeconfig of the management cluster, for clusterapi.",
)
@click.option(
    "--clusterapi-cloud-config-authoritative",
    "manages_itself",
    is_flag=True,
    help="Without --cloud-config, the management cluster is the one that runs this.",
)
@click.option(
    "--node-group-auto-discovery",
    "discovery",
    metavar="PROVIDER:KEY=VALUE,...",
    multiple=True,
    help="Which node groups are ours, for providers that have many; repeatable.",
)
@click.option(
    "--nodes",
    metavar="MIN:MAX:NAME",
    multiple=True,
    callback=_sizes,
    help="Other bounds for a node group; repeatable.",
)
@click.option(
    "--namespace",
    default="kube-system",
    show_default=True,
    help="Where lease, status and state are kept.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    default=":8085",
    show_default=True,
    help="Where health, metrics and status are served.",
)
@click.option("--dry-run", is_flag=True, help="Decide and report, and change nothing at all.")
@click.option("--once", is_flag=True, help="End after one decision.")
@_switch("--leader-elect", "leader_elect", default=True, help="Act only as leader.")
@click.option(
    "--leader-elect-resource-name",
    "lease_name",
    metavar="NAME",
    default="cluster-autoscaler",
    show_default=True,
    help="The Lease that the leader holds.",
)
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
@click.option("--expander", metavar="NAME[,NAME...]", help="Goes before expander of the file.")
@click.option(
    "--scan-interval", metavar="DURATION", help="Such as 10s; goes before scanInterval of the file."
)
@click.option(
    "--max-nodes-total",
    type=click.IntRange(min=0),
    help="Goes before maxNodesTotal of the file; 0 is any number.",
)
@_switch(
    "--balance-similar-node-groups",
    "balance",
    help="Goes before balanceSimilarNodeGroups of the file.",
)
@_switch(
    "--enable-csi-node-aware-scheduling",
    "csi_aware",
    help="Goes before csiAware of the file.",
)
@click.option(
    "--feature-gates",
    metavar="NAME=BOOL,...",
    multiple=True,
    callback=gates_of,
    help="Gates of the cluster's scheduler; goes before featureGates of the file.",
)
@click.option(
    "--enable-capacity-template",
    "capacity_template",
    is_flag=True,
    help="Also do what tonnage capacity-templates does, for the node groups of the provider.",
)
@label_option
def run(
    config_file: str | None,
    kubeconfig: str | None,
    context: str | None,
    provider: str | None,
    node_groups: tuple[str, ...],
    node_groups_configmap: str | None,
    cloud_config: str | None,
    manages_itself: bool,
    discovery: tuple[str, ...],
    nodes: dict[str, tuple[int, int]],
    namespace: str,
    address: str,
    dry_run: bool,
    once: bool,
    leader_elect: bool,
    lease_name: str,
    log_form: Any,
    log_level: str,
    expander: str | None,
    scan_interval: str | None,
    max_nodes_total: int | None,
    balance: bool | None,
    csi_aware: bool | None,
    feature_gates: dict[str, bool],
    capacity_template: bool,
    group_labels: tuple[str, ...],
) -> None:
    """Run the autoscaler on a live cluster.

    Watches pods that find no node, decides which node groups to grow, and asks the provider for
    nodes. Several replicas may run; one of them leads. With --dry-run it only says what it would
    do: in its log, at /status and, with --once, at the end.

    \b
    Examples:
      tonnage run --dry-run --once --provider declarative --node-groups groups.yaml
      tonnage run --provider clusterapi --config autoscaler.yaml
      tonnage run --provider kwok --node-groups-configmap node-groups
      tonnage run --config-schema > autoscaler.schema.json
    """
    import asyncio

    from tonnage.autoscaler.config import Config
    from tonnage.autoscaler.program import Settings
    from tonnage.cluster import config as access_config
    from tonnage.service import logs, running
    from tonnage.service.configfile import ConfigFile

    given: dict[str, object] = {
        "expander": expander,
        "scanInterval": scan_interval,
        "maxNodesTotal": max_nodes_total,
        "balanceSimilarNodeGroups": balance,
        "csiAware": csi_aware,
        "featureGates": feature_gates or None,
    }
    config = ConfigFile(
        Path(config_file) if config_file is not None else None,
        Config,
        given={name: value for name, value in given.items() if value is not None},
    )
    wanted = Wanted(
        provider=provider or run_providers.NONE,
        files=node_groups,
        config_map=node_groups_configmap,
        sizes=nodes,
        cloud_config=cloud_config,
        discovery=discovery,
        manages_itself=manages_itself,
    )
    make = run_providers.chosen(wanted, dry_run=dry_run)
    if capacity_template and once:
        raise InputError("--enable-capacity-template publishes for as long as it runs: not --once")
    access = access_config.find(environ=os.environ, kubeconfig_file=kubeconfig, context=context)
    settings = Settings(
        namespace=namespace,
        identity=f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}",
        address=address,
        lease_name=lease_name,
        leader_elect=leader_elect,
        dry_run=dry_run,
        once=once,
    )
    templates = (
        BesideTheLoop(namespace=namespace, group_labels=group_labels, leader_elect=leader_elect)
        if capacity_template
        else None
    )
    logs.set_up(form=log_form, level=log_level)

    async def main() -> None:
        await _main(access, settings, config, make, templates)

    asyncio.run(running.until_signalled(main))


async def _main(
    access: Any,
    settings: "Settings",
    config: Any,
    make: run_providers.Maker,
    templates: BesideTheLoop | None,
) -> None:
    import random
    from contextlib import AsyncExitStack

    from tonnage.autoscaler import program
    from tonnage.clock import SystemClock
    from tonnage.cluster.client import Client
    from tonnage.cluster.http import HttpTransport
    from tonnage.service import running
    from tonnage.service.readonly import ReadOnlyTransport

    clock = SystemClock()
    rng = random.Random()
    async with AsyncExitStack() as closing:
        transport = HttpTransport(access, clock=clock, environ=os.environ)
        closing.push_async_callback(transport.close)
        way = ReadOnlyTransport(transport) if settings.dry_run else transport
        client = Client(way, clock=clock, rng=rng)

        def provider(world: "World") -> "Provider":
            made = make(
                run_providers.Surroundings(
                    client=client,
                    world=world,
                    clock=clock,
                    rng=rng,
                    namespace=settings.namespace,
                    dry_run=settings.dry_run,
                    closing=closing,
                )
            )
            if templates is not None:
                templates.attach(
                    client, world, made, clock=clock, rng=rng, dry_run=settings.dry_run
                )
            return made

        async with running.beside(*([templates.run()] if templates is not None else [])):
            await program.start(
                client,
                provider,
                config=config,
                settings=settings,
                clock=clock,
                rng=rng,
                new_id=lambda: uuid.uuid4().hex[:16],
            )
