"""What a shell tells over HTTP: is it alive, is it ready, its metrics and its status.

Some also answer questions that are put to them. Those who listen beyond loopback do so with a
certificate.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, exposition
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.clock import Clock, SystemClock
from tonnage.service.certificates import Certificates
from tonnage.service.http_questions import LARGEST_BODY, HttpQuestions, Question
from tonnage.service.listener import ConnectionLimits, Handler, Listener

Probe: TypeAlias = Callable[[], str]
"""What is wrong, or an empty text."""

Document: TypeAlias = Callable[[], object]
"""Made when it is asked for; told as JSON."""

_log = logging.getLogger(__name__)


class StatusServer:
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
        limits: ConnectionLimits | None = None,
        details: Callable[[], str] = str,
    ) -> None:
        """`details` are told beside the health to who asks for it with `?verbose`."""
        self._registry = registry
        application = web.Application(client_max_size=largest_body)
        for path in ("/healthz", "/livez", "/health-check"):
            application.router.add_get(path, _probe(alive, details))
        application.router.add_get("/readyz", _probe(ready, details))
        application.router.add_get("/metrics", self._metrics)
        for path, document in documents.items():
            application.router.add_get(path, document_handler(document))
        asked = HttpQuestions(
            clock=clock or SystemClock(), certificates=certificates, largest_body=largest_body
        )
        for path, question in (questions or {}).items():
            application.router.add_post(path, asked.handler(question))
        self._listener = Listener(address, application, certificates=certificates, limits=limits)
        registry.register(ConnectionCollector(self._listener))

    @property
    def port(self) -> int:
        return self._listener.port

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Answer until the end of the block."""
        async with self._listener.listening():
            _log.info("listening", extra={"port": self.port})
            yield

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = exposition.choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})


def document_handler(document: Document) -> Handler:
    """Tells a document to whoever gets it."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(
            body=msgspec.json.encode(document(), enc_hook=str), content_type="application/json"
        )

    return answer


def _probe(probe: Probe, details: Callable[[], str]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        wrong = probe()
        text = wrong or "ok"
        if "verbose" in request.query:
            text = f"{details()}{text}\n"
        return web.Response(text=text, status=503 if wrong else 200)

    return answer


class ConnectionCollector(Collector):
    """Figures of one port; costs nothing between two scrapes."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def collect(self) -> Iterable[Metric]:
        opened = GaugeMetricFamily(
            "tonnage_http_connections", "Connections that are open.", value=len(self._listener)
        )
        turned_away = CounterMetricFamily(
            "tonnage_http_connections_turned_away",
            "Connections closed because they were silent for too long or too many.",
            labels=("reason",),
        )
        turned_away.add_metric(("silent",), self._listener.dropped)
        turned_away.add_metric(("tooMany",), self._listener.refused)
        return (opened, turned_away)
