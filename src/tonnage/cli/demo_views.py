"""How the demo is shown: a picture that moves on a terminal, lines everywhere else."""

from types import TracebackType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

    from tonnage.report.timeline import NodeState
    from tonnage.simulation.demonstrating import Scene


_STATES: "dict[NodeState, str]" = {
    "comingUp": "waiting for a driver",
    "starting": "starting",
    "requested": "asked for",
}


class PlainView:
    """A line when the counts change, and one for each decision."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last = ""
        self._told = 0

    def __enter__(self) -> "PlainView":
        click.echo(f"\n{self._title}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        return None

    def show(self, scene: "Scene") -> None:
        at = f"{scene.sample.at:5.1f} s"
        for one in scene.decisions[self._told :]:
            click.echo(f"{at}  decided: {one.group} +{one.nodes} ({one.reason})")
        self._told = len(scene.decisions)
        line = counts(scene)
        if line != self._last:
            click.echo(f"{at}  {line}")
            self._last = line


class LiveView:
    """Pods, nodes with their slots as bars, and decisions, redrawn in place."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._live: Live | None = None

    def __enter__(self) -> "LiveView":
        from rich.live import Live

        self._live = Live(refresh_per_second=8)
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, scene: "Scene") -> None:
        if self._live is not None:
            self._live.update(picture(self._title, scene))


def counts(scene: "Scene") -> str:
    """The numbers of a moment in one line."""
    pods, nodes = scene.sample.pods, scene.sample.nodes
    about_pods = [
        f"{pods.running} running",
        f"{pods.starting - pods.stuck} starting",
        f"{pods.stuck} stuck",
        f"{pods.pending} without a node",
    ]
    about_nodes = [f"{nodes['ready']} ready"]
    about_nodes += [f"{nodes[state]} {words}" for state, words in _STATES.items() if nodes[state]]
    return f"pods: {', '.join(about_pods)}; nodes: {', '.join(about_nodes)}"


def bar(used: int, limit: int | None) -> str:
    """Slots as blocks: full, free, and those there are none of."""
    if limit is None:
        return "■" * used + " (no limit known)"
    over = max(used - limit, 0)
    return "■" * min(used, limit) + "□" * max(limit - used, 0) + "✗" * over


def picture(title: str, scene: "Scene") -> "Group":
    """A moment, as rich draws it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2), expand=False)
    for heading in ("NODE", "DRIVER", "SLOTS"):
        table.add_column(heading)
    for one in scene.nodes:
        over = one.limit is not None and one.used > one.limit
        table.add_row(
            one.node,
            one.driver,
            Text(bar(one.used, one.limit), style="red" if over else "green"),
        )
    decisions = [
        Text(f"{one.at:5.1f} s  {one.group} +{one.nodes}: {one.reason}", style="cyan")
        for one in scene.decisions
    ]
    stuck = scene.sample.pods.stuck
    return Group(
        Text(f"{title}   {scene.sample.at:.0f} s", style="bold"),
        Text(counts(scene), style="bold red" if stuck else ""),
        Text(),
        *decisions,
        Text(),
        table,
    )
