"""A way to the API that can be cut for some kinds: no answer, or one with nothing in it."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

import msgspec

from tonnage.cluster.errors import ConnectionFailed
from tonnage.cluster.transport import HttpRequest, Response, Stream, Transport

Answers: TypeAlias = Literal["none", "empty"]

_GONE = msgspec.json.encode(
    {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired"}
)


class CuttableTransport:
    """Passes everything on, except for the kinds that are cut; by plural, `*` for all.

    When a cut with empty answers ends, watches are told that their version is forgotten: whoever
    believed in the nothing has to look again.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._cut: dict[str, Answers] = {}
        self._deceived: set[str] = set()
        """Kinds that somebody was told there is nothing of, and has yet to look at again."""
        self._turned = asyncio.Event()

    def cut(self, plurals: Iterable[str], answers: Answers) -> None:
        self._cut.update(dict.fromkeys(plurals, answers))
        self._turn()

    def mend(self, plurals: Iterable[str]) -> None:
        for plural in plurals:
            self._cut.pop(plural, None)
        self._turn()

    async def send(self, request: HttpRequest) -> Response:
        plural = _plural(request.path)
        state = self._state(plural)
        if state == "none":
            raise ConnectionFailed(f"{request.path}: cut by the scenario")
        answer = await self._transport.send(request)
        if state == "empty" and request.method == "GET" and answer.status == 200:
            self._deceived.add(plural)
            return _emptied(answer)
        return answer

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[Stream]:
        plural = _plural(request.path)
        state = self._state(plural)
        if state == "none":
            raise ConnectionFailed(f"{request.path}: cut by the scenario")
        if state == "empty":
            self._deceived.add(plural)
        elif plural in self._deceived:
            self._deceived.discard(plural)
            if ("sendInitialEvents", "true") not in request.query:
                yield Stream(status=410, headers={}, chunks=_whole(_GONE))
                return
        async with self._transport.stream(request) as stream:
            chunks = self._until_turned(stream.chunks, state)
            yield Stream(status=stream.status, headers=stream.headers, chunks=chunks)

    async def close(self) -> None:
        await self._transport.close()

    def _state(self, plural: str) -> Answers | None:
        return self._cut.get(plural) or self._cut.get("*")

    def _turn(self) -> None:
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    async def _until_turned(
        self, chunks: AsyncIterator[bytes], state: Answers | None
    ) -> AsyncIterator[bytes]:
        turned = asyncio.ensure_future(self._turned.wait())
        waiting: set[asyncio.Future[Any]] = {turned}
        try:
            while True:
                coming = asyncio.ensure_future(_next(chunks))
                waiting.add(coming)
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if turned.done():
                    raise ConnectionFailed("cut by the scenario")
                waiting.discard(coming)
                chunk = coming.result()
                if chunk is None:
                    return
                yield _bookmarks(chunk) if state == "empty" else chunk
        finally:
            # Not before all of them are over may the watch below be closed.
            for one in waiting:
                one.cancel()
            await asyncio.wait(waiting)


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _emptied(answer: Response) -> Response:
    tree = msgspec.json.decode(answer.body)
    if "items" not in tree:
        return answer
    kept = {key: value for key, value in tree["metadata"].items() if key == "resourceVersion"}
    body = msgspec.json.encode({**tree, "metadata": kept, "items": []})
    return Response(status=answer.status, headers=answer.headers, body=body)


def _bookmarks(chunk: bytes) -> bytes:
    """Of whole lines, those that tell of no object."""
    lines = chunk.splitlines(keepends=True)
    return b"".join(line for line in lines if line.startswith(b'{"type":"BOOKMARK"'))


def _plural(path: str) -> str:
    """What a request is about: `/apis/GROUP/VERSION/[namespaces/X/]PLURAL...`."""
    parts = path.strip("/").split("/")
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    return rest[0] if rest else ""
