"""The options of every command that makes plans."""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli import cluster_source, console, durations

if TYPE_CHECKING:
    from tonnage.api import Cluster
    from tonnage.files import Loaded


def _time(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    from tonnage.objects import timestamps

    if value is None:
        return None
    try:
        return timestamps.parse(value)
    except timestamps.TimestampError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from None


now_option = click.option(
    "--now",
    metavar="TIME",
    callback=_time,
    help="When the manifests were taken, as in 2026-01-31T12:00:00Z.  [default: now]",
)


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a decision, and as `settings` what they say.

    Settings have the names of the options in a Scenario; only what was given is in them.
    """

    @click.option(
        "--expander",
        metavar="NAME[,NAME...]",
        help="How to choose between groups: least-waste, most-pods, least-nodes, price, priority, "
        "random, grpc; or several, in order; or least-cost, over all groups together.  "
        "[default: least-waste]",
    )
    @click.option(
        "--optimise",
        "optimise_seconds",
        type=durations.Duration(),
        metavar="SECONDS",
        help="Look for the least cost over all groups for so long (the expander least-cost).",
    )
    @click.option(
        "--balance/--no-balance",
        "balance",
        default=None,
        help="Split a purchase between similar groups.  [default: no]",
    )
    @click.option(
        "--csi-aware/--no-csi-aware",
        "csi_aware",
        default=None,
        help="Count attach slots on nodes that do not exist yet.  [default: yes]",
    )
    @cluster_source.enforcement_option
    @click.option(
        "--max-nodes-total",
        type=click.IntRange(min=0),
        metavar="N",
        help="Nodes the cluster may have; 0 is no limit.",
    )
    @click.option(
        "--priorities",
        metavar="FILE",
        help="For the priority expander: cluster-autoscaler's ConfigMap, or its priorities.",
    )
    @click.option(
        "--time-budget",
        type=durations.Duration(),
        help="Stop after this time, such as 5s, with a partial plan; 0 is no limit.",
    )
    @click.option("--seed", type=int, metavar="N", help="Seed for random choices.")
    @console.pairs_option(
        "--option",
        "others",
        metavar="KEY=VALUE",
        help="Any option of a Scenario by its name, such as maxNodesPerScaleUp=50; repeatable.",
    )
    @functools.wraps(command)
    def settled(
        *arguments: Any,
        expander: str | None,
        optimise_seconds: float | None,
        balance: bool | None,
        csi_aware: bool | None,
        enforce_opt_in: str | None,
        max_nodes_total: int | None,
        priorities: str | None,
        time_budget: float | None,
        seed: int | None,
        others: dict[str, str],
        **options: Any,
    ) -> None:
        def read_priorities(path: str) -> dict[str, list[str]]:
            # YAML, which who gives no such file need not load.
            from tonnage.cli import plan_files

            return plan_files.read_priorities(path)

        given: dict[str, object] = {
            "expander": expander or ("least-cost" if optimise_seconds is not None else None),
            "optimiseSeconds": optimise_seconds,
            "balanceSimilarNodeGroups": balance,
            "csiAware": csi_aware,
            "enforceOptIn": enforce_opt_in,
            "maxNodesTotal": max_nodes_total,
            "priorities": read_priorities(priorities) if priorities else None,
            "timeBudget": time_budget,
            "randomSeed": seed,
        }
        settings: dict[str, object] = {}
        if others:
            from tonnage.groups import options as named

            settings = named.typed(others)
        settings |= {name: value for name, value in given.items() if value is not None}
        command(*arguments, settings=settings, **options)

    return settled


def cluster_of(loaded: "Loaded", settings: Mapping[str, object], **version: Any) -> "Cluster":
    """The cluster with the options of its Scenario; what was given goes before them.

    `version` are those of `Cluster.of` that say how kube-scheduler is.
    """
    import msgspec

    from tonnage.api import Cluster
    from tonnage.files import ScenarioOptions

    scenario = loaded.scenario or ScenarioOptions()
    given = msgspec.structs.replace(scenario, options={**scenario.options, **settings})
    return Cluster.of(
        msgspec.structs.replace(loaded, scenario=given),
        max_pd_vols=cluster_source.max_pd_vols(),
        **version,
    )
