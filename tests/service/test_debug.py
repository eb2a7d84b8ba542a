"""The inside of a shell is told on loopback, to programs, or not at all."""

import asyncio
from typing import Any

import pytest

from tests.hostile.served import request, sent
from tonnage.errors import InputError
from tonnage.service.debug import DebugServer
from tonnage.service.http_questions import Reply


def a_server(address: str) -> DebugServer:
    async def echo(body: bytes) -> Reply:
        return Reply(body)

    return DebugServer(
        address, documents={"/debug/numbers": lambda: [1, 2]}, questions={"/echo": echo}
    )


@pytest.mark.parametrize("address", [":8086", "0.0.0.0:8086", "10.0.0.1:8086", "node-1:8086"])
def test_no_address_is_taken_that_others_reach(address: str) -> None:
    with pytest.raises(InputError, match="expected a loopback address"):
        a_server(address)


async def test_without_an_address_nothing_listens() -> None:
    server = a_server("")
    async with server.listening():
        assert server.port == 0


async def test_documents_and_questions_are_answered() -> None:
    server = a_server("127.0.0.1:0")
    async with server.listening():
        told = await sent(server.port, request("/debug/numbers", Connection="close"))
        asked = request("/echo", method="POST", body=b"3", Connection="close")
        echoed = await sent(server.port, asked)
    assert (told.endswith(b"[1,2]"), echoed.endswith(b"3")) == (True, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("Origin", "http://localhost"), ("Host", "tonnage.example.com"), ("Host", "10.0.0.1:8086")],
)
async def test_what_a_web_page_could_have_sent_is_refused(name: str, value: str) -> None:
    server = a_server("127.0.0.1:0")
    async with server.listening():
        headers: dict[str, Any] = {"Connection": "close", name: value}
        answer = await sent(server.port, request("/debug/numbers", **headers))
        assert answer.startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "[::1]:8086"])
async def test_names_of_loopback_are_fine_as_a_forwarded_port_has_them(host: str) -> None:
    server = a_server("127.0.0.1:0")
    async with server.listening():
        answer = await sent(server.port, request("/debug/numbers", Host=host, Connection="close"))
    assert answer.startswith(b"HTTP/1.1 200")


async def test_one_question_is_answered_at_a_time() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def patient(body: bytes) -> Reply:
        begun.set()
        await go_on.wait()
        return Reply(body)

    server = DebugServer("127.0.0.1:0", questions={"/simulate": patient})
    asked = request("/simulate", method="POST", body=b"1", Connection="close")
    async with server.listening():
        first = asyncio.ensure_future(sent(server.port, asked))
        await begun.wait()
        second = await sent(server.port, asked)
        go_on.set()
        assert ((await first).endswith(b"1"), second[:12]) == (True, b"HTTP/1.1 429")
