"""Serving with a certificate: new files are taken over, bad ones are not."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
import trustme
from prometheus_client import CollectorRegistry

from tonnage.errors import InputError
from tonnage.service.certificates import Certificates
from tonnage.service.http_questions import Reply
from tonnage.service.status_server import StatusServer

NAME = "extender.example.com"


class Pair:
    """An authority, and the files of a certificate it has issued."""

    def __init__(self, directory: Path) -> None:
        self.authority = trustme.CA()
        self.certificate, self.key = directory / "tls.crt", directory / "tls.key"
        self.issue()

    def issue(self) -> bytes:
        issued = self.authority.issue_cert(NAME)
        issued.private_key_pem.write_to_path(self.key)
        issued.cert_chain_pems[0].write_to_path(self.certificate)
        return ssl.PEM_cert_to_DER_cert(self.certificate.read_text())


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def a_server(certificates: Certificates) -> StatusServer:
    async def echo(body: bytes) -> Reply:
        return Reply(body)

    return StatusServer(
        "127.0.0.1:0",
        alive=str,
        ready=str,
        registry=CollectorRegistry(),
        documents={},
        questions={"/echo": echo},
        certificates=certificates,
    )


def shown(server: StatusServer, pair: Pair) -> bytes | None:
    """The certificate a new connection is shown."""
    context = ssl.create_default_context()
    pair.authority.configure_trust(context)
    with (
        socket.create_connection(("127.0.0.1", server.port)) as plain,
        context.wrap_socket(plain, server_hostname=NAME) as connection,
    ):
        return connection.getpeercert(binary_form=True)


async def test_new_connections_get_the_new_certificate(pair: Pair) -> None:
    certificates = Certificates(pair.certificate, pair.key)
    server = a_server(certificates)
    async with server.listening():
        new = pair.issue()
        before = await asyncio.to_thread(shown, server, pair)
        reloaded = certificates.check()
        after = await asyncio.to_thread(shown, server, pair)
    assert (reloaded, before == new, after == new) == (True, False, True)


def test_a_key_of_another_certificate_is_not_taken_over(pair: Pair) -> None:
    certificates = Certificates(pair.certificate, pair.key)
    other = trustme.CA().issue_cert(NAME)
    other.private_key_pem.write_to_path(pair.key)
    assert not certificates.check()
    assert "expected a certificate and its key" in certificates.problem


def test_the_second_file_of_a_new_pair_mends_it(pair: Pair) -> None:
    certificates = Certificates(pair.certificate, pair.key)
    old = pair.certificate.read_bytes()
    pair.issue()
    new = pair.certificate.read_bytes()
    pair.certificate.write_bytes(old)
    half = certificates.check()
    pair.certificate.write_bytes(new)
    assert (half, certificates.check(), certificates.problem) == (False, True, "")


def test_files_that_are_the_same_are_not_read_anew(pair: Pair) -> None:
    assert not Certificates(pair.certificate, pair.key).check()


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n"])
def test_a_bad_key_is_an_error_that_does_not_show_it(pair: Pair, content: bytes) -> None:
    pair.key.write_bytes(content)
    with pytest.raises(InputError, match=r"tls\.key: expected a certificate") as caught:
        Certificates(pair.certificate, pair.key)
    assert "c2VjcmV0" not in str(caught.value)


def test_a_missing_file_is_named(pair: Pair) -> None:
    pair.key.unlink()
    with pytest.raises(InputError, match=r"tls\.key: No such file"):
        Certificates(pair.certificate, pair.key)


async def asked(server: StatusServer, context: ssl.SSLContext, path: str, method: str) -> int:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=context, server_hostname=NAME
    )
    head = f"{method} {path} HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 0\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


@pytest.mark.parametrize(
    ("certified", "method", "path", "status"),
    [
        (False, "POST", "/echo", 403),
        (True, "POST", "/echo", 200),
        (False, "GET", "/healthz", 200),
    ],
)
async def test_questions_need_a_client_certificate_and_probes_do_not(
    pair: Pair, tmp_path: Path, certified: bool, method: str, path: str, status: int
) -> None:
    clients = trustme.CA()
    clients.cert_pem.write_to_path(tmp_path / "clients.crt")
    server = a_server(Certificates(pair.certificate, pair.key, client_ca=tmp_path / "clients.crt"))
    context = ssl.create_default_context()
    pair.authority.configure_trust(context)
    if certified:
        clients.issue_cert("kube-scheduler.example.com").configure_cert(context)
    async with server.listening():
        assert await asked(server, context, path, method) == status
