"""The way over loopback: who may come, and how it ends."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tonnage.clock import SystemClock
from tonnage.embedded.apiserver import ApiServer
from tonnage.embedded.apiserver.http import HttpFront
from tonnage.errors import InputError


def a_server() -> ApiServer:
    return ApiServer(clock=SystemClock(), rng=random.Random(1))


@asynccontextmanager
async def served() -> AsyncIterator[tuple[HttpFront, aiohttp.ClientSession]]:
    front = HttpFront(a_server())
    await front.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield front, session
    finally:
        await front.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_other_addresses_than_loopback_are_refused(host: str) -> None:
    with pytest.raises(InputError, match="loopback only"):
        HttpFront(a_server(), host=host)


async def test_a_port_that_is_taken_is_named() -> None:
    async with served() as (front, _):
        with pytest.raises(InputError, match=f"127.0.0.1:{front.port}: "):
            await HttpFront(a_server(), port=front.port).start()


async def test_a_web_page_with_a_name_of_its_own_is_turned_away() -> None:
    async with served() as (front, session):
        lured = {"Host": f"evil.example.com:{front.port}"}
        async with session.get(f"{front.url}/api/v1/secrets", headers=lured) as answer:
            assert answer.status == 403


async def test_a_form_that_a_web_page_could_send_is_refused() -> None:
    async with served() as (front, session):
        path = f"{front.url}/api/v1/namespaces/default/configmaps"
        form = {"Content-Type": "text/plain"}
        async with session.post(path, data='{"metadata":{"name":"a"}}', headers=form) as answer:
            assert answer.status == 415


async def test_closing_ends_open_watches_politely() -> None:
    front = HttpFront(a_server())
    await front.start()
    async with aiohttp.ClientSession() as session:
        path = f"{front.url}/api/v1/namespaces"
        async with session.get(path, params={"watch": "true"}) as answer:
            assert b"ADDED" in await answer.content.readline()
            closing = asyncio.ensure_future(front.close())
            async with asyncio.timeout(5):
                assert (await answer.read()).count(b"ADDED") == 3
            await closing


async def test_a_watcher_that_leaves_is_forgotten() -> None:
    server = a_server()
    front = HttpFront(server)
    await front.start()
    namespaces = server.store.built_in("namespaces")
    try:
        async with aiohttp.ClientSession() as session:
            path = f"{front.url}/api/v1/namespaces"
            async with session.get(path, params={"watch": "true"}) as answer:
                await answer.content.readline()
                assert len(namespaces.watchers) == 1
        async with asyncio.timeout(5):
            while namespaces.watchers:
                await asyncio.sleep(0.01)
    finally:
        await front.close()
