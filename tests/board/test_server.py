"""The page over HTTP: who may look, under which rules, and what is answered."""

import asyncio
import hashlib
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from tests.board.boards import DRIVER, a_feed, full_nodes, published
from tests.scaleup.groups import owned_by
from tonnage.api import Cluster
from tonnage.board import server, sources
from tonnage.board.answers import BoardAnswers
from tonnage.board.feed import Feed
from tonnage.board.server import BoardServer
from tonnage.errors import InputError
from tonnage.objects.kinds import KubeObject
from tonnage.service.certificates import Certificates
from tonnage.testing import builders as make

HOSTILE = '<script>alert(1)</script>" \x1b[31m ‮'


@asynccontextmanager
async def serving(objects: list[KubeObject]) -> AsyncIterator[tuple[aiohttp.ClientSession, Feed]]:
    feed = published(objects)
    answers = BoardAnswers(feed, objects=lambda: objects)
    server = BoardServer("127.0.0.1:0", feed, answers=answers.by_name())
    async with (
        server.listening(),
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
    ):
        yield session, feed


async def asked(session: aiohttp.ClientSession, path: str, **question: Any) -> Any:
    async with session.post(f"/api/{path}", json=question) as answer:
        return await answer.json()


async def test_the_page_may_run_and_fetch_only_what_comes_from_here() -> None:
    async with serving(full_nodes()) as (session, _), session.get("/") as answer:
        policy = answer.headers["Content-Security-Policy"]
        page = await answer.text()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.findall(r"https?://", page)
    assert not re.findall(r" style=| on\w+=", page)


async def test_every_file_of_the_page_is_served() -> None:
    async with serving(full_nodes()) as (session, _):
        for path in server.assets():
            async with session.get(f"/static/{path}" if path else "/") as answer:
                assert answer.status == 200, path
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_is_smaller_than_60_kilobytes() -> None:
    sizes = {path: len(asset.content) for path, asset in server.assets().items()}
    assert sum(sizes.values()) < 60_000, sizes


@pytest.mark.parametrize("package", ["tonnage.board", "tonnage.report"])
def test_files_of_others_are_as_they_were_published(package: str) -> None:
    folder = resources.files(package).joinpath("static/vendor")
    sums = folder.joinpath("SHA256SUMS").read_text()
    told = {name: digest for digest, name in map(str.split, sums.splitlines())}
    found = {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest()
        for one in folder.iterdir()
        if one.name != "SHA256SUMS" and not one.name.startswith("LICENSE")
    }
    assert found == told
    assert any(one.name.startswith("LICENSE") for one in folder.iterdir())


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "tonnage.example.com"},
        {"Origin": "http://evil.example.com"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=["a name that points here", "a page of others", "a request of others"],
)
async def test_pages_of_others_are_told_nothing(headers: dict[str, str]) -> None:
    async with (
        serving(full_nodes()) as (session, _),
        session.get("/api/state", headers=headers) as answer,
    ):
        assert answer.status == 403


@pytest.mark.parametrize("address", [":8087", "0.0.0.0:8087", "10.0.0.1:8087"])
def test_no_address_that_others_reach_is_served_without_certificates(address: str) -> None:
    with pytest.raises(InputError, match="expected a certificate"):
        BoardServer(address, a_feed(), answers={})


async def test_elsewhere_a_certificate_is_required(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key, ca = tmp_path / "crt", tmp_path / "key", tmp_path / "ca"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    server = BoardServer(
        "127.0.0.1:0",
        published(full_nodes()),
        answers={},
        certificates=Certificates(certificate, key, client_ca=ca),
    )
    stranger, friend = ssl.create_default_context(), ssl.create_default_context()
    for context in (stranger, friend):
        authority.configure_trust(context)
    authority.issue_cert("somebody@example.com").configure_cert(friend)
    async with server.listening(), aiohttp.ClientSession() as session:
        statuses = []
        for context in (stranger, friend):
            url = f"https://127.0.0.1:{server.port}/api/state"
            async with session.get(url, ssl=context) as answer:
                statuses.append(answer.status)
    assert statuses == [403, 200]


async def test_changes_are_streamed() -> None:
    async with (
        serving(full_nodes()) as (session, feed),
        session.get("/api/changes", params={"since": "1"}) as stream,
    ):
        assert stream.headers["Content-Type"] == "text/event-stream"
        published(full_nodes(waiting=5), feed)
        lines: list[bytes] = []
        async with asyncio.timeout(10):
            while not any(line.startswith(b"data:") for line in lines):
                lines.append(await stream.content.readline())
    assert b"id: 2\n" in lines


async def test_who_knows_a_state_that_is_gone_is_told_to_begin_anew() -> None:
    async with (
        serving(full_nodes()) as (session, _),
        session.get("/api/changes", params={"since": "77"}) as stream,
    ):
        assert b"event: again" in await stream.content.read()


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("db-0", ["pod", "volume"]),
        ("n1", ["node"]),
        ("node:n1", ["node"]),
        ("old-pv", ["volume"]),
        (DRIVER, ["driver"]),
        ("nothing like it", []),
    ],
)
async def test_the_search_box_finds_pods_nodes_volumes_and_drivers(
    question: str, kinds: list[str]
) -> None:
    async with serving(full_nodes()) as (session, _):
        told = await asked(session, "search", q=question)
    assert sorted({hit["kind"] for hit in told["hits"]} & set(kinds)) == kinds


