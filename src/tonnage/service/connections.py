"""A way to a Kubernetes API for as long as somebody needs it."""

import logging
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

from tonnage.clock import Clock, SystemClock
from tonnage.cluster.calls import CallPatience
from tonnage.cluster.client import Client
from tonnage.cluster.config import Access
from tonnage.cluster.http import HttpTransport
from tonnage.cluster.transport import HttpRequest, Response, Stream, Transport
from tonnage.errors import ClusterError

_RETRY = 5.0

_log = logging.getLogger(__name__)


class Connection(NamedTuple):
    """A cluster to talk to, and the clock and the random source of the process that does."""

    client: Client
    clock: Clock
    rng: random.Random


@asynccontextmanager
async def connected(
    access: Access,
    *,
    environ: Mapping[str, str],
    read_only: bool = False,
    patience: CallPatience | None = None,
) -> AsyncIterator[Connection]:
    """A connection until the end of the block; `read_only` for dry runs, which change nothing."""
    clock = SystemClock()
    rng = random.Random()
    transport = HttpTransport(access, clock=clock, environ=environ)
    try:
        way = ReadOnlyTransport(transport) if read_only else transport
        yield Connection(Client(way, clock=clock, rng=rng, patience=patience), clock, rng)
    finally:
        await transport.close()


async def server_version(client: Client, *, clock: Clock, patient: bool = True) -> str:
    """What the API server says it is. Whoever is patient waits for a server that is not there."""
    while True:
        try:
            return await client.version()
        except ClusterError as error:
            if not patient:
                raise
            _log.warning("API server not reached", extra={"error": str(error)})
            await clock.sleep(_RETRY)


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
