"""Programs that talk to the API server of tests: in this process, or in one of their own."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

import yaml

from tests.cluster.apiserver import ApiServer
from tonnage.cluster.lease import LeadershipLost
from tonnage.testing.clock import VirtualClock


class Program(Protocol):
    def run(self) -> Awaitable[None]: ...


P = TypeVar("P", bound=Program)


@asynccontextmanager
async def running(program: P, server: ApiServer, clock: VirtualClock) -> AsyncIterator[P]:
    """The server gives a sign of life every minute, as a real one does."""
    tasks = [
        asyncio.ensure_future(program.run()),
        asyncio.ensure_future(_bookmarks(server, clock)),
    ]
    try:
        yield program
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, LeadershipLost):
                await task


async def _bookmarks(server: ApiServer, clock: VirtualClock) -> None:
    while True:
        await clock.sleep(60)
        server.bookmark()


def kubeconfig(directory: Path, server: ApiServer) -> str:
    """The flag that names a kubeconfig for the server."""
    server.objects["/version"] = {"gitVersion": "v1.37.0"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {}}],
    }
    (directory / "kubeconfig").write_text(yaml.safe_dump(content))
    return f"--kubeconfig={directory / 'kubeconfig'}"


async def started_process(*arguments: str) -> Process:
    script = [sys.executable, "-c", "from tonnage.cli import main; main()", *arguments]
    environ = {**os.environ, "HOME": "/nonexistent"}
    return await asyncio.create_subprocess_exec(*script, stdout=PIPE, stderr=PIPE, env=environ)
