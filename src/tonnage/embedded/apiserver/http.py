"""The API over HTTP on loopback, for kubectl and every other client on this machine.

Whoever can connect may do anything: there are no users here, and kubectl sends no credentials over
plain HTTP. So no other address is listened on, and a web page that was led here by a name of its
own is turned away.
"""

import ipaddress
import os

from aiohttp import web

from tonnage.cluster.transport import Request, Response
from tonnage.embedded.apiserver.refusals import Refusal
from tonnage.embedded.apiserver.server import ApiServer, refused
from tonnage.embedded.apiserver.watching import Watch
from tonnage.errors import InputError

LOOPBACK = "127.0.0.1"

_LARGEST_BODY = 2**25


class HttpFront:
    """Serves an `ApiServer` until closed; `port` is the one it got, for those who asked for any."""

    def __init__(self, server: ApiServer, *, host: str = LOOPBACK, port: int = 0) -> None:
        if not _is_loopback(host):
            raise InputError(
                f"address {host}: the embedded cluster has no users and no passwords, so it"
                f" listens on loopback only; expected an address such as {LOOPBACK}"
            )
        self._server = server
        self._host = host
        self._asked_port = port
        self._open: dict[Watch, None] = {}
        self.port = 0
        application = web.Application(client_max_size=_LARGEST_BODY)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application, shutdown_timeout=1.0, handler_cancellation=True, access_log=None
        )

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._asked_port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            # asyncio's own words name the address once more.
            problem = os.strerror(error.errno) if error.errno else str(error)
            raise InputError(f"address {self._host}:{self._asked_port}: {problem}") from None
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """End all watches politely, then everything."""
        for watch in [*self._open]:
            watch.end()
        await self._runner.cleanup()

    async def _handle(self, received: web.Request) -> web.StreamResponse:
        if not _is_loopback(received.url.host or ""):
            return _sent(refused(Refusal(403, "Forbidden", "this server is for loopback only")))
        request = Request(
            method=received.method,
            path=received.rel_url.raw_path,
            query=tuple(received.query.items()),
            headers=tuple(received.headers.items()),
            body=await received.read(),
        )
        try:
            watch = self._server.watch(request)
        except Refusal as refusal:
            return _sent(refused(refusal))
        if watch is None:
            return _sent(self._server.answer(request))
        return await self._streamed(received, watch)

    async def _streamed(self, received: web.Request, watch: Watch) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self._open[watch] = None
        try:
            async with watch.events(self._server.clock) as chunks:
                await response.prepare(received)
                async for chunk in chunks:
                    await response.write(chunk)
        except ConnectionError:
            pass  # whoever watched has left
        finally:
            del self._open[watch]
        return response


def _sent(response: Response) -> web.Response:
    return web.Response(status=response.status, headers=response.headers, body=response.body)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
