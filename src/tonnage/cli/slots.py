"""`tonnage slots`: volume attach slots of nodes, used and free, by node or added up."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import click

from tonnage.cli import cluster_source, console, selection, watch
from tonnage.errors import InputError
from tonnage.objects.phrases import alternatives

if TYPE_CHECKING:
    from tonnage.api import Cluster, DriverTotal, SlotReport, SlotUse
    from tonnage.api.stranded_capacity import By, SlotShare
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
        show(cluster, by, drivers=drivers, form=form)
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
        console.echo(none_of(cluster) if known else f"Not known: {NOT_READ}.")
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
        over(one.over),
    ]
    return [*cells, ", ".join(one.held_volumes) or "-"] if wide else cells


def _total_row(one: "DriverTotal") -> list[str]:
    return [one.driver, str(one.nodes), *counts(one), over(one.over)]


_GIB = 2**30


def show(cluster: "Cluster", by: str, *, drivers: tuple[str, ...], form: console.Format) -> None:
    """Print the slots by group, type or driver; only of some drivers, if any are named."""
    report = cluster.slots_by(cast("By", by), now=time.time())
    shares = [one for one in report.shares if not drivers or one.total.driver in drivers]
    if form in ("json", "yaml"):
        console.print_document(
            "StrandingReport",
            form=form,
            by=by,
            shares=[_document(one, by) for one in shares],
            warnings=list(report.warnings),
        )
        return
    if shares:
        _print_table(shares, by)
    else:
        console.echo(none_of(cluster))
    for warning in report.warnings:
        console.warn(warning)


def none_of(cluster: "Cluster") -> str:
    """Why there is no row."""
    return "No node has a CSI driver." if cluster.nodes else "There are no nodes."


def counts(one: "DriverTotal") -> list[str]:
    """Limit, used, held and free, as cells."""
    limited = one.nodes - one.unlimited - one.unknown
    parts = [
        str(one.limit) if limited else "",
        f"{one.unlimited} unlimited" if one.unlimited else "",
        f"{one.unknown} unknown" if one.unknown else "",
    ]
    limit = " + ".join(filter(None, parts)) or "-"
    return [limit, str(one.used), str(one.held), str(one.free) if limited else "-"]


def over(by: int) -> str:
    """By how many a limit is exceeded, as a cell."""
    return f"{by} !" if by else "-"


def _document(one: "SlotShare", by: str) -> dict[str, object]:
    import msgspec

    new_node = one.new_node
    return {
        **({by: one.name} if by != "driver" else {}),
        **msgspec.to_builtins(one.total),
        "sources": list(one.sources),
        "newNode": new_node and {"count": new_node.count, "source": new_node.source},
        "fullNodes": list(one.full_nodes),
        "strandedCPU": f"{one.stranded_cpu}m",
        "strandedMemory": one.stranded_memory,
        "denserTypes": msgspec.to_builtins(one.denser),
    }


def _print_table(shares: "list[SlotShare]", by: str) -> None:
    headings = ["DRIVER", "NODES", "LIMIT", "USED", "HELD", "FREE", "OVER BY", "SOURCE"]
    tail = ["FULL", "STRANDED CPU", "STRANDED MEMORY"]
    if by == "group":
        tail = ["NEW NODE", *tail]
    if by != "driver":
        headings = [by.upper(), *headings]
        tail = [*tail, "WOULD STRAND LESS"]
    console.print_table(
        [*headings, *tail],
        [_share_row(one, by) for one in shares],
        alarming={position for position, one in enumerate(shares) if one.total.over},
    )


def _share_row(one: "SlotShare", by: str) -> list[str]:
    total = one.total
    cells = [total.driver, str(total.nodes), *counts(total), over(total.over)]
    cells.append(", ".join(one.sources) or "-")
    if by == "group":
        cells.append(_new_node(one))
    cells += [
        str(len(one.full_nodes)) if one.full_nodes else "-",
        f"{one.stranded_cpu / 1000:g}" if one.full_nodes else "-",
        f"{one.stranded_memory / _GIB:.1f}Gi" if one.full_nodes else "-",
    ]
    if by == "driver":
        return cells
    advice = (f"{other.instance_type} ({other.count} slots)" for other in one.denser)
    return [one.name, *cells, ", ".join(advice) or "-"]


def _new_node(one: "SlotShare") -> str:
    if one.new_node is None:
        return "unknown"
    count = "unlimited" if one.new_node.count is None else str(one.new_node.count)
    return f"{count} ({one.new_node.source})"
