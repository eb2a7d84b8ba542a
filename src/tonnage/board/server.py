"""The page over HTTP: its files, the state, the stream of differences, and questions.

On loopback everybody who gets there may look; elsewhere a certificate is required of them, as of
those who ask the extender. Whoever looks changes nothing: what-ifs are thought through on a copy.
"""

import asyncio
import base64
import gzip
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, TypeAlias

import msgspec
from aiohttp import web

from tonnage.autoscaler.program import AutoscalerProgram
from tonnage.board import sources
from tonnage.board.answers import BoardAnswers
from tonnage.board.feed import Feed
from tonnage.board.page_state import StateReader
from tonnage.board.sources import FollowedAutoscaler
from tonnage.clock import Clock, SystemClock
from tonnage.errors import InputError
from tonnage.report import style
from tonnage.service import addresses, lifecycle
from tonnage.service.certificates import Certificates
from tonnage.service.http_questions import HttpQuestions, Reply
from tonnage.service.listener import ConnectionLimits, Handler, Listener, certificate_of

_LARGEST_BODY = 64 * 1024
_READERS = 40
_RENEW = 60.0
"""Seconds between two looks at the files of the certificate."""

_LIMITS = ConnectionLimits(connections=200)
_HEARTBEAT = 15.0
"""Seconds after which a reader hears that there is nothing new: proxies close silent ways."""

LOOPBACK_ONLY = (
    "{option} {address}: whoever reaches it sees names of pods and nodes: expected a certificate, "
    "its key and the authority of client certificates; or a loopback address"
)

Answer: TypeAlias = Callable[[Any], Awaitable[object]]
"""Answers a question of the page, given as decoded JSON."""

_log = logging.getLogger(__name__)


class BoardServer:
    """Serves until closed; `port` is the one it got, for those who asked for any."""

    def __init__(
        self,
        address: str,
        feed: Feed,
        *,
        answers: dict[str, Answer],
        certificates: Certificates | None = None,
        clock: Clock | None = None,
        option: str = "--address",
    ) -> None:
        check(address, certificates, option=option)
        loopback = addresses.is_loopback(address)
        self._feed = feed
        self._certificates = certificates
        self._clock = clock or SystemClock()
        self._loopback = loopback
        self._host = addresses.split(address)[0] or "localhost"
        self._closing = asyncio.Event()
        application = web.Application(
            client_max_size=_LARGEST_BODY, middlewares=[_headed, self._guarded]
        )
        router = application.router
        router.add_get("/", self._asset)
        router.add_get("/static/{path:.+}", self._asset)
        router.add_get("/api/state", self._state)
        router.add_get("/api/changes", self._changes)
        asked = HttpQuestions(
            clock=self._clock, certificates=certificates, largest_body=_LARGEST_BODY, at_once=4
        )
        for name, answer in answers.items():
            router.add_post(f"/api/{name}", asked.handler(_question(answer)))
        self._listener = Listener(address, application, certificates=certificates, limits=_LIMITS)

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def url(self) -> str:
        scheme = "https" if self._certificates is not None else "http"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self.port}/"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Answer until the end of the block."""
        async with self._listener.listening():
            _log.info("board is served", extra={"port": self.port})
            try:
                async with lifecycle.beside(self._renew_certificates()):
                    yield
            finally:
                self._closing.set()

    async def _renew_certificates(self) -> None:
        while self._certificates is not None:
            await self._clock.sleep(_RENEW)
            self._certificates.check()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Not for pages of others, and not for who has no certificate where one is required."""
        if self._certificates is not None:
            stranger = self._certificates.refusal(certificate_of(request))
            if stranger:
                raise web.HTTPForbidden(text=f"{stranger}\n")
        name = request.url.host or ""
        if self._loopback and not addresses.is_loopback(f"{name}:0"):
            # A name that somebody else lets point here would make this page theirs.
            raise web.HTTPForbidden(text="expected a request to localhost\n")
        origin = request.headers.get("Origin")
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        own = origin is None or origin.partition("://")[2] == request.host
        if not own or (site not in ("same-origin", "none") and request.path != "/"):
            raise web.HTTPForbidden(text="expected a request of this page itself\n")
        return await handler(request)

    async def _asset(self, request: web.Request) -> web.Response:
        found = assets().get(request.match_info.get("path", ""))
        if found is None:
            raise web.HTTPNotFound
        tag = f'"{found.tag}"'
        headers = {
            "Content-Type": found.content_type,
            "Content-Encoding": "gzip",
            "ETag": tag,
            "Cache-Control": "no-cache",
        }
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.Response(body=found.content, headers=headers)

    async def _state(self, _: web.Request) -> web.Response:
        await self._feed.ready()
        return web.Response(
            body=self._feed.packed(),
            headers={
                "Content-Type": "application/json",
                "Content-Encoding": "gzip",
                "Cache-Control": "no-store",
            },
        )

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Differences since a revision, as they come: an event stream."""
        since = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        if not since.isascii() or not since.isdigit():
            raise web.HTTPBadRequest(text="since: expected a revision\n")
        if self._feed.followers >= _READERS:
            raise web.HTTPServiceUnavailable(text=f"{_READERS} are looking already\n")
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        with self._feed.followed(int(since)) as follower, suppress(ConnectionError):
            await response.write(b"retry: 2000\n\n")
            while not self._closing.is_set():
                if follower.lost:
                    await response.write(b"event: again\ndata: {}\n\n")
                    break
                try:
                    async with self._clock.timeout(_HEARTBEAT):
                        revision, part = await follower.parts.get()
                except TimeoutError:
                    await response.write(b": nothing new\n\n")
                    continue
                await response.write(b"id: %d\ndata: %s\n\n" % (revision, part))
        return response


