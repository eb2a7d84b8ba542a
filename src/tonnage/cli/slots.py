"""`tonnage slots`: volume attach slots of nodes, used and free; `slots_by` adds them up."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from tonnage.cli import cluster_source, console, selection, slots_by, watch
from tonnage.errors import InputError
from tonnage.objects.phrases import alternatives

if TYPE_CHECKING:
    from tonnage.api import Cluster, DriverTotal, SlotReport, SlotUse
    from tonnage.objects.meta import LabelSelector

CSI_NODE = "CSINode"
NOT_READ = "CSINodes could not be read, so drivers and attach limits of nodes are not known"


@click.command()
@cluster_source.takes_cluster
@click.option(
    "--by",
    type=click.Choice(["node", "group", "type", "driver"]),
    default="node",
    show_default=True,
    help="Add up by node group, instance type or driver, with the CPU and memory that lie idle on "
    "nodes without a slot left.",
)
@cluster_source.node_groups_option("NodeGroups for --by group, if they are not among the manifests")
@click.option(
    "--driver", "drivers", metavar="NAME", multiple=True, help="Only this CSI driver; repeatable."
)
@click.option("--node", "nodes", metavar="NAME", multiple=True, help="Only this node; repeatable.")
@selection.selector_option
@click.option(
    "--sort-by",
    "order",
    type=click.Choice(["node", "driver", "limit", "used", "held", "free", "over"]),
    help="Order of the rows; numbers from the least, what is no number last.  [default: as read]",
)
@watch.watchable
@console.output_option
def slots(
    cluster: "Cluster",
    by: str,
    drivers: tuple[str, ...],
    nodes: tuple[str, ...],
    selector: "LabelSelector | None",
    order: str | None,
    form: console.Format,
) -> None:
    """Count the volume attach slots of every node, used and free.

    USED are volumes of pods on the node, HELD those that are attached without a pod there:
    being detached, or waiting for their pod. A limit is a number, "unlimited" (the node lists
    the driver without one) or "unknown" (the driver is in use on a node that does not list it).

    \b
    Examples:
      tonnage slots -f cluster/
      tonnage slots --context production
      tonnage slots -f cluster/ --by type
      tonnage slots --by group --node-groups groups.yaml
      tonnage slots -f cluster.json --driver ebs.csi.aws.com -o wide
      kubectl get nodes,csinodes,pods,pvc,pv,sc,volumeattachments -A -o json |
        tonnage slots -f - -o json
    """
    whole = cluster.slots()
    known = CSI_NODE not in cluster.unread
    if not known:
        whole = _not_known(whole)
    _refuse_unknown("driver", drivers, [total.driver for total in whole.totals])
    nodes = tuple(selection.name_of(node, "node", "nodes", "no") for node in nodes)
    _refuse_unknown("node", nodes, cluster.nodes)
    if by != "node":
        if nodes or selector is not None or order:
            option = "--node" if nodes else "--selector" if selector is not None else "--sort-by"
            raise InputError(f"{option} narrows down --by node, not --by {by}")
        slots_by.show(cluster, by, drivers=drivers, form=form)
        return
    if selector is not None:
        nodes = _labelled(cluster, nodes, selector)
    report = whole.only(nodes=nodes, drivers=drivers)
    if order:
        report = _sorted(report, order)
    if form in ("json", "yaml"):
        console.print_record(report, form=form)
        return
    if report.slots:
        _print_tables(report, wide=form == "wide")
    else:
        console.echo(slots_by.none_of(cluster) if known else f"Not known: {NOT_READ}.")
    if report.without_csinode:
        count = len(report.without_csinode)
        some = ", ".join(report.without_csinode[:5]) + (", ..." if count > 5 else "")
        console.echo()
        console.echo(f"Without a CSINode: {some}" + (f" ({count:,} nodes)" if count > 5 else ""))
    for warning in report.warnings:
        console.warn(warning)


def _labelled(
    cluster: "Cluster", nodes: tuple[str, ...], selector: "LabelSelector"
) -> tuple[str, ...]:
    labels = cluster.node_labels
    chosen = tuple(
        name for name in nodes or cluster.nodes if selection.matches(selector, labels[name])
    )
    if not chosen:
        raise InputError("--selector: no node has such labels")
    return chosen


def _sorted(report: "SlotReport", order: str) -> "SlotReport":
    import math

    import msgspec

    def key(one: "SlotUse") -> tuple[float, str]:
        value = getattr(one, order)
        if isinstance(value, str):
            return 0.0, value
        return (math.inf if value is None else float(value)), one.node

    return msgspec.structs.replace(report, slots=tuple(sorted(report.slots, key=key)))


def _not_known(report: "SlotReport") -> "SlotReport":
    """The report where no CSINode could be read: none is missing, for all that is known."""
    import msgspec

    warnings = (*report.warnings, NOT_READ)
    return msgspec.structs.replace(report, without_csinode=(), warnings=warnings)


def _refuse_unknown(what: str, asked: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    for name in asked:
        if name not in names:
            raise InputError(f"no {what} {name!r} in the input; {alternatives(name, names)}")


def _print_tables(report: "SlotReport", *, wide: bool) -> None:
    headings = ["NODE", "DRIVER", "LIMIT", "USED", "HELD", "FREE", "OVER BY"]
    console.print_table(
        [*headings, "HELD VOLUMES"] if wide else headings,
        [_row(one, wide=wide) for one in report.slots],
        alarming={position for position, one in enumerate(report.slots) if one.over},
    )
    console.echo()
    console.print_table(
        ["ALL NODES", "NODES", "LIMIT", "USED", "HELD", "FREE", "OVER BY"],
        [_total_row(one) for one in report.totals],
        alarming={position for position, one in enumerate(report.totals) if one.over},
    )


def _row(one: "SlotUse", *, wide: bool) -> list[str]:
    cells = [
        one.node,
        one.driver,
        one.state if one.limit is None else str(one.limit),
        str(one.used),
        str(one.held),
        "-" if one.free is None else str(one.free),
        slots_by.over(one.over),
    ]
    return [*cells, ", ".join(one.held_volumes) or "-"] if wide else cells


def _total_row(one: "DriverTotal") -> list[str]:
    return [one.driver, str(one.nodes), *slots_by.counts(one), slots_by.over(one.over)]
