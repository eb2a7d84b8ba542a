"""Connections of a port, bounded in number and in patience, whoever opens them.

The event loop's own server accepts without end, waits for ever for a request, and answers a lack
of descriptors with thousands of log lines. A TLS connection costs 280 KB as soon as it is
accepted, so it is here that a client without a certificate has to be stopped.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias, cast

from aiohttp import http_exceptions, web

from tonnage.clock import SystemClock
from tonnage.errors import system_errors
from tonnage.objects import validation
from tonnage.service import addresses
from tonnage.service.certificates import Certificates

_LOOK_EVERY = 1.0
_RETRY = 1.0
_BACKLOG = 128
_TLS_GOODBYE = 1.0
_LINGER = 1.0
"""Seconds in which the rest of a body nobody wants is read, so that its sender sees the answer."""

_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)


class ConnectionLimits(NamedTuple):
    """What a port grants its clients together, and each of them."""

    connections: int = 100
    """At a time. With one more, the one that has been silent for longest is closed."""
    first_request: float = 10.0
    """Seconds from the connection to the end of the first request's headers, TLS included."""
    idle: float = 75.0
    """Seconds from an answer to the end of the next request's headers."""


class Listener:
    """Never more than `limits.connections` are open, and none is silent for longer than allowed.

    Clients that have shown a certificate keep their connection when others crowd in. Times are
    those of the machine, because connections are.
    """

    def __init__(
        self,
        address: str,
        application: web.Application,
        *,
        certificates: Certificates | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._host, self._asked_port = addresses.split(address)
        self._certificates = certificates
        self._limits = limits or ConnectionLimits()
        self._clock = SystemClock()
        self._open: dict[web.RequestHandler, _Connection] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.port = 0
        self.refused = 0
        self.dropped = 0
        application.middlewares.insert(0, self._follow)
        # No log of every access: it would be written even where nobody reads it.
        self._runner = web.AppRunner(
            application,
            shutdown_timeout=1.0,
            access_log=None,
            logger=_http_log,
            lingering_time=_LINGER,
            # A body is taken as it is: nothing that unpacks to more than was sent.
            auto_decompress=False,
        )

    def __len__(self) -> int:
        self._forget_closed()
        return len(self._open)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Accept connections until the end of the block."""
        with system_errors(f"address {self._host}:{self._asked_port}"):
            listening = _bound(self._host, self._asked_port)
        self.port = listening.getsockname()[1]
        await self._runner.setup()
        self._tasks = [
            asyncio.create_task(self._accept(listening)),
            asyncio.create_task(self._drop_silent()),
        ]
        try:
            yield
        finally:
            await self._close()

    async def _close(self) -> None:
        """Accept nothing more, let answers under way be sent, close everything."""
        waiting = [one.handshake for one in self._open.values() if one.handshake is not None]
        for task in (*self._tasks, *waiting):
            task.cancel()
        await asyncio.gather(*self._tasks, *waiting, return_exceptions=True)
        await self._runner.cleanup()
        self._open.clear()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listening)
                except OSError as error:
                    if error.errno in _OUT_OF_RESOURCES:
                        said = error.strerror or str(error)
                        _log.error("connection not accepted", extra={"error": said})
                        if not self._drop_longest_silent():
                            await self._clock.sleep(_RETRY)
                else:
                    self._take(accepted)
                # Whoever connects as fast as we accept must leave time for everything else.
                await asyncio.sleep(0)

    def _take(self, accepted: socket.socket) -> None:
        self._forget_closed()
        if len(self._open) >= self._limits.connections and not self._drop_longest_silent():
            self.refused += 1
            _log.warning("too many connections", extra={"limit": self._limits.connections})
            accepted.close()
            return
        server = self._runner.server
        assert server is not None
        protocol = server()
        connection = self._open[protocol] = _Connection(protocol, self._clock.monotonic())
        connection.handshake = asyncio.create_task(self._begin(accepted, protocol))

    async def _begin(self, accepted: socket.socket, protocol: web.RequestHandler) -> None:
        context = self._certificates.context if self._certificates is not None else None
        # Both are for TLS and must not be given without; silent clients are dropped elsewhere too.
        patience = {
            "ssl_handshake_timeout": self._limits.first_request,
            "ssl_shutdown_timeout": _TLS_GOODBYE,
        }
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, accepted, ssl=context, **(patience if context else {})
            )
        except OSError as error:
            self._open.pop(protocol, None)
            _log.debug("no connection", extra={"error": validation.one_line(str(error))})
        except asyncio.CancelledError:
            accepted.close()
            raise

    async def _drop_silent(self) -> None:
        while True:
            await self._clock.sleep(min(_LOOK_EVERY, self._limits.first_request))
            self._forget_closed()
            now, limits = self._clock.monotonic(), self._limits
            for one in list(self._open.values()):
                allowed = limits.idle if one.answered else limits.first_request
                if not one.busy and now - one.since > allowed:
                    self._drop(one)

    def _drop_longest_silent(self) -> bool:
        """Make room for one more, if nobody is being answered on one of them."""
        silent = [one for one in self._open.values() if not one.busy]
        if not silent:
            return False
        self._drop(min(silent, key=lambda one: (one.trusted, one.since)))
        return True

    def _drop(self, connection: "_Connection") -> None:
        self.dropped += 1
        del self._open[connection.protocol]
        if connection.protocol.transport is not None:
            connection.protocol.transport.abort()
        elif connection.handshake is not None:
            connection.handshake.cancel()

    def _forget_closed(self) -> None:
        closed = [one.protocol for one in self._open.values() if one.is_closed]
        for protocol in closed:
            del self._open[protocol]

    @web.middleware
    async def _follow(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Know who is being answered; only whole headers come this far."""
        connection = self._open.get(request.protocol)
        if connection is None:
            raise web.HTTPServiceUnavailable
        if not connection.answered:
            connection.trusted = certificate_of(request) is not None
        connection.busy = True
        try:
            return await handler(request)
        finally:
            connection.busy = False
            connection.answered = True
            connection.since = self._clock.monotonic()


class _Connection:
    """`busy` while a request is being answered; otherwise `since` says for how long not."""

    __slots__ = ("answered", "busy", "handshake", "protocol", "since", "trusted")

    def __init__(self, protocol: web.RequestHandler, now: float) -> None:
        self.protocol = protocol
        self.since = now
        self.handshake: asyncio.Task[None] | None = None
        self.busy = False
        self.answered = False
        self.trusted = False

    @property
    def is_closed(self) -> bool:
        begun = self.handshake is not None and self.handshake.done()
        return begun and self.protocol.transport is None


def certificate_of(request: web.Request) -> dict[str, Any] | None:
    """The certificate that the client has shown and that was found good, if any."""
    connection = request.get_extra_info("ssl_object")
    shown = connection.getpeercert() if isinstance(connection, ssl.SSLObject) else None
    return cast(dict[str, Any], shown) if shown else None


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; without a host, on all addresses of both families."""
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    elif socket.has_dualstack_ipv6():
        made = socket.create_server(
            ("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
        )
    else:
        made = socket.create_server(("", port), backlog=_BACKLOG)
    made.setblocking(False)
    return made


class _MalformedRequests(logging.Filter):
    """What a client did wrong is told in a line; tracebacks are for mistakes of our own."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, http_exceptions.HttpProcessingError):
            record.msg, record.args = "malformed request", ()
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.exc_info = None
            record.__dict__["error"] = validation.one_line(error.message)
        return True


_http_log = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(_MalformedRequests())