def _question(answer: Answer) -> Callable[[bytes], Awaitable[Reply]]:
    async def asked(body: bytes) -> Reply:
        try:
            question = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise InputError(f"the question is not JSON: {error}") from None
        return Reply(msgspec.json.encode(await answer(question), enc_hook=str))

    return asked


def check(address: str, certificates: Certificates | None, *, option: str) -> None:
    """Refuse an address that others reach, unless they have to show who they are."""
    checked = certificates is not None and certificates.clients_are_checked
    if not checked and not addresses.is_loopback(address):
        raise InputError(LOOPBACK_ONLY.format(option=option, address=address))


@asynccontextmanager
async def beside_autoscaler(
    program: AutoscalerProgram,
    address: str,
    *,
    title: str,
    clock: Clock,
    certificates: Certificates | None,
) -> AsyncIterator["BoardServer"]:
    """The board of an autoscaler that runs in this process, for the length of the block."""
    reader = StateReader(
        title=title, mode="live", decides=True, asked_at_once=sources.ASKED_AT_ONCE
    )
    feed = Feed(reader)
    followed = FollowedAutoscaler(feed, lambda: program, clock=clock)
    answers = BoardAnswers(feed, objects=followed.objects, busy=followed.busy)
    server = BoardServer(
        address,
        feed,
        answers=answers.by_name(),
        certificates=certificates,
        clock=clock,
        option="--board-address",
    )
    async with server.listening(), lifecycle.beside(followed.run()):
        yield server


@web.middleware
async def _headed(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every answer says what a browser may do with it."""
    try:
        response: web.StreamResponse = await handler(request)
    except web.HTTPException as error:
        error.headers.update(_headers())
        raise
    if not response.prepared:
        response.headers.update(_headers())
    return response


def _headers() -> dict[str, str]:
    return {
        "Content-Security-Policy": security_policy(),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

FILES = {
    "": ("tonnage.board", "index.html"),
    "icon.svg": ("tonnage.board", "icon.svg"),
    "board.css": ("tonnage.board", "board.css"),
    **{
        name: ("tonnage.board", name)
        for name in ("board.js", "state.js", "parts.js", "slots.js", "views.js", "timeline.js")
    },
    **{
        f"vendor/{name}": ("tonnage.board", f"vendor/{name}")
        for name in ("preact.mjs", "preact-hooks.mjs", "signals.mjs", "signals-core.mjs", "htm.mjs")
    },
    "chart.js": ("tonnage.report", "chart.js"),
    **{
        f"vendor/{name}": ("tonnage.report", f"vendor/{name}")
        for name in ("uPlot.iife.min.js", "uPlot.min.css")
    },
}
"""By the path they are served at, whose they are and where they lie below its `static`."""

_COMMENT = re.compile(rb"^[ \t]*(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/)\n", re.MULTILINE)
"""Lines that are only for who reads the files: a tenth of what would be sent."""

_IMPORT_MAP = '<script type="importmap">'


class Asset(NamedTuple):
    content: bytes
    """Compressed."""
    content_type: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """All files by path."""
    found = {}
    for path in (*FILES, "look.css"):
        content = _read(path)
        suffix = "." + (path or "index.html").rpartition(".")[2]
        tag = hashlib.sha256(content).hexdigest()[:16]
        found[path] = Asset(gzip.compress(content, 9, mtime=0), _TYPES[suffix], tag)
    return found


@cache
def security_policy() -> str:
    """What a browser may do for the page: run and fetch what comes from here, and nothing else.

    The one script that stands in the page itself says where modules are, and is named by its hash.
    """
    page = _read("").decode()
    begin = page.index(_IMPORT_MAP) + len(_IMPORT_MAP)
    inline = page[begin : page.index("</script>", begin)]
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def _read(path: str) -> bytes:
    if path == "look.css":
        return style.shared().encode()
    package, name = FILES[path]
    content = resources.files(package).joinpath("static").joinpath(name).read_bytes()
    if path.endswith(".js") and not path.startswith("vendor/"):
        content = _COMMENT.sub(b"", content)
    return content
