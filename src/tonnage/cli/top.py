"""`tonnage top`: the rows of the board in a terminal, live."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tonnage.cli import cluster_source, console
from tonnage.cli.cluster_access import ClusterChoice
from tonnage.objects import printable

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from tonnage.api import Cluster
    from tonnage.board.node_rows import Lane, NodeTable

INTERVAL = 5.0
_WIDTH = 10
_SHOWN = 200
_STYLES = ("blue", "yellow", "magenta")


@click.command()
@cluster_source.takes_cluster
@click.option("--once", is_flag=True, help="Print the rows and end, as it is without a terminal.")
@click.option(
    "--sort",
    type=click.Choice(["fullest", "name"]),
    default="fullest",
    show_default=True,
    help="Which nodes come first.",
)
def top(cluster: "Cluster", once: bool, sort: str) -> None:
    """Show nodes by what is fullest: CPU, memory, pods, attach slots, local disks.

    The same rows as on tonnage board, for those who live in a terminal; of a live cluster they are
    read again every 5 seconds until Ctrl-C. In a bar, blue is used, yellow is held (attached
    without a pod) and magenta is promised to a pod.

    \b
    Examples:
      tonnage top --context production
      tonnage top -f cluster.json --once
      kubectl tonnage top
    """
    context = click.get_current_context()
    live = not context.params.get("filenames")
    if once or not sys.stdout.isatty():
        _print(cluster, sort)
        return
    again = _reader(context) if live else None
    _show(cluster, sort, again)


def _print(cluster: "Cluster", sort: str) -> None:
    """A plain table, for pipes."""
    table, pending = _read(cluster)
    headings = ["NODE", "FULLEST", *(lane.name.upper() for lane in table.lanes)]
    rows = []
    for position in _order(table, sort):
        row = table.row(position)
        fullest = f"{row[5] / 10:.0f} % {table.lanes[row[4]].name}" if table.lanes else ""
        cells = (_words(row, number, lane) for number, lane in enumerate(table.lanes))
        rows.append([table.names[position], fullest, *cells])
    console.print_table(headings, rows)
    console.echo(f"{pending:,} pods wait for a node.")


def _show(cluster: "Cluster", sort: str, again: "Callable[[], Cluster] | None") -> None:
    from rich.live import Live

    with Live(_picture(cluster, sort), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(INTERVAL)
            if again is not None:
                cluster = again()
            live.update(_picture(cluster, sort), refresh=True)


def _reader(context: click.Context) -> "Callable[[], Cluster]":
    """Reads the live cluster anew, as the command did."""
    from tonnage.api import Cluster

    given = context.params

    def read() -> "Cluster":
        live = ClusterChoice(given["kubeconfig"], given["context"], given["request_timeout"])
        loaded = cluster_source.read((), live, lenient=given["lenient"])
        return Cluster.of(
            loaded,
            kubernetes_version=given["kubernetes_version"],
            feature_gates=given["feature_gates"],
        )

    return read


def _read(cluster: "Cluster") -> "tuple[NodeTable, int]":
    from tonnage.board.moment import Moment
    from tonnage.board.node_rows import NodeReader

    inputs = cluster.inputs()
    table = NodeReader().read(Moment(now=inputs.now, inputs=inputs))
    return table, len(cluster.pending)


def _order(table: "NodeTable", sort: str) -> list[int]:
    positions = list(range(len(table.names)))
    if sort == "name":
        return sorted(positions, key=lambda one: table.names[one])
    return sorted(positions, key=lambda one: (-int(table.rows[one, 5]), table.names[one]))


def _words(row: list[int], number: int, lane: "Lane") -> str:
    used, held, promised, limit = row[6 + 4 * number : 10 + 4 * number]
    taken = used + held + promised
    if limit == -3:
        return "-"
    of = {-1: "?", -2: "unlimited"}.get(limit) or _amount(limit, lane.unit)
    return f"{_amount(taken, lane.unit)} / {of}"


def _amount(number: int, unit: str) -> str:
    if unit == "milli":
        return f"{number / 1000:g}"
    return f"{number / 1024:.3g}Gi" if unit == "MiB" else f"{number:,}"


def _picture(cluster: "Cluster", sort: str) -> "Group":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from tonnage.objects.phrases import counted

    table, pending = _read(cluster)
    shown = Table(box=None, padding=(0, 1), expand=True)
    shown.add_column("NODE", no_wrap=True)
    for lane in table.lanes:
        shown.add_column(Text(printable.escape(lane.name).upper()), no_wrap=True)
    for position in _order(table, sort)[:_SHOWN]:
        row = table.row(position)
        cells = [_bar(row, number, lane) for number, lane in enumerate(table.lanes)]
        style = "red" if row[5] >= 1000 else "yellow" if row[5] >= 850 else ""
        shown.add_row(Text(printable.escape(table.names[position]), style=style), *cells)
    head = f"{counted(len(table.names), 'node')}, {counted(pending)} waiting   Ctrl-C ends"
    return Group(Text(head, style="bold"), shown)


def _bar(row: list[int], number: int, lane: "Lane") -> "Text":
    from rich.text import Text

    used, held, promised, limit = row[6 + 4 * number : 10 + 4 * number]
    if limit == -3:
        return Text("-", style="dim")
    whole = max(limit, used + held + promised, 1)
    text = Text()
    drawn = 0
    for amount, style in zip((used, held, promised), _STYLES, strict=True):
        blocks = min(round(_WIDTH * amount / whole), _WIDTH - drawn)
        text.append("█" * blocks, style=style)
        drawn += blocks
    text.append("░" * (_WIDTH - drawn), style="dim")
    text.append(f" {_words(row, number, lane)}")
    return text
