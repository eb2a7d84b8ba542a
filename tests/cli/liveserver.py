"""A live cluster for commands: the loopback API server in a thread of its own, and a kubeconfig."""

import asyncio
import base64
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme
import yaml
from aiohttp import web

from tests.cli.conftest import manifest
from tests.cluster.apiserver import Answer, ApiServer, answer, status
from tonnage.cluster import resources
from tonnage.objects.kinds import KubeObject

TOKEN = "a-token"


class LiveCluster:
    """Objects behind HTTPS, and the kubeconfig that leads to them."""

    def __init__(self, server: ApiServer, kubeconfig: Path) -> None:
        self.server = server
        self.kubeconfig = str(kubeconfig)

    def add(self, objects: Iterable[KubeObject]) -> None:
        for one in objects:
            resource = resources.of(type(one))
            self.server.put(resource.path(namespace=one.metadata.namespace), manifest(one))

    def forbid(self, kind: type[KubeObject]) -> None:
        self.script(kind, answer(lambda: status(403, "Forbidden", message="no such right")))

    def script(self, kind: type[KubeObject], *answers: Answer) -> None:
        self.server.script("GET", resources.of(kind).path(), *answers)

    def lists_of(self, kind: type[KubeObject]) -> list[web.Request]:
        return self.server.asked("GET", resources.of(kind).path())


@contextmanager
def live_cluster(directory: Path, *, version: str = "v1.37.0") -> Iterator[LiveCluster]:
    """A cluster behind TLS that runs until the end of the block."""
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> ApiServer:
        return await ApiServer(tls=tls).__aenter__()

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    server.objects["/version"] = {"gitVersion": version}
    try:
        yield LiveCluster(server, _kubeconfig(directory, server, authority))
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def _kubeconfig(directory: Path, server: ApiServer, authority: trustme.CA) -> Path:
    data = base64.b64encode(authority.cert_pem.bytes()).decode()
    path = directory / "kubeconfig"
    content = {
        "clusters": [
            {"name": "c", "cluster": {"server": server.url, "certificate-authority-data": data}}
        ],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [
            {"name": "production", "context": {"cluster": "c", "user": "u"}},
            {"name": "stranger", "context": {"cluster": "c"}},
        ],
        "current-context": "production",
    }
    path.write_text(yaml.safe_dump(content))
    return path
