import asyncio
import ipaddress
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import datetime
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster.apiserver import ApiServer, answer, pod
from tonnage.cluster import errors
from tonnage.cluster.calls import CallPatience
from tonnage.cluster.config import Access, Endpoint, Source, User
from tonnage.cluster.http import HttpTransport
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.testing.clock import VirtualClock

ONCE = CallPatience(attempts=1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA, *names: str, clients: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    if clients:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def pem(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


async def ask(server: ApiServer, clock: VirtualClock, access: Access) -> str:
    server.put("/api/v1/nodes", {"metadata": {"name": "n1"}})
    return (await server.client_with(access, clock, patience=ONCE).get(Node, "n1")).metadata.name


# TLS


@pytest.mark.parametrize("inline", [True, False])
async def test_a_server_signed_by_the_authority_is_believed(
    inline: bool, authority: trustme.CA, tmp_path: Path, clock: VirtualClock
) -> None:
    (tmp_path / "ca").write_bytes(pem(authority))
    source: Source = pem(authority) if inline else tmp_path / "ca"
    async with ApiServer(tls=server_context(authority, "127.0.0.1")) as server:
        access = Access(endpoint=Endpoint(server=server.url, authority=source))
        assert await ask(server, clock, access) == "n1"


async def test_a_server_signed_by_someone_else_is_not(
    authority: trustme.CA, clock: VirtualClock
) -> None:
    async with ApiServer(tls=server_context(trustme.CA(), "127.0.0.1")) as server:
        access = Access(endpoint=Endpoint(server=server.url, authority=pem(authority)))
        with pytest.raises(errors.ConnectionFailed, match="certificate verify failed"):
            await ask(server, clock, access)


def plain_authority() -> tuple[bytes, ssl.SSLContext]:
    """What many clusters have: an authority and a server without key identifiers and key usage."""
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in ("ca", "server")
    ]
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in names]
    extensions = [
        x509.BasicConstraints(ca=True, path_length=None),
        x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
    ]
    certificates = [
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(names[0])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1))
        .not_valid_after(datetime(2120, 1, 1))
        .add_extension(extension, critical=False)
        .sign(keys[0], hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        for name, key, extension in zip(names, keys, extensions, strict=True)
    ]
    key = keys[1].private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificates[1] + key)
        file.flush()
        context.load_cert_chain(file.name)
    return certificates[0], context


