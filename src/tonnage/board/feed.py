"""The newest state of the page, and those who follow it."""

import asyncio
import gzip
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from tonnage.board import page_state
from tonnage.board.moment import Moment
from tonnage.board.page_state import PageState, StateReader

KEPT_PARTS = 200
MANY_BEHIND = 400
"""Parts that wait for one reader; who is further behind begins anew."""


class Follower:
    """Parts for one reader, oldest first. `lost` once it is too far behind to catch up."""

    def __init__(self) -> None:
        self.parts: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self.lost = False

    def take(self, revision: int, part: bytes) -> None:
        if self.parts.qsize() >= MANY_BEHIND:
            self.lost = True
        if not self.lost:
            self.parts.put_nowait((revision, part))


class Feed:
    """`revision` grows with every state that differs; a state is read once, whoever looks.

    `moment` is what the newest state was made of, for questions.
    """

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader
        self._state: PageState | None = None
        self._followers: list[Follower] = []
        self._parts: deque[tuple[int, bytes]] = deque(maxlen=KEPT_PARTS)
        self._packed: tuple[int, bytes] = (-1, b"")
        self._first = asyncio.Event()
        self.revision = 0
        self.moment: Moment | None = None

    def publish(self, moment: Moment) -> None:
        """Show another moment. Its snapshot is read now, and must not change meanwhile."""
        state = self._reader.read(moment)
        before, self._state, self.moment = self._state, state, moment
        if before is None:
            self.revision = 1
            self._first.set()
            return
        revision = self.revision + 1
        for part in page_state.differences(before, state, revision=revision):
            self.revision = revision
            self._parts.append((revision, part))
            for follower in self._followers:
                follower.take(revision, part)

    async def ready(self) -> None:
        """Wait for the first state."""
        await self._first.wait()

    def packed(self) -> bytes:
        """The whole newest state as JSON, compressed."""
        assert self._state is not None
        if self._packed[0] != self.revision:
            document = msgspec.json.encode(self._state.document(self.revision))
            self._packed = (self.revision, gzip.compress(document, compresslevel=1))
        return self._packed[1]

    @contextmanager
    def followed(self, since: int) -> Iterator[Follower]:
        """Follow from a revision on; if too much has happened since, the follower is lost."""
        follower = Follower()
        kept = [one for one in self._parts if one[0] > since]
        oldest = self._parts[0][0] if self._parts else self.revision + 1
        # Of the oldest revision that is kept, the first parts may be gone already.
        complete = len(self._parts) < KEPT_PARTS
        if since > self.revision or (since < self.revision and since + 1 < oldest + (not complete)):
            follower.lost = True
        for revision, part in kept:
            follower.take(revision, part)
        self._followers.append(follower)
        try:
            yield follower
        finally:
            self._followers.remove(follower)

    @property
    def followers(self) -> int:
        return len(self._followers)
