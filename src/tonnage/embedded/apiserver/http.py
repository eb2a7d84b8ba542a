"""The API over HTTP on loopback, for kubectl and every other client on this machine.

There are no users here, and no other address is listened on. Other people may be on this machine,
and web pages in its browsers, so requests carry a token: kubectl sends no credentials over plain
HTTP, but it keeps the path of the server's URL, and the token is the first step of it. Beside that
no browser is listened to: it names where a page comes from, and sends no type a Kubernetes client
would.
"""

import hmac
import ipaddress
import os

from aiohttp import web

from tonnage.cluster.transport import HttpRequest, Response
from tonnage.embedded.apiserver import field_types
from tonnage.embedded.apiserver.refusals import ApiRefusal, unsupported_media_type
from tonnage.embedded.apiserver.server import ApiServer, refused
from tonnage.embedded.apiserver.watches import Watch
from tonnage.errors import InputError

LOOPBACK = "127.0.0.1"

_LARGEST_BODY = 2**25


class HttpFront:
    """Serves an `ApiServer` until closed; `port` is the one it got, for those who asked for any."""

    def __init__(
        self, server: ApiServer, *, host: str = LOOPBACK, port: int = 0, token: str = ""
    ) -> None:
        """`token` is what paths have to begin with; without one everybody here may do anything."""
        if not _is_loopback(host):
            raise InputError(
                f"address {host}: the embedded cluster has no users and no passwords, so it"
                f" listens on loopback only; expected an address such as {LOOPBACK}"
            )
        self._server = server
        self._host = host
        self._asked_port = port
        self._prefix = f"/{token}" if token else ""
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
        return f"http://{host}:{self.port}{self._prefix}"

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
        try:
            path = self._permitted(received)
            request = HttpRequest(
                method=received.method,
                path=path,
                query=tuple(received.query.items()),
                headers=tuple(received.headers.items()),
                body=await received.read(),
            )
            watch = self._server.watch(request)
            if received.method in ("POST", "PUT", "PATCH") and request.body:
                strict = received.query.get("fieldValidation") == field_types.STRICT
                field_types.check(request.body, strict=strict)
        except ApiRefusal as refusal:
            return _sent(refused(refusal))
        if watch is None:
            return _sent(self._server.answer(request))
        return await self._streamed(received, watch)

    def _permitted(self, received: web.Request) -> str:
        """The path that is asked for, without the token; refused to whoever has no business."""
        if not _is_loopback(received.url.host or ""):
            raise ApiRefusal(403, "Forbidden", "this server is for loopback only")
        if "Origin" in received.headers:
            raise ApiRefusal(403, "Forbidden", "this server does not answer web pages")
        untyped = received.can_read_body and "Content-Type" not in received.headers
        if untyped and not self._prefix:
            # What a page can send without asking first; some clients do too, but they know a token.
            raise unsupported_media_type("", ("application/json", "application/yaml"))
        path = received.rel_url.raw_path
        given, rest = path[: len(self._prefix)], path[len(self._prefix) :]
        if not hmac.compare_digest(given.encode(), self._prefix.encode()):
            why = "the path does not begin with this cluster's token: use its kubeconfig"
            raise ApiRefusal(401, "Unauthorized", why)
        return rest or "/"

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
