"""The board: how large the page and its differences are, what a moment costs the loop, and when the
first rows are there in a browser."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.clusters import decode
from benchmarks.context import Context
from benchmarks.measurement import Row, once
from tests.browser import devtools, served_board
from tonnage.board import server, sources
from tonnage.board.feed import Feed
from tonnage.board.moment import Moment
from tonnage.board.page_state import StateReader
from tonnage.groups import node_labels, options
from tonnage.groups.inputs import Inputs
from tonnage.objects.codec import collector_paused
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.testing import builders

NAME = "board"
NOW = 1_800_000_000.0
CHANGED = 50
WAITING = 200
FIRST_ROWS = """
addEventListener("DOMContentLoaded", () => {
  const look = () => {
    if (document.querySelector(".grid.nodes .all .row")) window.firstRows = performance.now();
    else requestAnimationFrame(look);
  };
  look();
});
"""
_TOOL = Path(__file__).resolve().parent.parent / "tools" / "chromium"


def run(context: Context) -> Iterator[Row]:
    page = sum(len(asset.content) for asset in server.assets().values())
    yield Row(
        benchmark=NAME, case="page", work="compressed, all of it", value=page, unit="B", aim=60_000
    )
    with collector_paused():
        standing = _Standing(context)
        yield from _moments(context, standing)
        yield from _browser(context, standing.moment())


def _moments(context: Context, standing: "_Standing") -> Iterator[Row]:
    work = f"{context.size.nodes:,} nodes, {context.size.pods:,} pods"
    feed = Feed(
        StateReader(title="bench", mode="live", decides=True, asked_at_once=sources.ASKED_AT_ONCE)
    )
    aimed = not context.quick
    moment = standing.moment()
    seconds = once(lambda: feed.publish(moment))
    yield Row(benchmark=NAME, case="first moment", work=work, value=seconds)
    standing.change(CHANGED)
    moment = standing.moment()
    with feed.followed(feed.revision) as follower:
        seconds = once(lambda: feed.publish(moment))
        size = sum(len(follower.parts.get_nowait()[1]) for _ in range(follower.parts.qsize()))
    work = f"{CHANGED} pods changed"
    aim = 0.05 if aimed else None
    yield Row(benchmark=NAME, case="next moment", work=work, value=seconds, aim=aim)
    yield Row(benchmark=NAME, case="difference", work=work, value=size, unit="B", aim=100_000)
    seconds = once(feed.packed)
    size = len(feed.packed())
    yield Row(benchmark=NAME, case="whole state", work="made and compressed", value=seconds)
    yield Row(benchmark=NAME, case="whole state", work="compressed", value=size, unit="B")


def _browser(context: Context, moment: Moment) -> Iterator[Row]:
    asked = subprocess.run([sys.executable, _TOOL, "path"], capture_output=True, text=True)
    if asked.returncode:
        print(f"no first rows: {asked.stderr.strip()}", file=sys.stderr)
        return
    with served_board.of_moment(moment) as board, devtools.browser(asked.stdout.strip()) as browser:
        times = []
        for _ in range(3):
            with browser.opened(board.url, before=FIRST_ROWS) as page:
                page.until("window.firstRows > 0")
                times.append(page.run("window.firstRows") / 1000)
    yield Row(
        benchmark=NAME,
        case="first rows in Chromium",
        work=f"{context.size.nodes:,} nodes, from navigation on loopback, median of 3",
        value=sorted(times)[1],
        aim=None if context.quick else 0.5,
    )


class _Standing:
    """A cluster that stands, with pods that wait and the plan for them."""

    def __init__(self, context: Context) -> None:
        objects: list[KubeObject] = [
            one for page in context.cluster.pages() for one in decode(page)
        ]
        nodes = [one for one in objects if isinstance(one, Node)]
        groups = [one.group for one in node_labels.recognise(nodes, label="pool").groups]
        waiting = [
            builders.pod(f"waits-{number}", cpu=f"{1 + number % 20}") for number in range(WAITING)
        ]
        self._inputs = Inputs.of_objects(
            [*objects, *groups, *waiting],
            options=options.of({}),
            features=features.of_version(),
            now=NOW,
        )
        self._made = decision.decide(self._inputs)
        snapshot = self._inputs.cluster.snapshot
        pending = snapshot.pending_pods()
        # A watch knows who waits without going through all pods.
        cluster = msgspec.structs.replace(self._inputs.cluster, pods_without_node=lambda: pending)
        self._inputs = msgspec.structs.replace(self._inputs, cluster=cluster)

    def moment(self) -> Moment:
        """Another moment of the same cluster, as a live loop would hand it in."""
        inputs = msgspec.structs.replace(self._inputs)
        return Moment(now=NOW, inputs=inputs, plan=self._made.plan, readiness=self._made.readiness)

    def change(self, pods: int) -> None:
        snapshot = self._inputs.cluster.snapshot
        placed = [record for record in snapshot.pods.values() if record.node_name]
        for record in placed[-pods:]:
            snapshot.drop_pod(record.meta.namespace, record.meta.name)
