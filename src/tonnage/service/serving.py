"""What a shell tells over HTTP: is it alive, is it ready, its metrics and its status.

Some also answer questions that are put to them: a body comes in, a body goes out. Those who
listen beyond loopback do so with a certificate.
"""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeAlias

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, exposition

from tonnage.clock import Clock, SystemClock
from tonnage.errors import InputError
from tonnage.service import addresses
from tonnage.service.certificates import Certificates

Probe: TypeAlias = Callable[[], str]
"""What is wrong, or an empty text."""

Document: TypeAlias = Callable[[], object]
"""Made when it is asked for; told as JSON."""


class Reply(NamedTuple):
    """JSON for whoever asked."""

    body: bytes
    status: int = 200


Question: TypeAlias = Callable[[bytes], Awaitable[Reply]]
"""Answers the body of a POST; `InputError` says what is wrong with it."""

LARGEST_BODY = 8 * 2**20
_BODY_PATIENCE = 30.0
"""Seconds for a body to arrive; whoever is slower holds a connection for nothing."""

_log = logging.getLogger(__name__)


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
        questions: Mapping[str, Question] | None = None,
        certificates: Certificates | None = None,
        largest_body: int = LARGEST_BODY,
        clock: Clock | None = None,
    ) -> None:
        self._host, self._asked_port = addresses.split(address)
        self._registry = registry
        self._certificates = certificates
        self._clock = clock or SystemClock()
        self.port = 0
        application = web.Application(client_max_size=largest_body)
        for path in ("/healthz", "/livez", "/health-check"):
            application.router.add_get(path, _probe(alive))
        application.router.add_get("/readyz", _probe(ready))
        application.router.add_get("/metrics", self._metrics)
        for path, document in documents.items():
            application.router.add_get(path, _document(document))
        for path, question in (questions or {}).items():
            application.router.add_post(path, self._question(question))
        # No log of every access: it would be written even where nobody reads it.
        self._runner = web.AppRunner(application, shutdown_timeout=1.0, access_log=None)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Answer until the end of the block."""
        await self.start()
        try:
            _log.info("listening", extra={"port": self.port})
            yield
        finally:
            await self.close()

    async def start(self) -> None:
        await self._runner.setup()
        context = self._certificates.context if self._certificates else None
        site = web.TCPSite(self._runner, self._host or None, self._asked_port, ssl_context=context)
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

    def _question(self, question: Question) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            if self._unknown_client(request):
                return _told(error_reply("a client certificate is required", status=403))
            try:
                async with self._clock.timeout(_BODY_PATIENCE):
                    body = await request.read()
            except web.HTTPRequestEntityTooLarge as error:
                return _told(error_reply(f"the body is too large: {error.text}", status=413))
            except TimeoutError:
                return _told(error_reply("the body did not arrive in time", status=408))
            try:
                return _told(await question(body))
            except InputError as error:
                return _told(error_reply(str(error), status=400))
            except Exception:
                _log.exception("question not answered", extra={"path": request.path})
                return _told(error_reply("internal error, see the log", status=500))

        return answer

    def _unknown_client(self, request: web.Request) -> bool:
        if self._certificates is None or not self._certificates.clients_are_checked:
            return False
        connection = request.get_extra_info("ssl_object")
        return not (isinstance(connection, ssl.SSLObject) and connection.getpeercert())


def error_reply(message: str, *, status: int) -> Reply:
    """Why there is no answer, as JSON of one field, spelt as kube-scheduler spells it."""
    return Reply(msgspec.json.encode({"Error": message}), status)


def _told(reply: Reply) -> web.Response:
    return web.Response(body=reply.body, status=reply.status, content_type="application/json")


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
