"""A way to an API server on which nothing can be changed: what a dry run talks through."""

from contextlib import AbstractAsyncContextManager

from tonnage.cluster.transport import HttpRequest, Response, Stream, Transport
from tonnage.errors import ClusterError


class ReadOnlyTransport:
    """Sends what only reads; whoever tries to write, by mistake, learns that nothing was sent."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: HttpRequest) -> Response:
        if request.method != "GET":
            raise ClusterError(f"{request.method} {request.path}: not sent, this is a dry run")
        return await self._transport.send(request)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()
