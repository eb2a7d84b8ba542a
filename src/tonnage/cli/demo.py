"""`tonnage demo`: a burst of databases on an embedded cluster, with Tonnage and without."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tonnage.cli import console, report_files

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

    from tonnage.objects.scenarios import NodeGroup
    from tonnage.report.timeline import NodeState, Timeline
    from tonnage.simulation.demo_story import Act, Scene
    from tonnage.simulation.ensemble import Ensemble


@click.command()
@console.file_option(
    "--html",
    "html_file",
    default=Path("tonnage-demo.html"),
    show_default=True,
    help="Where to write the report with charts.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Then play the first act again and keep it running, for kubectl, until interrupted.",
)
@click.option("--plain", is_flag=True, help="Lines instead of a picture that moves.")
def demo(html_file: Path, keep: bool, plain: bool) -> None:
    """Show in under a minute what Tonnage is for; nothing has to be installed.

    An API server, kubelets, CSI drivers, a cloud, the scheduler and the autoscaler run in this
    process, in real time. 24 databases with a volume each arrive, and a machine attaches five; six
    caches want local disks. Then the same happens in a cluster where nobody counts slots.

    \b
    Examples:
      tonnage demo
      tonnage demo --keep
      tonnage demo --plain | cat
    """
    import asyncio

    from tonnage.report.page import page
    from tonnage.simulation import demo_story

    # Now: afterwards the audience would have waited for nothing.
    report_files.check_folder(html_file)
    # What the parts log is for those who operate them; the audience sees what comes of it.
    logging.disable(logging.CRITICAL)
    chosen = demo_story.acts()
    runs: list[Timeline] = []
    for number, act in enumerate(chosen, start=1):
        runs.append(asyncio.run(_played(act, number=number, of=len(chosen), plain=plain)))
    _print_summary(runs)
    report_files.write(html_file, page(runs, origin=report_files.origin()))
    console.echo()
    console.echo(f"Charts of both: {html_file}")
    if keep:
        _keep(chosen[0])


async def _played(act: "Act", *, number: int, of: int, plain: bool) -> "Timeline":
    from tonnage.clock import SystemClock
    from tonnage.simulation import demo_story

    title = f"Act {number} of {of}, {act.title}"
    view_of = PlainView if plain or not sys.stdout.isatty() else LiveView
    with view_of(title, act.about) as view:
        return await demo_story.perform(act, clock=SystemClock(), show=view.show)


def _print_summary(runs: "list[Timeline]") -> None:
    console.echo()
    rows = [
        ["pods running", *(str(run.samples[-1].pods.running) for run in runs)],
        ["pods stuck on a node", *(str(run.summary.stuck_at_end) for run in runs)],
        ["pods without a node", *(str(run.summary.pending_at_end) for run in runs)],
        ["nodes bought", *(str(run.summary.nodes_bought) for run in runs)],
        ["scale requests", *(str(len(run.decisions)) for run in runs)],
        [
            "last pod running after",
            *(
                f"{run.summary.time_to_running.longest:.1f} s"
                if run.summary.pods_ran == run.summary.pods_created
                else "never"
                for run in runs
            ),
        ],
    ]
    console.print_table(["", *(run.label.upper() for run in runs)], rows)


def _keep(act: "Act") -> None:
    import asyncio
    import secrets
    import tempfile
    from contextlib import AsyncExitStack

    from tonnage.clock import SystemClock
    from tonnage.embedded.apiserver import kubeconfig
    from tonnage.embedded.apiserver.http import HttpFront
    from tonnage.service import lifecycle
    from tonnage.service.debug import DebugServer
    from tonnage.simulation import demo_story

    async def main(folder: Path) -> None:
        served: list[HttpFront] = []
        open_until_the_end = AsyncExitStack()
        settled = asyncio.Event()
        ensembles: list[Ensemble] = []

        def show(scene: "Scene") -> None:
            pods = scene.sample.pods
            run = scene.decisions and pods.running and not (pods.pending or pods.starting)
            # What is told afterwards has questions about nodes, too.
            if run and _nodes_decided_on(ensembles[0]):
                settled.set()

        async def serve(ensemble: "Ensemble") -> None:
            front = HttpFront(ensemble.server, token=secrets.token_urlsafe(16))
            await front.start()
            served.append(front)
            path = folder / "kubeconfig"
            kubeconfig.write(path, front.url)
            groups = folder / "groups.yaml"
            groups.write_text(_manifests(ensemble))
            debug = DebugServer("127.0.0.1:0", documents=ensemble.debug_documents)
            await open_until_the_end.enter_async_context(debug.listening())
            console.echo()
            console.echo("The cluster starts once more. What to look at is told when its pods run.")
            await settled.wait()
            console.echo()
            console.echo("The cluster runs on; Ctrl-C ends it. In another terminal:")
            for line in (
                f"export KUBECONFIG={path}",
                "kubectl get pods,nodes",
                "kubectl -n kube-system get configmap cluster-autoscaler-status -o yaml",
                "tonnage slots",
                f"tonnage plan --node-groups {groups}",
                f"tonnage plan --scale-down --node-groups {groups}",
                f"tonnage why db-0 --url http://127.0.0.1:{debug.port}",
                f"tonnage why node/{_nodes_decided_on(ensemble)[0]} --url http://127.0.0.1:{debug.port}",
            ):
                console.echo(f"  {line}")

        serving: list[asyncio.Task[None]] = []

        def prepare(ensemble: "Ensemble") -> None:
            ensembles.append(ensemble)
            serving.append(asyncio.ensure_future(serve(ensemble)))

        try:
            await demo_story.perform(
                demo_story.endless(act),
                clock=SystemClock(),
                show=show,
                prepare=prepare,
            )
        finally:
            await open_until_the_end.aclose()
            for front in served:
                await front.close()

    with tempfile.TemporaryDirectory(prefix="tonnage-demo-") as folder:
        asyncio.run(lifecycle.until_signalled(lambda: main(Path(folder))))


def _nodes_decided_on(ensemble: "Ensemble") -> list[str]:
    """Those of which the autoscaler says why they stay or go."""
    if ensemble.autoscaler is None:
        return []
    return sorted(one.decision.node for one in ensemble.autoscaler.scale_down().nodes)


def _manifests(ensemble: "Ensemble") -> str:
    """The node groups of the story as a file for `--node-groups`."""
    import msgspec

    from tonnage.files import scenario_writer
    from tonnage.objects.meta import LabelSelector
    from tonnage.providers.kwok_objects import GROUP_LABEL

    def with_its_nodes(group: "NodeGroup") -> "NodeGroup":
        selector = LabelSelector(match_labels={GROUP_LABEL: group.metadata.name})
        spec = msgspec.structs.replace(group.spec, node_selector=selector)
        return msgspec.structs.replace(group, spec=spec)

    groups = map(with_its_nodes, ensemble.simulation.groups)
    return "\n".join(f"---\n{scenario_writer.manifest(one).decode()}" for one in groups) + "\n"


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