async def test_a_node_tells_its_pods_and_what_holds_its_slots() -> None:
    async with serving(full_nodes()) as (session, _):
        told = await asked(session, "node", name="n2")
    assert [one["pod"] for one in told["pods"]] == ["default/db-2"]
    assert told["held"] == [{"driver": DRIVER, "volume": "old-pv"}]


async def test_a_pod_tells_why_it_waits_and_what_was_decided() -> None:
    async with serving(full_nodes()) as (session, _):
        told = await asked(session, "pod", pod="default/new-0")
    assert told["waits"]["fate"] == "bought"
    assert told["why"]
    assert told["volumes"] == [
        {"name": "new-0-data", "claim": "new-0-data", "volume": "", "class": "fast"}
    ]


async def test_a_decision_can_be_opened() -> None:
    async with serving(full_nodes()) as (session, feed):
        assert feed.moment is not None
        (mark,) = [f"{one.time}#{len(one.plan.steps)}" for one in feed.moment.decisions]
        told = await asked(session, "decision", id=mark)
    assert told["plan"]["nodes"] == 2
    assert told["steps"][0]["chosen"] == "db"


@pytest.mark.parametrize(
    ("question", "nodes", "left_out"),
    [
        ({}, 2, 0),
        ({"limits": {DRIVER: 3}}, 1, 0),
        ({"maxSizes": {"db": 3}}, 1, 1),
        ({"replicas": {"default/new-0": 0}}, 1, 0),
    ],
    ids=["nothing", "a higher limit", "a smaller group", "fewer replicas"],
)
async def test_what_ifs_are_answered_on_a_copy(
    question: dict[str, Any], nodes: int, left_out: int
) -> None:
    objects = full_nodes()
    async with serving(objects) as (session, feed):
        told = await asked(session, "what-if", **question)
        assert (told["plan"]["nodes"], told["plan"]["leftOut"]) == (nodes, left_out)
        assert feed.revision == 1
        again = await asked(session, "what-if")
        assert again["plan"]["nodes"] == 2


async def test_more_replicas_get_claims_of_their_own() -> None:
    owner = owned_by("StatefulSet", "db")
    objects: list[KubeObject] = [
        *full_nodes(waiting=0),
        make.pvc("data-web-0", storage_class="fast"),
        make.pod("web-0", pvcs=["data-web-0"], cpu="1", owner=owner),
    ]
    async with serving(objects) as (session, _):
        told = await asked(session, "what-if", replicas={"default/web-0": 5})
    # A slot each, and two on a node.
    assert (told["plan"]["pods"], told["plan"]["nodes"]) == (5, 3)


@pytest.mark.parametrize(
    ("name", "question", "error"),
    [
        ("what-if", {"limits": {"no.such.driver": 3}}, "no driver"),
        ("what-if", {"maxSizes": {"nope": 3}}, "no node group 'nope'"),
        ("what-if", {"replicas": {"default/nope": 3}}, "no such pod"),
        ("what-if", {"sizes": {}}, "unknown field"),
        ("what-if", {"maxSizes": {"db": -1}}, "expected 0 or more"),
        ("node", {"name": 7}, "expected a text"),
        ("pod", {"pod": HOSTILE}, "no pod"),
        ("search", {}, "expected a text"),
    ],
)
async def test_a_question_that_makes_no_sense_is_answered_with_what_is_wrong(
    name: str, question: dict[str, Any], error: str
) -> None:
    async with (
        serving(full_nodes()) as (session, _),
        session.post(f"/api/{name}", json=question) as answer,
    ):
        assert answer.status == 400
        assert error in (await answer.json())["Error"]


async def test_while_a_decision_has_the_snapshot_questions_wait() -> None:
    feed = published(full_nodes())
    answers = BoardAnswers(feed, objects=full_nodes, busy=lambda: True)
    with pytest.raises(InputError, match="ask again"):
        await answers.search({"q": "db"})


async def test_names_of_users_come_as_json_and_nothing_else() -> None:
    objects: list[KubeObject] = [make.node("n1"), make.pod("web", labels={"a": HOSTILE}, cpu="1")]
    feed = a_feed()
    sources.of_files(Cluster(objects), feed, now=0.0)
    async with serving(objects) as (session, _), session.get("/api/state") as answer:
        assert answer.content_type == "application/json"
