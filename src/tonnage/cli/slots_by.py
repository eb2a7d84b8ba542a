"""`tonnage slots --by`: slots added up, and what is stranded where they ran out."""

import time
from typing import TYPE_CHECKING, cast

from tonnage.cli import console

if TYPE_CHECKING:
    from tonnage.api import Cluster, DriverTotal
    from tonnage.api.stranded_capacity import By, SlotShare

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
        [_row(one, by) for one in shares],
        alarming={position for position, one in enumerate(shares) if one.total.over},
    )


def _row(one: "SlotShare", by: str) -> list[str]:
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
