"""Clients that connect and say nothing, little, or nonsense; at any port, over real sockets."""

import asyncio
import logging
import socket
import threading
from pathlib import Path

import msgspec
import pytest

from tests.hostile.malformed import NONSENSE
from tests.hostile.served import (
    SECONDS,
    Identity,
    echo,
    identity,
    request,
    sent,
    serving,
    victim,
)
from tonnage.service.http_questions import Reply
from tonnage.service.listener import ConnectionLimits

HASTY = ConnectionLimits(first_request=0.05, idle=0.05)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity(tmp_path_factory.mktemp("identity"))


# Silence


async def test_a_client_that_says_nothing_is_hung_up_on() -> None:
    async with serving(limits=HASTY) as server:
        assert await sent(server.port) == b""


async def test_a_client_that_never_ends_its_headers_is_hung_up_on() -> None:
    async with serving(limits=HASTY) as server:
        assert await sent(server.port, b"GET /healthz HTTP/1.1\r\nX: ") == b""


async def test_headers_that_come_byte_by_byte_are_no_excuse() -> None:
    async with serving(limits=HASTY) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        ended = asyncio.ensure_future(reader.read())
        writer.write(b"GET /healthz HTTP/1.1\r\nX: ")
        while not ended.done():
            writer.write(b"x")
            await asyncio.sleep(0)
        writer.close()
    assert isinstance(ended.exception(), ConnectionError) or ended.result() == b""


async def test_a_client_that_has_been_answered_and_says_no_more_is_hung_up_on() -> None:
    async with serving(limits=HASTY) as server:
        assert (await sent(server.port, request())).endswith(b"ok")


async def test_a_client_that_never_begins_with_tls_is_hung_up_on(known: Identity) -> None:
    async with serving(limits=HASTY, certificates=known.certificates()) as server:
        assert await sent(server.port) == b""


async def test_a_client_is_not_hung_up_on_while_its_answer_takes_long() -> None:
    async def slow(body: bytes) -> Reply:
        await asyncio.sleep(3 * HASTY.first_request)
        return Reply(body)

    async with serving(limits=HASTY, question=slow) as server:
        asked = request("/echo", method="POST", body=b"1")
        assert (await sent(server.port, asked)).endswith(b"\r\n\r\n1")


# Crowds


async def test_one_more_than_there_may_be_takes_the_place_of_the_longest_silent() -> None:
    async with serving(limits=ConnectionLimits(connections=2)) as server:
        first = await asyncio.open_connection("127.0.0.1", server.port)
        second = await asyncio.open_connection("127.0.0.1", server.port)
        last = await sent(server.port, request(Connection="close"))
        gone = await first[0].read()
        second[1].write(request(Connection="close"))
        rest = await second[0].read()
    assert (last.endswith(b"ok"), gone, rest.endswith(b"ok")) == (True, b"", True)


async def test_who_has_shown_a_certificate_keeps_its_connection_in_a_crowd(
    known: Identity,
) -> None:
    limits = ConnectionLimits(connections=3)
    scheduler = known.context(common_name="system:kube-scheduler")
    asked = request("/echo", method="POST", body=b"1")
    async with serving(limits=limits, certificates=known.certificates()) as server:
        reader, writer = await asyncio.open_connection("localhost", server.port, ssl=scheduler)
        answers = []
        for _ in range(2):
            writer.write(asked)
            answers.append((await reader.readuntil(b"\r\n\r\n1")).startswith(b"HTTP/1.1 200"))
            for _ in range(10):
                await asyncio.open_connection("localhost", server.port, ssl=known.context())
        writer.close()
    assert answers == [True, True]


async def test_when_all_are_being_answered_a_newcomer_is_turned_away_at_once() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def patient(body: bytes) -> Reply:
        begun.set()
        await go_on.wait()
        return Reply(body)

    asked = request("/echo", method="POST", body=b"1", Connection="close")
    async with serving(limits=ConnectionLimits(connections=1), question=patient) as server:
        first = asyncio.ensure_future(sent(server.port, asked))
        await begun.wait()
        second = await sent(server.port, request())
        go_on.set()
        assert ((await first).endswith(b"1"), second) == (True, b"")


def test_a_crowd_of_tls_clients_costs_little_memory_and_no_health_check(tmp_path: Path) -> None:
    """Each cost 280 KB for as long as it liked."""
    with victim(tmp_path) as server:
        assert server.healthy()
        before = server.megabytes
        kept = server.connect(250)
        healthy, grown = server.healthy(), server.megabytes - before
        for one in kept:
            one.close()
    assert (healthy, grown < 45) == (True, True), grown


def test_running_out_of_descriptors_is_told_in_few_lines_and_passes(tmp_path: Path) -> None:
    with victim(tmp_path, descriptors=40) as server:
        kept = server.connect(100, tls=False)
        healthy = server.healthy()
        for one in kept:
            one.close()
    lines = (tmp_path / "log").read_text().splitlines()
    told = [msgspec.json.decode(line) for line in lines]
    assert healthy
    assert 0 < len([one for one in told if one["message"] == "connection not accepted"]) < 150
    assert [one for one in told if "traceback" in one] == []


def test_health_is_answered_while_clients_connect_as_fast_as_they_can(tmp_path: Path) -> None:
    with victim(tmp_path) as server:
        stop = threading.Event()

        def storm() -> None:
            while not stop.is_set():
                for one in server.connect(10, tls=False):
                    one.close()

        attackers = [threading.Thread(target=storm) for _ in range(2)]
        for attacker in attackers:
            attacker.start()
        try:
            answered = [server.healthy() for _ in range(10)]
        finally:
            stop.set()
            for attacker in attackers:
                attacker.join(SECONDS)
    assert answered == [True] * 10


# Nonsense


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_is_a_bad_request_and_no_traceback(
    nonsense: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with serving(limits=HASTY) as server:
            answer = await sent(server.port, nonsense)
            healthy = await sent(server.port, request())
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400")), answer[:100]
    assert healthy.endswith(b"ok")
    assert [record for record in caplog.records if record.exc_info] == []
    assert all(len(str(record.__dict__)) < 4096 for record in caplog.records)


async def test_a_connection_that_is_reset_in_the_middle_is_no_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(question=echo) as server:
        # That it listens is told where other tests have left the level of logs low.
        caplog.clear()
        with caplog.at_level(logging.INFO):
            client = socket.create_connection(("127.0.0.1", server.port))
            client.sendall(request("/echo", method="POST", body=b"12345")[:-3])
            # Closing like this sends a reset.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            client.close()
            assert (await sent(server.port, request(Connection="close"))).endswith(b"ok")
    assert caplog.records == []
