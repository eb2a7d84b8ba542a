"""The transport over the network: HTTP/1.1 and TLS by aiohttp.

aiohttp's own timeouts are off, because all waiting goes through the clock of the caller. So is
compression: on a list of 120 MB inflating costs more than decoding, and the network between a
controller and its API server is not what is scarce.
"""

import importlib.metadata
import logging
import socket
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from tonnage.clock import Clock
from tonnage.cluster import auth
from tonnage.cluster.config import Access
from tonnage.cluster.errors import ConnectionFailed, CredentialsFailed
from tonnage.cluster.transport import HttpRequest, Response, Stream

CONNECTIONS = 128
"""More than kinds to watch, each of which holds one, and requests at a time."""

_log = logging.getLogger(__name__)

_READ_BUFFER = 2**20
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


class HttpTransport:
    """Requests to one API server as one user; a refused identity is renewed once, then believed."""

    def __init__(self, access: Access, *, clock: Clock, environ: Mapping[str, str]) -> None:
        self._endpoint = access.endpoint
        self._impersonation = access.user.impersonation
        self._credentials = auth.credentials(access.user, clock=clock, environ=environ)
        self._authority = auth.Material(access.endpoint.authority or b"", clock=clock)
        self._tls: tuple[object, ssl.SSLContext] | None = None
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: HttpRequest) -> Response:
        async with self.stream(request) as stream:
            body = b"".join([chunk async for chunk in stream.chunks])
            return Response(status=stream.status, headers=stream.headers, body=body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[Stream]:
        identity = await self._credentials.current()
        response = await self._ask(request, identity)
        try:
            if response.status == 401:
                newer = await self._credentials.renew(identity)
                if newer != identity:
                    response.close()
                    response = await self._ask(request, newer)
            headers = {name.lower(): value for name, value in response.headers.items()}
            async with aclosing(self._chunks(response)) as chunks:
                yield Stream(status=response.status, headers=headers, chunks=chunks)
        finally:
            # A body read to its end has given its connection back already; any other is cut.
            response.close()

    @asynccontextmanager
    async def websocket(
        self, path: str, *, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A connection that the server upgrades, such as a forwarded port."""
        identity = await self._credentials.current()
        headers = [*self._impersonation]
        if identity.token:
            headers.append(("Authorization", f"Bearer {identity.token}"))
        url = URL(self._endpoint.server + path, encoded=True).with_query(query)
        secure = url.scheme == "https"
        try:
            async with self._open_session().ws_connect(
                url,
                headers=CIMultiDict(headers),
                protocols=tuple(protocols),
                ssl=self._context(identity) if secure else True,
                server_hostname=self._endpoint.server_name or None if secure else None,
                proxy=self._endpoint.proxy or None,
                max_msg_size=0,
            ) as opened:
                yield opened
        except (aiohttp.ClientError, OSError) as error:
            raise self._lost(error) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, request: HttpRequest, identity: auth.Identity) -> aiohttp.ClientResponse:
        headers = [*request.headers, *self._impersonation]
        if identity.token:
            headers.append(("Authorization", f"Bearer {identity.token}"))
        url = URL(self._endpoint.server + request.path, encoded=True)
        secure = url.scheme == "https"
        try:
            return await self._open_session().request(
                request.method,
                url.with_query(request.query) if request.query else url,
                headers=headers,
                data=request.body,
                allow_redirects=False,
                ssl=self._context(identity) if secure else True,
                server_hostname=self._endpoint.server_name or None if secure else None,
                proxy=self._endpoint.proxy or None,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise self._lost(error) from error

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise self._lost(error) from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS, socket_factory=_socket),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",
                    "User-Agent": f"tonnage/{importlib.metadata.version('tonnage')}",
                },
                timeout=_NO_TIMEOUT,
                read_bufsize=_READ_BUFFER,
            )
        return self._session

    def _context(self, identity: auth.Identity) -> ssl.SSLContext:
        """The TLS context for an identity; a new one, and so new connections, when it changes."""
        authority = self._authority.read()
        material = (authority, identity.certificate, identity.key)
        if self._tls is None:
            self._tls = (material, self._new_context(authority, identity))
        elif self._tls[0] != material:
            try:
                self._tls = (material, self._new_context(authority, identity))
            except CredentialsFailed as error:
                # Half of a pair that is just being replaced; the other half is read in a minute.
                _log.warning("using the certificate from before", extra={"why": str(error)})
        return self._tls[1]

    def _new_context(self, authority: bytes, identity: auth.Identity) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cadata=authority.decode() or None)
            # As every other client of Kubernetes checks: authorities that clusters make for
            # themselves often lack extensions that newer Pythons ask for, and what is trusted may
            # be an intermediate authority.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            if self._endpoint.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if identity.certificate:
                _load_certificate(context, identity)
        except (ssl.SSLError, ValueError) as error:
            raise CredentialsFailed(
                f"{self._endpoint.shown}: the certificate authority, or the client certificate"
                f" and key, are not usable PEM: {error}"
            ) from error
        return context

    def _lost(self, error: Exception) -> ConnectionFailed:
        # aiohttp names its TLS setting after the host, which tells nobody anything.
        text = str(error).replace(" ssl:default", "")
        why = self._endpoint.without_secrets(text) or type(error).__name__
        return ConnectionFailed(f"{self._endpoint.shown}: {why}")


def _load_certificate(context: ssl.SSLContext, identity: auth.Identity) -> None:
    # Python reads certificates from files only; this one is readable by us alone and is gone
    # again at the end of the block.
    with tempfile.TemporaryDirectory(prefix="tonnage-") as directory:
        path = Path(directory) / "client.pem"
        path.touch(mode=0o600)
        path.write_bytes(identity.certificate + b"\n" + identity.key)
        context.load_cert_chain(path, password=_no_password)


def _no_password() -> str:
    # Without this, OpenSSL asks on the terminal and a controller hangs.
    raise ValueError("the client key is encrypted; expected an unencrypted one")


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within a minute that the other side is gone without a word."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 45_000)
    return made
