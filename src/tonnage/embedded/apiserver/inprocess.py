"""The way to the API that never leaves the process: for simulations and tests in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tonnage.cluster.transport import HttpRequest, Response, Stream
from tonnage.embedded.apiserver.refusals import ApiRefusal
from tonnage.embedded.apiserver.server import ApiServer, refused
from tonnage.embedded.apiserver.watches import lines


class InProcessTransport:
    """A `Transport` to a server in the same process."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def send(self, request: HttpRequest) -> Response:
        # As over a network, others may be faster; and nobody who only sends keeps them waiting.
        await asyncio.sleep(0)
        return self._server.answer(request)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[Stream]:
        await asyncio.sleep(0)
        try:
            watch = self._server.watch(request)
        except ApiRefusal as refusal:
            yield _whole(refused(refusal))
            return
        if watch is None:
            yield _whole(self._server.answer(request))
            return
        async with watch.told(self._server.clock) as told:
            headers = {"content-type": "application/json"}
            yield Stream(status=200, headers=headers, chunks=lines(told), told=told)

    async def close(self) -> None:
        """Nothing is held."""


def _whole(response: Response) -> Stream:
    async def chunks() -> AsyncIterator[bytes]:
        yield response.body

    return Stream(status=response.status, headers=response.headers, chunks=chunks())
