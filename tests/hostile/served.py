"""A port as every shell serves it, in this process or in one of its own, and who connects to it."""

import asyncio
import http.client
import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import trustme
from prometheus_client import CollectorRegistry

from tonnage.service import logs
from tonnage.service.certificates import Certificates
from tonnage.service.http_questions import Question, Reply
from tonnage.service.listener import ConnectionLimits
from tonnage.service.status_server import StatusServer

SECONDS = 60.0
"""Longer than anything here takes; nothing is measured by it."""


class Identity(NamedTuple):
    """An authority, what it has issued to the server, and files of both."""

    authority: trustme.CA
    certificate: Path
    key: Path
    ca: Path

    def certificates(self, *names: str) -> Certificates:
        """Of a server that checks its clients."""
        return Certificates(self.certificate, self.key, client_ca=self.ca, client_names=names)

    def context(self, *, common_name: str | None = None) -> ssl.SSLContext:
        """Of a client, with a certificate if it has a name."""
        context = ssl.create_default_context(cafile=self.ca)
        if common_name is not None:
            self.authority.issue_cert(common_name=common_name).configure_cert(context)
        return context


def identity(directory: Path) -> Identity:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    made = Identity(authority, directory / "tls.crt", directory / "tls.key", directory / "ca.crt")
    issued.private_key_pem.write_to_path(made.key)
    issued.cert_chain_pems[0].write_to_path(made.certificate)
    authority.cert_pem.write_to_path(made.ca)
    return made


async def echo(body: bytes) -> Reply:
    return Reply(body)


@asynccontextmanager
async def serving(
    *,
    certificates: Certificates | None = None,
    limits: ConnectionLimits | None = None,
    question: Question = echo,
) -> AsyncIterator[StatusServer]:
    server = StatusServer(
        "127.0.0.1:0",
        alive=str,
        ready=str,
        registry=CollectorRegistry(),
        documents={},
        questions={"/echo": question},
        certificates=certificates,
        limits=limits,
    )
    async with server.listening():
        yield server


async def sent(port: int, *parts: bytes) -> bytes:
    """Everything that comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def request(
    path: str = "/healthz", *, method: str = "GET", body: bytes = b"", **more: str
) -> bytes:
    """A request as bytes; headers are given with underscores in place of hyphens."""
    headers = {"Host": "localhost", "Content-Length": str(len(body))}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


class Victim:
    """A process that serves, as it is seen from outside."""

    def __init__(self, process: "subprocess.Popen[str]", port: int, known: Identity) -> None:
        self.process = process
        self.port = port
        self.identity = known

    @property
    def megabytes(self) -> float:
        """Memory that is in use now."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

    def healthy(self) -> bool:
        context = self.identity.context()
        connection = http.client.HTTPSConnection(
            "localhost", self.port, context=context, timeout=SECONDS
        )
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def connect(self, number: int, *, tls: bool = True) -> list[socket.socket]:
        """So many clients that say nothing; those that are turned away are not among them."""
        context = self.identity.context()
        made = []
        for _ in range(number):
            plain = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
            try:
                kept = context.wrap_socket(plain, server_hostname="localhost") if tls else plain
            except OSError:
                plain.close()
            else:
                made.append(kept)
        return made


@contextmanager
def victim(directory: Path, *, descriptors: int = 1024) -> Iterator[Victim]:
    """A server in a process of its own; what it logs is in `log` of the directory."""
    known = identity(directory)
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.served", str(directory), str(descriptors)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=Path(__file__).parents[2],
            env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    try:
        assert process.stdout is not None
        yield Victim(process, int(process.stdout.readline()), known)
    finally:
        process.kill()
        process.communicate()


async def _serve(directory: Path, ready: Callable[[int], None]) -> None:
    files = Certificates(
        directory / "tls.crt", directory / "tls.key", client_ca=directory / "ca.crt"
    )
    async with serving(certificates=files) as server:
        ready(server.port)
        await asyncio.Event().wait()


if __name__ == "__main__":
    most = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logs.set_up()
    asyncio.run(_serve(Path(sys.argv[1]), lambda port: print(port, flush=True)))
