"""Bodies that are not what their headers say: a bad request, never an error of ours."""

import logging

import pytest

from tests.hostile.malformed import JSON, LIES, posted
from tests.hostile.served import echo, request, sent, serving
from tonnage.service.listener import ConnectionLimits


@pytest.mark.parametrize(("headers", "body"), LIES.values(), ids=LIES)
async def test_a_body_whose_encoding_lies_is_a_bad_request(
    headers: dict[str, str], body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with serving(limits=ConnectionLimits(first_request=0.5, idle=0.5)) as server:
            answer = await sent(server.port, posted(headers, body))
            healthy = await sent(server.port, request(Connection="close"))
    assert answer.split(b" ")[1] == b"400", answer[:200]
    assert healthy.endswith(b"ok")
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("charset", ["none", "utf-16", "\x7f", "utf-8\xa0", "x" * 1000])
async def test_no_charset_that_is_claimed_is_an_error_of_ours(charset: str) -> None:
    headers = {"Content_Type": f"application/json; charset={charset}", "Connection": "close"}
    async with serving(question=echo) as server:
        answer = await sent(server.port, posted(headers, JSON))
    assert answer.split(b" ")[1] in (b"200", b"400"), answer[:200]


async def test_a_length_above_the_limit_is_refused_before_anything_is_sent() -> None:
    headers = {"Content_Length": str(2**40)}
    async with serving() as server:
        answer = await sent(server.port, posted(headers, b""))
    assert (answer.split(b" ")[1], b"too large" in answer) == (b"413", True)


async def test_more_chunks_than_are_taken_are_refused() -> None:
    chunk = b"10000\r\n" + b"x" * 2**16 + b"\r\n"
    headers = {"Transfer_Encoding": "chunked", "Content_Length": ""}
    async with serving() as server:
        answer = await sent(server.port, posted(headers, b""), *[chunk] * 200)
    assert answer == b"" or answer.split(b" ")[1] == b"413"
