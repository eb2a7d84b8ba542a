"""`tonnage capacity-templates`: capacity objects for nodes that do not exist yet."""

from typing import TYPE_CHECKING, Any

import click

from tonnage.cli import console, services
from tonnage.errors import InputError
from tonnage.objects.labels import INSTANCE_TYPE

if TYPE_CHECKING:
    from tonnage.capacity.program import CapacitySettings
    from tonnage.service.connections import Connection


label_option = click.option(
    "--capacity-template-node-group-label",
    "group_labels",
    metavar="KEY[,KEY...]",
    multiple=True,
    default=(INSTANCE_TYPE,),
    show_default=True,
    help="Nodes with the same values of these labels are a group; repeatable.",
)

compatibility_option = click.option(
    "--compatibility",
    type=click.Choice(["none", "local-csi-driver"]),
    default="none",
    show_default=True,
    help="Annotation, labels and names under which capacity is published: those of the controller "
    "in Azure's local-csi-driver, to take its place.",
)


@click.command("capacity-templates")
@services.cluster_options
@services.namespace_option("Where the objects are published, and the lease is kept.")
@label_option
@click.option(
    "--node-groups",
    metavar="FILE",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="NodeGroup manifests, for groups that have no nodes; repeatable.",
)
@click.option(
    "--node-groups-configmap",
    metavar="NAME",
    help="The same from a ConfigMap of --namespace.",
)
@compatibility_option
@click.option(
    "--uninstall", is_flag=True, help="Delete everything that was published, say how much, and end."
)
@click.option("--dry-run", is_flag=True, help="Say in the log what would be done, and do nothing.")
@click.option("--once", is_flag=True, help="End after one look.")
@click.option(
    "--resync-interval",
    metavar="DURATION",
    default="5m",
    show_default=True,
    help="Look at everything at least so often.",
)
@click.option(
    "--kube-api-qps",
    "per_second",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    default=20.0,
    show_default=True,
    help="Objects written per second.",
)
@click.option(
    "--kube-api-burst",
    "burst",
    type=click.IntRange(min=1),
    metavar="N",
    default=50,
    show_default=True,
    help="Objects written at once.",
)
@services.address_option(":8085")
@services.leader_options("tonnage-capacity-templates")
@services.logging_options
@services.pass_service
def capacity_templates(
    service: services.ServiceOptions,
    group_labels: tuple[str, ...],
    node_groups: tuple[str, ...],
    node_groups_configmap: str | None,
    compatibility: str,
    uninstall: bool,
    dry_run: bool,
    once: bool,
    resync_interval: str,
    per_second: float,
    burst: int,
) -> None:
    """Publish storage capacity for nodes that do not exist yet.

    For every StorageClass with the annotation tonnage.dev/template-capacity and every group of
    nodes, one CSIStorageCapacity is kept that matches only the nodes a cluster autoscaler
    imagines, so that it buys nodes for pods with local volumes.

    \b
    Examples:
      tonnage capacity-templates --dry-run --once
      tonnage capacity-templates --node-groups-configmap node-groups
      tonnage capacity-templates --compatibility local-csi-driver --uninstall
    """
    from tonnage.capacity import program
    from tonnage.capacity.sources import FileGroups
    from tonnage.capacity.step_writer import Rate
    from tonnage.capacity.sync import SyncPace
    from tonnage.objects import durations

    resync = durations.seconds(resync_interval)
    if resync is None or resync < 1:
        raise InputError(f"--resync-interval {resync_interval!r}: expected 1s or more, such as 5m")
    if node_groups and node_groups_configmap:
        raise InputError("expected either --node-groups or --node-groups-configmap, not both")
    settings = settings_of(
        service,
        group_labels,
        compatibility,
        address=service.address,
        lease_name=service.lease_name,
        rate=Rate(per_second=per_second, burst=burst),
        pace=SyncPace(resync=resync),
        node_groups_configmap=node_groups_configmap or "",
        dry_run=dry_run,
        once=once,
    )
    files = FileGroups(node_groups) if node_groups else None

    async def publish(cluster: "Connection") -> None:
        client, clock, rng = cluster
        if uninstall:
            deleted = await program.uninstall(client, settings, clock=clock, rng=rng)
            console.echo(f"{deleted} objects deleted from namespace {service.namespace}")
            return
        await program.CapacityProgram(
            client, settings=settings, files=files, clock=clock, rng=rng, new_id=services.new_id
        ).run()

    service.run(publish, read_only=dry_run)


def settings_of(
    service: services.ServiceOptions,
    group_labels: tuple[str, ...],
    compatibility: str,
    **more: Any,
) -> "CapacitySettings":
    """Those of the controller, alone or beside the autoscaler."""
    from tonnage.capacity import conventions, node_kinds
    from tonnage.capacity.program import CapacitySettings

    return CapacitySettings(
        namespace=service.namespace,
        identity=service.identity,
        leader_elect=service.leader_elect,
        groupings=node_kinds.parse(group_labels),
        convention=conventions.BY_NAME[compatibility],
        **more,
    )
