"""`tonnage run`: the autoscaler on a live cluster."""

from functools import partial
from typing import TYPE_CHECKING

import click

from tonnage.cli import run_providers, services, upstream_flags
from tonnage.cli.capacity_templates import compatibility_option, label_option, settings_of
from tonnage.cli.cluster_source import gates_of, node_groups_option
from tonnage.cli.run_providers import ProviderOptions
from tonnage.cli.upstream_flags import UpstreamFlags
from tonnage.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from tonnage.autoscaler.config import AutoscalerConfig
    from tonnage.autoscaler.program import AutoscalerProgram, AutoscalerSettings
    from tonnage.autoscaler.world import ClusterView
    from tonnage.capacity.program import CapacityController, CapacitySettings
    from tonnage.providers.protocol import Provider
    from tonnage.service.certificates import Certificates
    from tonnage.service.config_file import ConfigFile
    from tonnage.service.connections import Connection


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


@click.command(cls=UpstreamFlags)
@services.config_option("docs/configuration.md")
@services.schema_option("tonnage.autoscaler.config:AutoscalerConfig")
@services.cluster_options
@click.option(
    "--provider",
    "--cloud-provider",
    type=click.Choice(list(run_providers.NAMES)),
    help="Who makes nodes: clusterapi, aws and externalgrpc make machines; kwok makes objects "
    "without machines, for trying; declarative only counts, for dry runs; none has no node groups. "
    " [default: none]",
)
@node_groups_option("NodeGroup manifests, for kwok and declarative")
@click.option(
    "--node-groups-configmap",
    metavar="NAME",
    help="The same from a ConfigMap of --namespace, read again and again.",
)
@click.option(
    "--cloud-config",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="What the provider has to know besides: how to reach its server, for externalgrpc; the "
    "kubeconfig of the management cluster, for clusterapi; the region, for aws.",
)
@services.switch(
    "--clusterapi-cloud-config-authoritative",
    "manages_itself",
    default=False,
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
    help="Bounds of a node group in place of its own, such as 0:20:databases; repeatable.",
)
@services.namespace_option("Where lease, status and state are kept.")
@services.address_option(":8085")
@services.debug_address_option("decisions, for tonnage why, and the snapshot are")
@click.option(
    "--board-address",
    type=services.Address(),
    help="Where the board is served, such as 127.0.0.1:8087; anywhere but on loopback with the "
    "certificates below.  [default: nowhere]",
)
@services.board_certificate_options("--board-")
@click.option("--dry-run", is_flag=True, help="Decide and report, and change nothing at all.")
@click.option("--once", is_flag=True, help="Look and decide once, and end.")
@services.leader_options("cluster-autoscaler")
@services.logging_options
@click.option(
    "--expander",
    metavar="NAME[,NAME...]",
    help="How to choose between node groups, such as price,least-waste; overrides expander of "
    "--config.",
)
@click.option(
    "--scan-interval",
    metavar="DURATION",
    help="Time between two rounds when nothing happens, such as 10s; overrides scanInterval of "
    "--config.",
)
@click.option(
    "--max-nodes-total",
    type=click.IntRange(min=0),
    metavar="N",
    help="Nodes the cluster may have, 0 for any number; overrides maxNodesTotal of --config.",
)
@services.switch(
    "--balance-similar-node-groups",
    "balance",
    help="Split a purchase between groups whose nodes are alike; overrides "
    "balanceSimilarNodeGroups of --config.",
)
@services.switch(
    "--enable-csi-node-aware-scheduling",
    "csi_aware",
    help="Count attach slots on nodes that do not exist yet; overrides csiAware of --config.",
)
@click.option(
    "--feature-gates",
    metavar="NAME=BOOL,...",
    multiple=True,
    callback=gates_of,
    help="Feature gates of the cluster's scheduler; overrides featureGates of --config.",
)
@click.option(
    "--enable-capacity-template",
    "capacity_template",
    is_flag=True,
    help="Also do what tonnage capacity-templates does, for the node groups of the provider.",
)
@label_option
@compatibility_option
@services.pass_service
def run(
    service: services.ServiceOptions,
    provider: str | None,
    node_groups: tuple[str, ...],
    node_groups_configmap: str | None,
    cloud_config: str | None,
    manages_itself: bool,
    discovery: tuple[str, ...],
    nodes: dict[str, tuple[int, int]],
    board_address: str | None,
    certificates: "Certificates | None",
    dry_run: bool,
    once: bool,
    expander: str | None,
    scan_interval: str | None,
    max_nodes_total: int | None,
    balance: bool | None,
    csi_aware: bool | None,
    feature_gates: dict[str, bool],
    capacity_template: bool,
    group_labels: tuple[str, ...],
    compatibility: str,
) -> None:
    """Run the autoscaler on a live cluster.

    Watches pods that find no node, decides which node groups to grow, and asks the provider for
    nodes. Several replicas may run; one of them leads. With --dry-run it only says what it would
    do, in its log and at /status; with --once as well, it looks once, says so and ends.
    cluster-autoscaler's flags are taken as well: docs/cluster-autoscaler-flags.md says what each
    comes to.

    \b
    Examples:
      tonnage run --dry-run --once --provider declarative --node-groups groups.yaml
      tonnage run --provider clusterapi --config autoscaler.yaml
      tonnage run --provider kwok --node-groups-configmap node-groups
      tonnage run --config-schema > autoscaler.schema.json
    """
    from tonnage.autoscaler.config import AutoscalerConfig
    from tonnage.autoscaler.program import AutoscalerSettings

    config = service.config(
        AutoscalerConfig,
        {
            **upstream_flags.settings(click.get_current_context()),
            **_given(
                expander=expander,
                scanInterval=scan_interval,
                maxNodesTotal=max_nodes_total,
                balanceSimilarNodeGroups=balance,
                csiAware=csi_aware,
                featureGates=feature_gates or None,
            ),
        },
    )
    wanted = ProviderOptions(
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
    if board_address and once:
        raise InputError("--board-address serves for as long as it runs: not --once")
    if certificates is not None and not board_address:
        raise InputError("--board-tls-cert-file: expected --board-address beside it")
    if compatibility != "none" and not capacity_template:
        raise InputError(
            "--compatibility is about published capacity: expected --enable-capacity-template too"
        )
    settings = AutoscalerSettings(
        namespace=service.namespace,
        identity=service.identity,
        address=service.address,
        debug_address=service.debug_address,
        lease_name=service.lease_name,
        leader_elect=service.leader_elect,
        dry_run=dry_run,
        once=once,
    )
    templates, board = None, None
    if capacity_template:
        templates = settings_of(service, group_labels, compatibility, dry_run=dry_run)
    if board_address:
        from tonnage.board import server

        server.check(board_address, certificates, option="--board-address")
        board = partial(
            server.beside_autoscaler,
            address=board_address,
            title="Tonnage",
            certificates=certificates,
        )
    service.run(
        lambda cluster: _run(cluster, settings, config, make, templates, board), read_only=dry_run
    )


def _given(**settings: object) -> dict[str, object]:
    return {name: value for name, value in settings.items() if value is not None}


async def _run(
    cluster: "Connection",
    settings: "AutoscalerSettings",
    config: "ConfigFile[AutoscalerConfig]",
    make: run_providers.Maker,
    templates: "CapacitySettings | None",
    board: "Callable[..., AbstractAsyncContextManager[object]] | None",
) -> None:
    from contextlib import AsyncExitStack, asynccontextmanager

    from tonnage.autoscaler import program
    from tonnage.service import lifecycle

    client, clock, rng = cluster
    controllers: list[CapacityController] = []

    @asynccontextmanager
    async def beside(running: "AutoscalerProgram") -> "AsyncIterator[None]":
        async with lifecycle.beside(*(one.run() for one in controllers)), AsyncExitStack() as stack:
            if board is not None:
                await stack.enter_async_context(board(running, clock=clock))
            yield

    async with AsyncExitStack() as closing:

        def provider(world: "ClusterView") -> "Provider":
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
                controllers.append(_publisher(cluster, world, made, templates))
            return made

        await program.start(
            client,
            provider,
            config=config,
            settings=settings,
            clock=clock,
            rng=rng,
            new_id=services.new_id,
            beside=beside,
        )


def _publisher(
    cluster: "Connection",
    world: "ClusterView",
    provider: "Provider",
    settings: "CapacitySettings",
) -> "CapacityController":
    """`--enable-capacity-template`: the controller on the caches of the loop."""
    from tonnage.capacity import sources
    from tonnage.capacity.program import CapacityController
    from tonnage.capacity.sync import Caches

    return CapacityController(
        cluster.client,
        Caches.of(world.cache),
        sources.from_provider(provider),
        settings=settings,
        clock=cluster.clock,
        rng=cluster.rng,
        new_id=services.new_id,
    )
