"""`tonnage capacity-templates`: capacity objects for nodes that do not exist yet."""

import os
import socket
import uuid
from typing import TYPE_CHECKING, Any

import click

from tonnage.errors import InputError

if TYPE_CHECKING:
    import random

    from tonnage.autoscaler.world import World
    from tonnage.capacity.program import Beside, Settings
    from tonnage.clock import Clock
    from tonnage.cluster.client import Client
    from tonnage.providers.protocol import Provider

INSTANCE_TYPE = "node.kubernetes.io/instance-type"

label_option = click.option(
    "--capacity-template-node-group-label",
    "group_labels",
    metavar="KEY[,KEY...]",
    multiple=True,
    default=(INSTANCE_TYPE,),
    show_default=True,
    help="Nodes with the same values of these labels are a group; repeatable.",
)


@click.command("capacity-templates")
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster, if not from inside.")
@click.option("--context", metavar="NAME", help="Which context of the kubeconfig.")
@click.option(
    "--namespace",
    default="kube-system",
    show_default=True,
    help="Where the objects are published, and the lease is kept.",
)
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
    help="The same from a ConfigMap of the namespace.",
)
@click.option(
    "--compatibility",
    type=click.Choice(["none", "local-csi-driver"]),
    default="none",
    show_default=True,
    help="Annotation, labels and names of the controller in Azure's local-csi-driver, to take its "
    "place.",
)
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
    default=20.0,
    show_default=True,
    help="Objects written per second.",
)
@click.option(
    "--kube-api-burst",
    "burst",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Objects written at once.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    default=":8085",
    show_default=True,
    help="Where health, metrics and status are served.",
)
@click.option(
    "--leader-elect/--no-leader-elect", default=True, show_default=True, help="Act only as leader."
)
@click.option(
    "--leader-elect-resource-name",
    "lease_name",
    metavar="NAME",
    default="tonnage-capacity-templates",
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
def capacity_templates(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
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
    address: str,
    leader_elect: bool,
    lease_name: str,
    log_form: Any,
    log_level: str,
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
    import asyncio

    from tonnage.capacity import conventions, grouping
    from tonnage.capacity.desired import Rules
    from tonnage.capacity.program import Settings
    from tonnage.capacity.sources import FileGroups
    from tonnage.capacity.sync import Pace
    from tonnage.capacity.writing import Rate
    from tonnage.cluster import config as access_config
    from tonnage.scaleup import durations
    from tonnage.service import logs, running

    resync = durations.seconds(resync_interval)
    if resync is None or resync < 1:
        raise InputError(f"--resync-interval {resync_interval!r}: expected 1s or more, such as 5m")
    if node_groups and node_groups_configmap:
        raise InputError("expected either --node-groups or --node-groups-configmap, not both")
    settings = Settings(
        rules=Rules(
            namespace=namespace,
            groupings=grouping.parse(group_labels),
            convention=conventions.BY_NAME[compatibility],
        ),
        identity=_identity(),
        address=address,
        leader_elect=leader_elect,
        lease_name=lease_name,
        rate=Rate(per_second=per_second, burst=burst),
        pace=Pace(resync=resync),
        node_groups_configmap=node_groups_configmap or "",
        dry_run=dry_run,
        once=once,
    )
    files = FileGroups(node_groups) if node_groups else None
    access = access_config.find(environ=os.environ, kubeconfig_file=kubeconfig, context=context)
    logs.set_up(form=log_form, level=log_level)

    async def main() -> None:
        await _main(access, settings, files, uninstall=uninstall)

    asyncio.run(running.until_signalled(main))


async def _main(access: Any, settings: "Settings", files: Any, *, uninstall: bool) -> None:
    import random

    from tonnage.capacity import program
    from tonnage.clock import SystemClock
    from tonnage.cluster.client import Client
    from tonnage.cluster.http import HttpTransport
    from tonnage.service.readonly import ReadOnlyTransport

    clock = SystemClock()
    rng = random.Random()
    transport = HttpTransport(access, clock=clock, environ=os.environ)
    try:
        way = ReadOnlyTransport(transport) if settings.dry_run else transport
        client = Client(way, clock=clock, rng=rng)
        if uninstall:
            deleted = await program.uninstall(client, settings, clock=clock, rng=rng)
            click.echo(f"{deleted} objects deleted from namespace {settings.rules.namespace}")
            return
        await program.Program(
            client, settings=settings, files=files, clock=clock, rng=rng, new_id=_new_id
        ).run()
    finally:
        await transport.close()


class BesideTheLoop:
    """`--enable-capacity-template` of `tonnage run`: the controller on the caches of the loop."""

    def __init__(
        self, *, namespace: str, group_labels: tuple[str, ...], leader_elect: bool
    ) -> None:
        import asyncio

        from tonnage.capacity import grouping
        from tonnage.capacity.desired import Rules
        from tonnage.capacity.program import Settings

        self._settings = Settings(
            rules=Rules(namespace=namespace, groupings=grouping.parse(group_labels)),
            identity=_identity(),
            leader_elect=leader_elect,
        )
        self._controller: Beside | None = None
        self._attached = asyncio.Event()

    def attach(
        self,
        client: "Client",
        world: "World",
        provider: "Provider",
        *,
        clock: "Clock",
        rng: "random.Random",
        dry_run: bool,
    ) -> None:
        """Before the caches of the loop are filled."""
        import msgspec

        from tonnage.capacity import sources
        from tonnage.capacity.program import Beside
        from tonnage.capacity.sync import Caches
        from tonnage.objects.nodes import Node
        from tonnage.objects.storage import CSIDriver, CSIStorageCapacity, StorageClass

        self._controller = Beside(
            client,
            Caches(
                classes=world.cache(StorageClass),
                nodes=world.cache(Node),
                drivers=world.cache(CSIDriver),
                capacities=world.cache(CSIStorageCapacity),
            ),
            sources.from_provider(provider),
            settings=msgspec.structs.replace(self._settings, dry_run=dry_run),
            clock=clock,
            rng=rng,
            new_id=_new_id,
        )
        self._attached.set()

    async def run(self) -> None:
        """Until cancelled."""
        await self._attached.wait()
        assert self._controller is not None
        await self._controller.run()


def _identity() -> str:
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


def _new_id() -> str:
    return uuid.uuid4().hex[:16]
