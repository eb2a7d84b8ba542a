"""`tonnage demo`: a burst of databases on an embedded cluster, with Tonnage and without."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli import console

if TYPE_CHECKING:
    from tonnage.objects.scenarios import NodeGroup
    from tonnage.report.timeline import Timeline
    from tonnage.simulation.demo_story import Act, Scene
    from tonnage.simulation.ensemble import Ensemble


@click.command()
@click.option(
    "--html",
    "html_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
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

    from tonnage.cli import report_origin
    from tonnage.errors import InputError
    from tonnage.report.page import page
    from tonnage.simulation import demo_story

    if not html_file.absolute().parent.is_dir():
        # Said now: afterwards the audience would have waited for nothing.
        raise InputError(f"--html {html_file}: no such folder; expected one that exists")
    # What the parts log is for those who operate them; the audience sees what comes of it.
    logging.disable(logging.CRITICAL)
    chosen = demo_story.acts()
    runs: list[Timeline] = []
    for number, act in enumerate(chosen, start=1):
        runs.append(asyncio.run(_played(act, number=number, of=len(chosen), plain=plain)))
    _print_summary(runs)
    try:
        html_file.write_text(page(runs, origin=report_origin.origin()), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--html {html_file}: {error.strerror or error}") from error
    console.echo()
    console.echo(f"Charts of both: {html_file}")
    if keep:
        _keep(chosen[0])


async def _played(act: "Act", *, number: int, of: int, plain: bool) -> "Timeline":
    from tonnage.cli.demo_views import LiveView, PlainView
    from tonnage.clock import SystemClock
    from tonnage.simulation import demo_story

    title = f"Act {number} of {of}, {act.title}"
    view_of = PlainView if plain or not sys.stdout.isatty() else LiveView
    with view_of(title, act.about) as view:
        return await demo_story.perform(act, clock=SystemClock(), show=view.show)


def _print_summary(runs: "list[Timeline]") -> None:
    from tonnage.cli import console

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
