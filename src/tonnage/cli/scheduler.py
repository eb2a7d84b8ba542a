"""`tonnage scheduler`: a scheduler that knows attach slots, beside kube-scheduler."""

import click

from tonnage.cli import services
from tonnage.errors import InputError


@click.command()
@click.option(
    "--scheduler-name",
    metavar="NAME",
    default="tonnage",
    show_default=True,
    help="Pods whose spec.schedulerName is this are scheduled, and no others.",
)
@services.config_option("docs/scheduler.md")
@services.schema_option("tonnage.scheduler.config:SchedulerConfig")
@services.cluster_options
@services.namespace_option("Where the lease is kept.")
@services.address_option(":10269")
@services.leader_options("tonnage-scheduler")
@services.logging_options
@services.pass_service
def scheduler(service: services.ServiceOptions, scheduler_name: str) -> None:
    """Schedule pods on nodes that can attach their volumes.

    A complete scheduler for the pods that name it in spec.schedulerName: the filters of
    kube-scheduler, with the opt-in of CSI drivers on every version of Kubernetes. Several replicas
    may run; one of them leads. All other pods stay with kube-scheduler.

    \b
    Examples:
      tonnage scheduler --scheduler-name tonnage
      tonnage scheduler --kubeconfig ~/.kube/config --config scheduler.yaml
      tonnage scheduler --config-schema > scheduler.schema.json
    """
    from tonnage.scheduler import program
    from tonnage.scheduler.config import SchedulerConfig

    if scheduler_name in ("", "default-scheduler"):
        raise InputError(
            f"--scheduler-name {scheduler_name!r}: expected a name of its own; two schedulers must"
            " not look after the same pods"
        )
    config = service.config(SchedulerConfig)
    settings = program.SchedulerSettings(
        scheduler_name=scheduler_name,
        namespace=service.namespace,
        identity=service.identity,
        address=service.address,
        lease_name=service.lease_name,
        leader_elect=service.leader_elect,
    )
    service.run(
        lambda cluster: program.start(
            cluster.client,
            config=config,
            settings=settings,
            clock=cluster.clock,
            rng=cluster.rng,
            new_id=services.new_id,
        )
    )
