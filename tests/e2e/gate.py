"""A way to the API server that somebody stands in: requests can be held up and watches cut.

Everything that passes goes to the real server and back as it is, credentials too.
"""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

import aiohttp
from aiohttp import web
from yarl import URL

from tests.e2e.background import Background
from tests.e2e.controlplane import ControlPlane

_HOP_BY_HOP = frozenset({"connection", "content-length", "host", "transfer-encoding"})


class Held:
    """A request that has been stopped on its way, before the server has it or after."""

    def __init__(self, method: str, path: str, *, answered: bool) -> None:
        self.method = method
        self.path = path
        self.answered = answered
        self.arrived = asyncio.Event()
        self.released = asyncio.Event()
        self.answer_passed = asyncio.Event()
        """The answer is with whoever asked, or its machine at least."""


class Gate:
    """Forwards to the server of one cluster, from an address of its own."""

    def __init__(self, cluster: ControlPlane, background: Background) -> None:
        self._cluster = cluster
        self._background = background
        self._held: list[Held] = []
        self._watches: set[asyncio.Task[object]] = set()
        self._session: aiohttp.ClientSession
        self._runner: web.AppRunner
        self.server = ""
        self.cuts = 0
        """Watches that were cut so far."""

    @classmethod
    def open(cls, cluster: ControlPlane, background: Background) -> Self:
        gate = cls(cluster, background)
        background.run(gate._start())
        return gate

    def close(self) -> None:
        self._background.run(self._close())

    def hold(self, method: str, path: str, *, answered: bool = False) -> Held:
        """Stop the next such request; `answered`: the server gets it, and only its answer stops."""

        def arm() -> Held:
            held = Held(method, path, answered=answered)
            self._held.append(held)
            return held

        return self._background.call(arm)

    def wait_arrived(self, held: Held, *, within: float = 240.0) -> None:
        async def arrived() -> None:
            async with asyncio.timeout(within):
                await held.arrived.wait()

        self._background.run(arrived(), within=within + 5)

    def release(self, held: Held) -> None:
        """Let it go on; whoever asked has the answer, also if it cannot look at it now."""

        async def released() -> None:
            held.released.set()
            await held.answer_passed.wait()

        self._background.run(released())

    def watches(self) -> int:
        """Connections on which changes are being told."""
        return self._background.call(lambda: len(self._watches))

    def cut_watches(self) -> int:
        """Close all connections on which changes are being told; how many those were."""

        def cut() -> int:
            watches = list(self._watches)
            for watch in watches:
                watch.cancel()
            self.cuts += len(watches)
            return len(watches)

        return self._background.call(cut)

    async def _start(self) -> None:
        context = ssl.create_default_context(cafile=self._cluster.authority)
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(), auto_decompress=False
        )
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(*self._cluster.certificate)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=serving).start()
        self.server = f"https://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _close(self) -> None:
        for held in self._held:
            held.released.set()
        await self._session.close()
        await self._runner.cleanup()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        held = self._stopping(request)
        try:
            return await self._answered(request, body, held)
        finally:
            if held is not None:
                held.answer_passed.set()

    async def _answered(
        self, request: web.Request, body: bytes, held: Held | None
    ) -> web.StreamResponse:
        if held is not None and not held.answered:
            held.arrived.set()
            await held.released.wait()
        url = URL(self._cluster.server + request.raw_path, encoded=True)
        headers = _end_to_end(request.headers)
        watching = asyncio.current_task() if request.query.get("watch") in ("1", "true") else None
        if watching is not None:
            self._watches.add(watching)
        try:
            async with self._session.request(
                request.method, url, headers=headers, data=body or None, allow_redirects=False
            ) as answer:
                if held is not None and held.answered:
                    held.arrived.set()
                    await held.released.wait()
                return await self._pass_back(request, answer)
        finally:
            if watching is not None:
                self._watches.discard(watching)

    async def _pass_back(
        self, request: web.Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            status=answer.status, reason=answer.reason, headers=_end_to_end(answer.headers)
        )
        await response.prepare(request)
        with suppress(ConnectionError):
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
        return response

    def _stopping(self, request: web.Request) -> Held | None:
        for held in self._held:
            if held.method == request.method and held.path == request.path:
                self._held.remove(held)
                return held
        return None


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
