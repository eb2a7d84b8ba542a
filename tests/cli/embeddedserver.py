"""The embedded API server over HTTP in a thread of its own, for commands that read a cluster."""

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tonnage.clock import SystemClock
from tonnage.cluster.transport import HttpRequest, Response
from tonnage.embedded.apiserver import ApiServer, kubeconfig
from tonnage.embedded.apiserver.http import HttpFront
from tonnage.embedded.apiserver.refusals import ApiRefusal
from tonnage.embedded.apiserver.server import refused
from tonnage.embedded.apiserver.watches import Watch


class GuardedServer(ApiServer):
    """An API server that keeps some kinds, by their plural, from whoever asks."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock(), rng=random.Random(1))
        self.kept_back: set[str] = set()

    def answer(self, request: HttpRequest) -> Response:
        refusal = self._refusal(request)
        return super().answer(request) if refusal is None else refused(refusal)

    def watch(self, request: HttpRequest) -> Watch | None:
        refusal = self._refusal(request)
        if refusal is not None:
            raise refusal
        return super().watch(request)

    def _refusal(self, request: HttpRequest) -> ApiRefusal | None:
        plural = request.path.rpartition("/")[2]
        if plural not in self.kept_back:
            return None
        return ApiRefusal(403, "Forbidden", f"{plural} is forbidden: no such right")


class EmbeddedCluster:
    """`kubeconfig` leads to `server`."""

    def __init__(self, server: GuardedServer, kubeconfig: Path, *, port: int) -> None:
        self.server = server
        self.kubeconfig = str(kubeconfig)
        self.address = f"127.0.0.1:{port}"

    def create(self, collection: str, obj: dict[str, Any]) -> None:
        headers = (("Content-Type", "application/json"),)
        body = json.dumps(obj).encode()
        request = HttpRequest(method="POST", path=collection, headers=headers, body=body)
        made = self.server.answer(request)
        assert made.status == 201, made.body


@contextmanager
def embedded_cluster(directory: Path) -> Iterator[EmbeddedCluster]:
    """An empty cluster that runs until the end of the block."""
    server = GuardedServer()
    front = HttpFront(server)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(front.start(), loop).result(10)
    path = directory / "kubeconfig"
    path.write_text(kubeconfig.text(front.url))
    try:
        yield EmbeddedCluster(server, path, port=front.port)
    finally:
        asyncio.run_coroutine_threadsafe(front.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
        server.close()
