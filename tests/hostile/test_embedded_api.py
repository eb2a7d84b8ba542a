"""The embedded API under hostile requests, web pages and damaged data."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.hostile import requests
from tonnage.clock import SystemClock
from tonnage.clock.virtual import VirtualClock
from tonnage.cluster.transport import HttpRequest
from tonnage.embedded.apiserver import ApiServer, kubeconfig
from tonnage.embedded.apiserver.http import HttpFront

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
JSON = (("Content-Type", "application/json"),)


def server(data: Path | None = None) -> ApiServer:
    return ApiServer(clock=VirtualClock(), rng=random.Random(1), data=data)


@pytest.mark.parametrize("seed", range(8))
def test_no_request_is_answered_by_an_accident(seed: int, tmp_path: Path) -> None:
    api = server(tmp_path / "data")
    codes = {api.answer(request).status for request in requests.drawn(seed, 300)}
    assert codes <= {200, 201, 400, 401, 403, 404, 405, 409, 410, 415, 422, 504}
    assert {200, 201, 400, 422} <= codes
    api.close()
    server(tmp_path / "data").close()


def test_an_owner_loses_its_uid_by_no_patch() -> None:
    api = server()
    owner = {"apiVersion": "v1", "kind": "Thing", "name": "n", "uid": "1"}
    tree = {"metadata": {"name": "a", "ownerReferences": [owner]}}
    api.answer(HttpRequest(method="POST", path=MAPS, headers=JSON, body=json.dumps(tree).encode()))
    patch = {"metadata": {"ownerReferences": [{**owner, "uid": None}]}}
    style = (("Content-Type", "application/merge-patch+json"),)
    request = HttpRequest(
        method="PATCH", path=f"{MAPS}/a", headers=style, body=json.dumps(patch).encode()
    )
    assert api.answer(request).status in (400, 422)
    stored = json.loads(api.answer(HttpRequest(method="GET", path=f"{MAPS}/a")).body)
    assert stored["metadata"]["ownerReferences"] == [owner]


def test_data_with_a_broken_object_is_served_without_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    api = server(data)
    for name in ("good", "bad"):
        tree = {"metadata": {"name": name}}
        api.answer(
            HttpRequest(method="POST", path=MAPS, headers=JSON, body=json.dumps(tree).encode())
        )
    api.close()
    text = data.read_text().replace('"name":"bad"', '"name":"bad","ownerReferences":[{"a":1}]')
    data.write_text(f"{text}garbage\n")
    again = server(data)
    assert again.answer(HttpRequest(method="GET", path=f"{MAPS}/good")).status == 200
    assert again.answer(HttpRequest(method="GET", path=f"{MAPS}/bad")).status == 404
    again.close()
    assert len((tmp_path / "data.left-out").read_text().splitlines()) == 2


@asynccontextmanager
async def serving(token: str = "") -> AsyncIterator[HttpFront]:
    front = HttpFront(ApiServer(clock=SystemClock(), rng=random.Random(1)), token=token)
    await front.start()
    try:
        yield front
    finally:
        await front.close()


async def status(method: str, url: str, **how: object) -> int:
    skipped = () if how.get("headers") else ("Content-Type",)
    async with (
        aiohttp.ClientSession(skip_auto_headers=skipped) as session,
        session.request(method, url, **how) as answer,  # type: ignore[arg-type]
    ):
        return answer.status


def test_a_web_page_cannot_write() -> None:
    pod = json.dumps({"metadata": {"name": "a"}}).encode()
    typed = {"Content-Type": "application/json"}

    async def asked() -> list[int]:
        async with serving() as front:
            url = front.url + MAPS
            return [
                await status("POST", url, data=pod),
                await status("POST", url, data=pod, headers={"Content-Type": "text/plain"}),
                await status(
                    "POST", url, data=pod, headers={**typed, "Origin": "http://a.example"}
                ),
                await status("GET", url, headers={"Origin": "null"}),
                await status("POST", url, data=pod, headers=typed),
            ]

    assert asyncio.run(asked()) == [415, 415, 403, 403, 201]


def test_only_who_has_the_kubeconfig_gets_in() -> None:
    async def asked() -> list[int]:
        async with serving(token="secret") as front:
            bare = front.url.removesuffix("/secret")
            return [
                await status("GET", f"{bare}{PODS}"),
                await status("GET", f"{bare}/guessed{PODS}"),
                await status("GET", f"{bare}/secretly{PODS}"),
                await status("GET", f"{front.url}{PODS}"),
            ]

    assert asyncio.run(asked()) == [401, 401, 404, 200]


def test_the_kubeconfig_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("from before")
    kubeconfig.write(path, "http://127.0.0.1:1/secret")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "http://127.0.0.1:1/secret" in path.read_text()
