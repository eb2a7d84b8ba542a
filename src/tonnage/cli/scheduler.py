"""`tonnage scheduler`: a scheduler that knows attach slots, beside kube-scheduler."""

import os
import socket
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.scheduler.program import Settings


def _print_schema(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    import msgspec

    from tonnage.scheduler.config import SchedulerConfig

    schema = msgspec.json.encode(msgspec.json.schema(SchedulerConfig))
    click.echo(msgspec.json.format(schema, indent=2).decode())
    ctx.exit()


@click.command()
@click.option(
    "--scheduler-name",
    metavar="NAME",
    default="tonnage",
    show_default=True,
    help="Pods whose spec.schedulerName is this are scheduled, and no others.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Settings in YAML, read again when the file changes; docs/scheduler.md lists them.",
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
    "--namespace", default="kube-system", show_default=True, help="Where the lease is kept."
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    default=":10269",
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
    default="tonnage-scheduler",
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
def scheduler(
    scheduler_name: str,
    config_file: str | None,
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    address: str,
    leader_elect: bool,
    lease_name: str,
    log_form: Any,
    log_level: str,
) -> None:
    """Schedule pods on nodes that can attach their volumes.

    A complete scheduler for the pods that name it in spec.schedulerName: the filters of
    kube-scheduler, with the opt-in of CSI drivers on every version of Kubernetes. Several replicas
    may run; one of them leads. All other pods stay with kube-scheduler.

    \b
    Examples:
      tonnage scheduler --scheduler-name tonnage
      tonnage scheduler --kubeconfig ~/.kube/config --config scheduler.yaml
    """
    import asyncio

    from tonnage.cluster import config as access_config
    from tonnage.scheduler.config import SchedulerConfig
    from tonnage.scheduler.program import Settings
    from tonnage.service import logs, running
    from tonnage.service.configfile import ConfigFile

    if scheduler_name in ("", "default-scheduler"):
        raise InputError(
            f"--scheduler-name {scheduler_name!r}: expected a name of its own; two schedulers must"
            " not look after the same pods"
        )
    config = ConfigFile(Path(config_file) if config_file is not None else None, SchedulerConfig)
    access = access_config.find(environ=os.environ, kubeconfig_file=kubeconfig, context=context)
    settings = Settings(
        scheduler_name=scheduler_name,
        namespace=namespace,
        identity=f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}",
        address=address,
        lease_name=lease_name,
        leader_elect=leader_elect,
    )
    logs.set_up(form=log_form, level=log_level)
    asyncio.run(running.until_signalled(lambda: _main(access, settings, config)))


async def _main(access: Any, settings: "Settings", config: Any) -> None:
    import random

    from tonnage.clock import SystemClock
    from tonnage.cluster.client import Client
    from tonnage.cluster.http import HttpTransport
    from tonnage.scheduler import program

    clock = SystemClock()
    rng = random.Random()
    transport = HttpTransport(access, clock=clock, environ=os.environ)
    try:
        await program.start(
            Client(transport, clock=clock, rng=rng),
            config=config,
            settings=settings,
            clock=clock,
            rng=rng,
            new_id=lambda: uuid.uuid4().hex[:16],
        )
    finally:
        await transport.close()
