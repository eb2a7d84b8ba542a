"""The embedded API keeps what the cluster client relies on, in process and over HTTP."""

import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from tests.contracts.cluster import ClusterContract, ContractContext
from tonnage.clock import Clock, SystemClock
from tonnage.clock.virtual import VirtualClock, run
from tonnage.cluster.client import Client
from tonnage.cluster.config import Access, Endpoint, User
from tonnage.cluster.http import HttpTransport
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.embedded.apiserver.http import HttpFront

REMEMBERED = 50


class TestInProcess(ClusterContract):
    """In virtual time, without a socket."""

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._clock = VirtualClock(horizon=86_400.0)
        run(main, clock=self._clock)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[Client, Clock]]:
        server = ApiServer(clock=self._clock, rng=random.Random(1), remembered=REMEMBERED)
        rng = random.Random(2)
        yield Client(InProcessTransport(server), clock=self._clock, rng=rng), self._clock

    async def forget(self, context: ContractContext) -> None:
        await churn(context)


class TestOverHttp(ClusterContract):
    """The same through a socket. Time that jumps waits a little for bytes on their way."""

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._clock = VirtualClock(grace=0.02, horizon=86_400.0)
        run(main, clock=self._clock)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[Client, Clock]]:
        server = ApiServer(clock=self._clock, rng=random.Random(1), remembered=REMEMBERED)
        front = HttpFront(server)
        await front.start()
        access = Access(endpoint=Endpoint(server=front.url), user=User())
        transport = HttpTransport(access, clock=SystemClock(), environ={})
        try:
            yield Client(transport, clock=self._clock, rng=random.Random(2)), self._clock
        finally:
            await transport.close()
            await front.close()

    async def forget(self, context: ContractContext) -> None:
        await churn(context)


async def churn(context: ContractContext) -> None:
    """More changes than the server remembers."""
    for number in range(REMEMBERED + 1):
        await context.patch("one", {"data": {"n": str(number)}})
