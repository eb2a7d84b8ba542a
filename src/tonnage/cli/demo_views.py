"""How the demo is shown: a picture that moves on a terminal, lines everywhere else."""

from typing import TYPE_CHECKING, NamedTuple

from tonnage.cli import console

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

    from tonnage.report.timeline import NodeState
    from tonnage.simulation.demo_story import Scene


_STATES: "dict[NodeState, str]" = {
    "comingUp": "waiting for a driver",
    "starting": "starting",
    "requested": "asked for",
}


_GIB = 2**30


class PlainView:
    """A line when the counts change, and one for each decision; in the end, one for each node."""

    def __init__(self, title: str, about: str) -> None:
        self._title = title
        self._about = about
        self._last = ""
        self._told = 0
        self._use: list[Use] = []

    def __enter__(self) -> "PlainView":
        console.echo()
        console.echo(self._title)
        console.echo(self._about)
        return self

    def __exit__(self, *_: object) -> None:
        width = max((len(one.node) for one in self._use), default=0)
        for one in self._use:
            console.echo(f"         {one.node.ljust(width)}  {one.driver}  {one.bar}")

    def show(self, scene: "Scene") -> None:
        at = f"{scene.sample.at:5.1f} s"
        for one in scene.decisions[self._told :]:
            console.echo(f"{at}  decided: {one.group} +{one.nodes} ({one.reason})")
        self._told = len(scene.decisions)
        line = counts(scene)
        if line != self._last:
            console.echo(f"{at}  {line}")
            self._last = line
        self._use = uses(scene)


class LiveView:
    """Pods, nodes with their slots and disks as bars, and decisions, redrawn in place."""

    def __init__(self, title: str, about: str) -> None:
        self._title = title
        self._about = about
        self._live: Live | None = None

    def __enter__(self) -> "LiveView":
        from rich.live import Live

        self._live = Live(refresh_per_second=8)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, scene: "Scene") -> None:
        if self._live is not None:
            self._live.update(picture(self._title, self._about, scene))


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


def slot_bar(used: int, limit: int | None) -> str:
    """Slots as blocks: full, free, and those there are none of."""
    if limit is None:
        return f"{'■' * used}  {used} slots, no limit known"
    over = max(used - limit, 0)
    blocks = "■" * min(used, limit) + "□" * max(limit - used, 0) + "✗" * over
    return f"{blocks}  {used} of {limit} slots"


def disk_bar(used: int, capacity: int) -> str:
    """A disk in ten blocks, with what they stand for; `used` and `capacity` are bytes."""
    full = min(round(10 * used / capacity), 10) if capacity else 10
    return f"{'■' * full}{'□' * (10 - full)}  {used / _GIB:g} of {capacity / _GIB:g} GiB"


class Use(NamedTuple):
    """How much of what a driver has on a node is used."""

    node: str
    driver: str
    bar: str
    over: bool


def uses(scene: "Scene") -> "list[Use]":
    """All slots and disks of a moment, node by node."""
    slots = [
        Use(
            one.node,
            one.driver,
            slot_bar(one.used, one.limit),
            over=one.limit is not None and one.used > one.limit,
        )
        for one in scene.nodes
    ]
    disks = [
        Use(one.node, one.driver, disk_bar(one.used, one.capacity), one.used > one.capacity)
        for one in scene.disks
    ]
    return sorted((*slots, *disks))


def picture(title: str, about: str, scene: "Scene") -> "Group":
    """A moment, as rich draws it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2), expand=False)
    for heading in ("NODE", "DRIVER", "SLOTS OR DISK"):
        table.add_column(heading)
    for one in uses(scene):
        table.add_row(one.node, one.driver, Text(one.bar, style="red" if one.over else "green"))
    decisions = [
        Text(f"{one.at:5.1f} s  {one.group} +{one.nodes}: {one.reason}", style="cyan")
        for one in scene.decisions
    ]
    stuck = scene.sample.pods.stuck
    return Group(
        Text(f"{title}   {scene.sample.at:.0f} s", style="bold"),
        Text(about),
        Text(counts(scene), style="bold red" if stuck else ""),
        Text(),
        *decisions,
        Text(),
        table,
    )