async def test_an_authority_without_key_identifiers_is_believed_by_every_python(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = ssl.create_default_context

    def as_in_python_3_13(*, cadata: str | None) -> ssl.SSLContext:
        context = plain(cadata=cadata)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", as_in_python_3_13)
    trusted, serving = plain_authority()
    async with ApiServer(tls=serving) as server:
        access = Access(endpoint=Endpoint(server=server.url, authority=trusted))
        assert await ask(server, clock, access) == "n1"


async def test_an_intermediate_authority_may_be_trusted(
    authority: trustme.CA, clock: VirtualClock
) -> None:
    between = authority.create_child_ca()
    async with ApiServer(tls=server_context(between, "127.0.0.1")) as server:
        access = Access(endpoint=Endpoint(server=server.url, authority=pem(between)))
        assert await ask(server, clock, access) == "n1"


async def test_a_server_under_another_name_is_not(
    authority: trustme.CA, clock: VirtualClock
) -> None:
    async with ApiServer(tls=server_context(authority, "api.example")) as server:
        access = Access(endpoint=Endpoint(server=server.url, authority=pem(authority)))
        with pytest.raises(errors.ConnectionFailed, match="127"):
            await ask(server, clock, access)


async def test_the_name_to_expect_can_be_given(authority: trustme.CA, clock: VirtualClock) -> None:
    async with ApiServer(tls=server_context(authority, "api.example")) as server:
        endpoint = Endpoint(server=server.url, authority=pem(authority), server_name="api.example")
        assert await ask(server, clock, Access(endpoint=endpoint)) == "n1"


async def test_verification_can_be_switched_off(authority: trustme.CA, clock: VirtualClock) -> None:
    async with ApiServer(tls=server_context(authority, "api.example")) as server:
        endpoint = Endpoint(server=server.url, insecure=True)
        assert await ask(server, clock, Access(endpoint=endpoint)) == "n1"


async def test_a_client_certificate_opens_the_door(
    authority: trustme.CA, clock: VirtualClock
) -> None:
    issued = authority.issue_cert("client@example.org")
    user = User(
        certificate=b"".join(part.bytes() for part in issued.cert_chain_pems),
        key=issued.private_key_pem.bytes(),
    )
    async with ApiServer(tls=server_context(authority, "127.0.0.1", clients=True)) as server:
        endpoint = Endpoint(server=server.url, authority=pem(authority))
        assert await ask(server, clock, Access(endpoint=endpoint, user=user)) == "n1"
        with pytest.raises(errors.ConnectionFailed):
            await ask(server, clock, Access(endpoint=endpoint))


async def test_a_rotated_client_certificate_file_is_taken_up(
    authority: trustme.CA, tmp_path: Path, clock: VirtualClock
) -> None:
    def issue(by: trustme.CA) -> None:
        issued = by.issue_cert("client@example.org")
        chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
        (tmp_path / "cert").write_bytes(chain)
        (tmp_path / "key").write_bytes(issued.private_key_pem.bytes())

    issue(trustme.CA())
    user = User(certificate=tmp_path / "cert", key=tmp_path / "key")
    async with ApiServer(tls=server_context(authority, "127.0.0.1", clients=True)) as server:
        server.put("/api/v1/nodes", {"metadata": {"name": "n1"}})
        access = Access(endpoint=Endpoint(server=server.url, authority=pem(authority)), user=user)
        client = server.client_with(access, clock, patience=ONCE)
        with pytest.raises(errors.ConnectionFailed):
            await client.get(Node, "n1")
        issue(authority)
        await clock.sleep(60)
        assert (await client.get(Node, "n1")).metadata.name == "n1"


@pytest.mark.parametrize("key", [b"not a key", None])
async def test_a_certificate_that_is_not_usable_is_said_so(
    key: bytes | None, authority: trustme.CA, clock: VirtualClock
) -> None:
    issued = authority.issue_cert("client@example.org")
    other = trustme.CA().issue_cert("x").private_key_pem.bytes()
    user = User(certificate=issued.cert_chain_pems[0].bytes(), key=key or other)
    async with ApiServer(tls=server_context(authority, "127.0.0.1")) as server:
        endpoint = Endpoint(server=server.url, authority=pem(authority))
        with pytest.raises(errors.CredentialsFailed, match="not usable PEM"):
            await ask(server, clock, Access(endpoint=endpoint, user=user))


async def test_half_of_a_rotated_pair_leaves_the_pair_before_in_use(
    authority: trustme.CA, tmp_path: Path, clock: VirtualClock
) -> None:
    def write(issued: trustme.LeafCert, *files: str) -> None:
        parts = {"cert": issued.cert_chain_pems[0], "key": issued.private_key_pem}
        for file in files:
            (tmp_path / file).write_bytes(parts[file].bytes())

    write(authority.issue_cert("client@example.org"), "cert", "key")
    user = User(certificate=tmp_path / "cert", key=tmp_path / "key")
    async with ApiServer(tls=server_context(authority, "127.0.0.1", clients=True)) as server:
        server.put("/api/v1/nodes", {"metadata": {"name": "n1"}})
        access = Access(endpoint=Endpoint(server=server.url, authority=pem(authority)), user=user)
        client = server.client_with(access, clock, patience=ONCE)
        await client.get(Node, "n1")
        newer = authority.issue_cert("client@example.org")
        write(newer, "cert")
        await clock.sleep(61)
        await client.get(Node, "n1")
        write(newer, "key")
        await clock.sleep(61)
        await client.get(Node, "n1")


async def test_an_encrypted_key_is_refused_instead_of_asking_for_its_password(
    authority: trustme.CA, clock: VirtualClock
) -> None:
    issued = authority.issue_cert("client@example.org")
    plain = serialization.load_pem_private_key(issued.private_key_pem.bytes(), password=None)
    encrypted = plain.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    user = User(certificate=issued.cert_chain_pems[0].bytes(), key=encrypted)
    async with ApiServer(tls=server_context(authority, "127.0.0.1")) as server:
        endpoint = Endpoint(server=server.url, authority=pem(authority))
        with pytest.raises(errors.CredentialsFailed, match="the client key is encrypted"):
            await ask(server, clock, Access(endpoint=endpoint, user=user))


async def test_an_authority_that_is_no_certificate_is_said_so(clock: VirtualClock) -> None:
    endpoint = Endpoint(server="https://127.0.0.1:1", authority=b"nothing")
    async with ApiServer() as server:
        with pytest.raises(errors.CredentialsFailed, match="not usable PEM"):
            await ask(server, clock, Access(endpoint=endpoint))


# Requests


async def test_compression_is_not_asked_for(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        await server.client(clock).list(Pod)
        headers = server.requests[0].headers
        assert headers["Accept-Encoding"] == "identity"
        assert headers["User-Agent"].startswith("tonnage/")


async def test_a_server_may_live_under_a_path(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        path = "/k8s/clusters/c1/api/v1/nodes/n1"
        server.script("GET", path, answer(lambda: web.json_response({"metadata": {"name": "n1"}})))
        endpoint = Endpoint(server=f"{server.url}/k8s/clusters/c1")
        assert await ask(server, clock, Access(endpoint=endpoint)) == "n1"


async def test_a_failure_names_the_server_without_the_token_in_its_path(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        transport = HttpTransport(
            Access(endpoint=Endpoint(server=f"{server.url}/secret-token")), clock=clock, environ={}
        )
        with pytest.raises(errors.ConnectionFailed) as refused:
            async with transport.websocket("/portforward", query=[], protocols=[]):
                pass
        await transport.close()
    assert f"{server.url}/***" in str(refused.value)
    assert "secret-token" not in str(refused.value)


async def test_redirects_are_not_followed(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        elsewhere = {"Location": "http://127.0.0.1:1/"}
        moved = answer(lambda: web.Response(status=302, headers=elsewhere))
        server.script("GET", "/api/v1/nodes/n1", moved)
        with pytest.raises(errors.ServerError):
            await server.client(clock, patience=ONCE).get(Node, "n1")


async def test_connections_are_used_again(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        client = server.client(clock)
        for _ in range(5):
            await client.list(Pod)
        assert len(set(server.peers)) == 1


async def test_a_body_cut_short_is_a_failed_connection(clock: VirtualClock) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"items": [')
        assert request.transport is not None
        request.transport.close()
        return response

    async with ApiServer() as server:
        server.script("GET", "/api/v1/pods", cut)
        with pytest.raises(errors.ConnectionFailed):
            await server.client(clock, patience=ONCE).list(Pod)


async def test_a_read_cut_short_is_repeated(clock: VirtualClock) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with ApiServer() as server:
        server.put("/api/v1/namespaces/default/pods", pod("web-1"))
        server.script("GET", "/api/v1/pods", cut, cut)
        assert len((await server.client(clock).list(Pod)).items) == 1


# Proxies


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[str, list[bytes]]]:
    """An HTTP proxy that tunnels, and what it was asked to tunnel to."""
    asked: list[bytes] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.split(b"\r\n")[0])
        host, _, port = head.split(b" ")[1].decode().partition(":")
        answers, requests = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pump(reader, requests), pump(answers, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def test_a_proxy_is_asked_for_a_tunnel(authority: trustme.CA, clock: VirtualClock) -> None:
    async with (
        proxy() as (address, asked),
        ApiServer(tls=server_context(authority, "127.0.0.1")) as server,
    ):
        endpoint = Endpoint(server=server.url, authority=pem(authority), proxy=address)
        assert await ask(server, clock, Access(endpoint=endpoint)) == "n1"
        assert asked == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1".encode()]
