"""`tonnage rescue`: pods that hang because their node has more volumes than it can attach."""

from typing import TYPE_CHECKING

import click

from tonnage.cli import cluster_access, cluster_source, console, durations
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.cluster.client import Client
    from tonnage.doctor.evidence import Evidence
    from tonnage.doctor.rescue import Stuck


@click.command()
@cluster_source.filename_option
@cluster_access.options
@click.option(
    "--after",
    type=durations.Duration(),
    default="2m",
    show_default=True,
    help="How long a pod may take to start before it counts as stuck.",
)
@click.option("--evict", is_flag=True, help="Evict them, through the eviction API.")
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    metavar="N",
    default=5,
    show_default=True,
    help="Evict at most so many.",
)
@console.output_option
def rescue(
    filenames: tuple[str, ...],
    live: cluster_access.ClusterChoice,
    after: float,
    evict: bool,
    budget: int,
    form: console.Format,
) -> None:
    """Find pods stuck in ContainerCreating because their node is over its attach limit.

    Without --evict they are only shown. With it, as many as bring each node down to its limit are
    evicted, those with the youngest claim first and the oldest last. What schedules them again
    should know better: see tonnage extender.

    \b
    Examples:
      tonnage rescue
      tonnage rescue --evict --budget 2
      tonnage rescue -f cluster.json -o json
    """
    from tonnage.cli.doctor import gathered
    from tonnage.doctor import rescue as rescuing

    if evict and filenames:
        raise InputError("--evict needs a live cluster; -f reads files")
    evidence = gathered(filenames, live)
    stuck = rescuing.find(evidence, after=after)
    _print(stuck, form)
    if evict and any(one.surplus for one in stuck):
        _evict(evidence, stuck, live, budget=budget)


def _print(stuck: "list[Stuck]", form: console.Format) -> None:
    if form in ("json", "yaml"):
        rows = [
            {
                "pod": one.pod,
                "node": one.node,
                "driver": one.driver,
                "volumes": one.volumes,
                "waitedSeconds": round(one.waited) if one.waited != float("inf") else None,
                "surplus": one.surplus,
            }
            for one in stuck
        ]
        console.print_document("StuckPodList", form=form, pods=rows)
        return
    if not stuck:
        console.echo("No pod is stuck for want of an attach slot.")
        return
    console.print_table(
        ["POD", "NODE", "DRIVER", "VOLUMES", "WAITED", "TO EVICT"],
        [
            [
                one.pod,
                one.node,
                one.driver,
                str(one.volumes),
                f"{one.waited:.0f} s" if one.waited != float("inf") else "unknown",
                "yes" if one.surplus else "no",
            ]
            for one in stuck
        ],
    )


def _evict(
    evidence: "Evidence",
    stuck: "list[Stuck]",
    live: cluster_access.ClusterChoice,
    *,
    budget: int,
) -> None:
    from tonnage.doctor import rescue as rescuing
    from tonnage.objects.pods import Pod

    async def evicting(client: "Client") -> None:
        await rescuing.evict(client, stuck, evidence.of(Pod), budget=budget, tell=console.note)

    cluster_access.talk(evicting, live)
