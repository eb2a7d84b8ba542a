"""What a shell tells of its inside, on a port of its own that only loopback reaches.

In a pod nobody gets there but who may forward a port to it: the right `create pods/portforward`.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from tonnage.clock import Clock, SystemClock
from tonnage.errors import InputError
from tonnage.service import addresses
from tonnage.service.http_questions import HttpQuestions, Question
from tonnage.service.listener import ConnectionLimits, Handler, Listener
from tonnage.service.status_server import Document, document_handler

_log = logging.getLogger(__name__)

_LARGEST_BODY = 2**20
_LIMITS = ConnectionLimits(connections=10)


class DebugServer:
    """Documents and questions for people; one question at a time.

    `address` is empty where nothing is to be told: then nothing listens.
    """

    def __init__(
        self,
        address: str,
        *,
        documents: Mapping[str, Document] | None = None,
        questions: Mapping[str, Question] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if address and not addresses.is_loopback(address):
            raise InputError(f"debug address {address}: expected a loopback address")
        application = web.Application(client_max_size=_LARGEST_BODY, middlewares=[_only_programs])
        for path, document in (documents or {}).items():
            application.router.add_get(path, document_handler(document))
        asked = HttpQuestions(clock=clock or SystemClock(), largest_body=_LARGEST_BODY, at_once=1)
        for path, question in (questions or {}).items():
            application.router.add_post(path, asked.handler(question))
        self._listener = Listener(address, application, limits=_LIMITS) if address else None

    @property
    def port(self) -> int:
        return self._listener.port if self._listener is not None else 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Answer until the end of the block, if at all."""
        if self._listener is None:
            yield
            return
        async with self._listener.listening():
            _log.info("listening for debugging", extra={"port": self.port})
            yield


@web.middleware
async def _only_programs(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Not for web pages, which a browser lets talk to loopback under names of their own."""
    name = request.url.host or ""
    if "Origin" in request.headers or not addresses.is_loopback(f"{name}:0"):
        raise web.HTTPForbidden(text="expected a request to localhost that no web page makes\n")
    return await handler(request)
