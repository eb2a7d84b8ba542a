"""The board of a cluster at an address, in a thread of its own, for browsers and benchmarks."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from tonnage.api import Cluster
from tonnage.board import sources
from tonnage.board.answers import BoardAnswers
from tonnage.board.feed import Feed
from tonnage.board.moment import Moment
from tonnage.board.page_state import StateReader
from tonnage.board.server import BoardServer
from tonnage.objects.kinds import KubeObject

_PATIENCE = 60.0


class ServedBoard(NamedTuple):
    """`publish` shows another moment, from whichever thread."""

    url: str
    feed: Feed
    loop: asyncio.AbstractEventLoop

    def publish(self, moment: Moment) -> None:
        async def here() -> None:
            self.feed.publish(moment)

        asyncio.run_coroutine_threadsafe(here(), self.loop).result(_PATIENCE)


def of_objects(
    objects: Iterable[KubeObject], *, title: str = "a cluster"
) -> AbstractContextManager[ServedBoard]:
    """The board of manifests."""
    held = list(objects)
    feed = _feed(title)
    sources.of_files(Cluster(held), feed, now=time.time())
    return of_feed(feed, lambda: held)


def of_moment(moment: Moment, *, title: str = "a cluster") -> AbstractContextManager[ServedBoard]:
    """The board of a moment that is there already."""
    feed = _feed(title)
    feed.publish(moment)
    return of_feed(feed, list)


def _feed(title: str) -> Feed:
    return Feed(StateReader(title=title, mode="file", decides=False))


@contextmanager
def of_feed(feed: Feed, objects: Callable[[], Iterable[KubeObject]]) -> Iterator[ServedBoard]:
    """The board of whatever is published."""
    with _loop() as loop:
        started: list[ServedBoard] = []
        ready, done = threading.Event(), asyncio.Event()

        async def serve() -> None:
            answers = BoardAnswers(feed, objects=objects)
            server = BoardServer("127.0.0.1:0", feed, answers=answers.by_name())
            async with server.listening():
                started.append(ServedBoard(server.url, feed, loop))
                ready.set()
                await done.wait()

        serving = asyncio.run_coroutine_threadsafe(serve(), loop)
        serving.add_done_callback(lambda _: ready.set())
        ready.wait(_PATIENCE)
        if not started:
            serving.result(0)
        try:
            yield started[0]
        finally:
            loop.call_soon_threadsafe(done.set)
            serving.result(_PATIENCE)


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)
        loop.close()
