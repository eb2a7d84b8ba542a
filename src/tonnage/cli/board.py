"""`tonnage board`: one page on a cluster, live, in a browser."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tonnage.cli import (
    cluster_access,
    cluster_source,
    console,
    group_discovery,
    plan_settings,
    services,
)

if TYPE_CHECKING:
    from tonnage.api import Cluster
    from tonnage.board.answers import BoardAnswers
    from tonnage.board.feed import Feed
    from tonnage.cluster.config import Access
    from tonnage.objects.nodes import Node
    from tonnage.objects.scenarios import NodeGroup
    from tonnage.service.certificates import Certificates


@click.command()
@cluster_source.filename_option
@click.option(
    "--demo", is_flag=True, help="Show the embedded cluster of tonnage demo, nothing installed."
)
@cluster_access.options
@cluster_source.node_groups_option(
    "NodeGroups that could be grown, if they are not among the manifests"
)
@click.option(
    "--discover",
    is_flag=True,
    help="Take the node groups that labels of nodes show, as tonnage groups discover does.",
)
@click.option(
    "--group-label",
    metavar="KEY",
    default="",
    help="A label of your own that names the group of a node, before those of platforms.",
)
@click.option(
    "--address",
    type=services.Address(),
    default="127.0.0.1:8087",
    show_default=True,
    help="Where the page is served; port 0 takes any that is free.",
)
@services.board_certificate_options("--")
@cluster_source.lenient_option
@cluster_source.version_option
@cluster_source.gates_option
@plan_settings.takes_settings
def board(
    filenames: tuple[str, ...],
    demo: bool,
    live: cluster_access.ClusterChoice,
    node_groups: tuple[str, ...],
    discover: bool,
    group_label: str,
    address: str,
    certificates: "Certificates | None",
    lenient: bool,
    kubernetes_version: str,
    feature_gates: dict[str, bool],
    settings: dict[str, object],
) -> None:
    """Show a cluster on one page: slots, what waits, what would be bought, what could go, and why.

    Serves the page until Ctrl-C, of a live cluster (read only, nothing is installed), of manifests,
    or of the cluster of the demo. The page needs nothing from elsewhere. On a loopback address
    everybody on this machine may look; elsewhere a client certificate is required.

    \b
    Examples:
      tonnage board --demo
      tonnage board --context production --discover
      tonnage board -f cluster.json --node-groups groups.yaml --address 127.0.0.1:0
    """
    from tonnage.service import lifecycle

    if demo and (filenames or live.is_given or node_groups or discover):
        raise click.UsageError("--demo has a cluster of its own: give no other beside it")
    page = _Page(address, certificates)
    if demo:
        asyncio.run(lifecycle.until_signalled(page.of_demo))
        return
    if filenames:
        loaded = cluster_source.read(filenames, live, lenient=lenient, beside=node_groups)
        if discover or group_label:
            wanted = group_discovery.GroupSource(label=group_label)
            loaded = group_discovery.with_discovered(loaded, wanted, filenames=filenames, live=live)
        cluster = plan_settings.cluster_of(
            loaded, settings, kubernetes_version=kubernetes_version, feature_gates=feature_gates
        )
        title = loaded.name or Path(filenames[0]).name
        asyncio.run(lifecycle.until_signalled(lambda: page.of_files(cluster, title)))
        return
    watched = _Live(
        access=cluster_access.find(live),
        groups=_groups(
            node_groups,
            discovers=discover or bool(group_label),
            label=group_label,
            lenient=lenient,
        ),
        version=kubernetes_version,
        gates=feature_gates,
        settings=settings,
    )
    asyncio.run(lifecycle.until_signalled(lambda: page.of_cluster(watched)))


class _Live(NamedTuple):
    """A live cluster to be watched, and how it is understood."""

    access: "Access"
    groups: "Callable[[Sequence[Node]], Sequence[NodeGroup]]"
    version: str
    gates: dict[str, bool]
    settings: dict[str, object]


def _groups(
    files: tuple[str, ...], *, discovers: bool, label: str, lenient: bool
) -> "Callable[[Sequence[Node]], Sequence[NodeGroup]]":
    """The node groups of a live cluster: written down, or by the labels of its nodes."""
    from tonnage import api
    from tonnage.objects.scenarios import NodeGroup

    written: list[NodeGroup] = []
    if files:
        loaded = api.read(files, lenient=lenient)
        cluster_source.tell(loaded)
        written = [one for one in loaded.objects if isinstance(one, NodeGroup)]

    def of(nodes: "Sequence[Node]") -> "Sequence[NodeGroup]":
        if not discovers:
            return written
        from tonnage.groups import node_labels

        names = {one.metadata.name for one in written}
        found = (one.group for one in node_labels.recognise(nodes, label=label).groups)
        return [*written, *(one for one in found if one.metadata.name not in names)]

    return of


class _Page:
    """The page at an address, for one of three kinds of clusters."""

    def __init__(self, address: str, certificates: "Certificates | None") -> None:
        self._address = address
        self._certificates = certificates

    async def of_files(self, cluster: "Cluster", title: str) -> None:
        from tonnage.board import sources
        from tonnage.board.answers import BoardAnswers

        feed = _feed(title, "file", decides=False)
        sources.of_files(cluster, feed, now=time.time())
        answers = BoardAnswers(feed, objects=lambda: cluster.objects)
        async with self._served(feed, answers):
            await asyncio.Event().wait()

    async def of_cluster(self, live: _Live) -> None:
        from tonnage.board.answers import BoardAnswers
        from tonnage.board.sources import WatchedCluster
        from tonnage.errors import ClusterError
        from tonnage.rules import features
        from tonnage.service import connections

        async with connections.connected(
            live.access, environ=os.environ, read_only=True
        ) as connection:
            try:
                version = live.version or await connections.server_version(
                    connection.client, clock=connection.clock, patient=False
                )
            except ClusterError as error:
                raise cluster_access.explained(error, live.access) from error
            feed = _feed(live.access.context or live.access.endpoint.shown, "live", decides=False)
            watched = WatchedCluster(
                connection,
                feed,
                features=features.of_version(features.nearest_version(version), live.gates),
                groups=live.groups,
                settings=live.settings,
            )
            answers = BoardAnswers(feed, objects=watched.objects, busy=watched.busy)
            async with self._served(feed, answers):
                await watched.run()

    async def of_demo(self) -> None:
        import logging

        from tonnage.board.answers import BoardAnswers
        from tonnage.board.sources import FollowedAutoscaler
        from tonnage.clock import SystemClock
        from tonnage.service import lifecycle
        from tonnage.simulation import demo_story
        from tonnage.simulation.ensemble import Ensemble

        # What the parts log is for those who operate them.
        logging.disable(logging.CRITICAL)
        clock = SystemClock()
        act = demo_story.endless(demo_story.acts()[0])
        ensemble = Ensemble(act.simulation, clock=clock, label=act.title)
        feed = _feed("demo", "demo", decides=True)
        followed = FollowedAutoscaler(feed, lambda: ensemble.autoscaler, clock=clock)
        answers = BoardAnswers(feed, objects=followed.objects, busy=followed.busy)
        async with self._served(feed, answers), lifecycle.beside(followed.run()):
            await ensemble.run()

    @asynccontextmanager
    async def _served(self, feed: "Feed", answers: "BoardAnswers") -> AsyncIterator[None]:
        from tonnage.board.server import BoardServer

        server = BoardServer(
            self._address, feed, answers=answers.by_name(), certificates=self._certificates
        )
        async with server.listening():
            console.echo(f"The board is at {server.url}  Ctrl-C ends it.")
            sys.stdout.flush()
            yield


def _feed(title: str, mode: str, *, decides: bool) -> "Feed":
    from tonnage.board.feed import Feed
    from tonnage.board.page_state import StateReader

    if mode == "file":
        return Feed(StateReader(title=title, mode=mode, decides=decides))
    from tonnage.board import sources

    at_once = sources.ASKED_AT_ONCE
    return Feed(StateReader(title=title, mode=mode, decides=decides, asked_at_once=at_once))
