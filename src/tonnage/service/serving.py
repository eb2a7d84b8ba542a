"""What a shell tells over HTTP: is it alive, is it ready, its metrics and its status."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, exposition

from tonnage.errors import InputError

Probe: TypeAlias = Callable[[], str]
"""What is wrong, or an empty text."""

Document: TypeAlias = Callable[[], object]
"""Made when it is asked for; told as JSON."""


class Server:
    """Answers until closed; `port` is the one it got, for those who asked for any."""

    def __init__(
        self,
        address: str,
        *,
        alive: Probe,
        ready: Probe,
        registry: CollectorRegistry,
        documents: Mapping[str, Document],
    ) -> None:
        self._host, self._asked_port = split(address)
        self._registry = registry
        self.port = 0
        application = web.Application()
        for path in ("/healthz", "/livez", "/health-check"):
            application.router.add_get(path, _probe(alive))
        application.router.add_get("/readyz", _probe(ready))
        application.router.add_get("/metrics", self._metrics)
        for path, document in documents.items():
            application.router.add_get(path, _document(document))
        self._runner = web.AppRunner(application, shutdown_timeout=1.0)

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host or None, self._asked_port)
        try:
            await site.start()
        except OSError as error:
            raise InputError(
                f"address {self._host}:{self._asked_port}: {error.strerror or error}"
            ) from None
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = exposition.choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})


def split(address: str) -> tuple[str, int]:
    """Host and port of `:8085`, `127.0.0.1:8085` or `[::1]:8085`."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise InputError(f"address {address!r}: expected HOST:PORT or :PORT")
    return host.strip("[]"), int(port)


def _probe(probe: Probe) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        wrong = probe()
        return web.Response(text=wrong or "ok", status=503 if wrong else 200)

    return answer


def _document(document: Document) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(
            body=msgspec.json.encode(document(), enc_hook=str), content_type="application/json"
        )

    return answer
