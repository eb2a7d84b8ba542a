"""What is answered to questions that cannot be answered: wrong ones, and those asked too early."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cluster.apiserver import ApiServer, answer, status
from tests.scheduler.extender.harness import (
    a_node,
    a_pod,
    extending,
    question,
)
from tonnage.errors import InputError
from tonnage.scheduler.extender import wire
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock, run

# Too early, or too late


async def test_nothing_is_answered_before_the_cluster_is_known(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    async with extending(clock, claim, ready=False, prepare=ApiServer.freeze) as stage:
        found = await stage.filter(pod, "n1")
    assert (found.nodes, "not known well enough" in found.error) == ([], True)


async def test_pods_without_volumes_never_wait_for_the_cluster_to_be_known(
    clock: VirtualClock,
) -> None:
    async with extending(clock, ready=False, prepare=ApiServer.freeze) as stage:
        assert (await stage.filter(make.pod("web"), "n1")).nodes == ["n1"]


async def test_nothing_is_answered_when_the_server_has_been_silent_for_too_long(
    clock: VirtualClock,
) -> None:
    claim, pod = a_pod("db")
    async with extending(clock, *a_node("n1"), claim) as stage:
        stage.server.freeze()
        stage.server.end_watches()
        await clock.sleep(600)
        found = await stage.filter(pod, "n1")
        stage.server.thaw()
    assert (found.nodes, "nothing was heard of" in found.error) == ([], True)


async def test_readiness_says_the_same(clock: VirtualClock) -> None:
    async with extending(clock, ready=False, prepare=ApiServer.freeze) as stage:
        early = await stage.get("/readyz")
        stage.server.thaw()
        await clock.sleep(60)
        assert (early[0], (await stage.get("/readyz"))[0]) == (503, 200)


async def test_the_process_is_alive_before_it_is_ready(clock: VirtualClock) -> None:
    async with extending(clock, ready=False, prepare=ApiServer.freeze) as stage:
        assert await stage.get("/healthz") == (200, "ok")


@pytest.mark.parametrize("kind", ["csidrivers", "volumeattachments", "csinodes"])
async def test_a_right_that_is_missing_is_named(clock: VirtualClock, kind: str) -> None:
    def forbid(server: ApiServer) -> None:
        path = f"/apis/storage.k8s.io/v1/{kind}"
        server.script("GET", path, *[answer(lambda: status(403, "Forbidden"))] * 100)

    claim, pod = a_pod("db")
    async with extending(clock, *a_node("n1"), claim, ready=False, prepare=forbid) as stage:
        await clock.sleep(5)
        found = await stage.filter(pod, "n1")
    assert (found.nodes, "objects cannot be read" in found.error) == ([], True)


# Wrong questions


GOOD = question(make.pod("db", pvcs=["data"]), ["n1"])
WRONG: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"hello",
    "cut off": GOOD[:-20],
    "a list": b"[]",
    "no pod": b'{"NodeNames":["n1"]}',
    "a pod that is null": b'{"Pod":null,"NodeNames":["n1"]}',
    "a pod that is a number": b'{"Pod":7,"NodeNames":["n1"]}',
    "a pod without a name": b'{"Pod":{"metadata":{}},"NodeNames":["n1"]}',
    "names that are numbers": b'{"Pod":{"metadata":{"name":"a"}},"NodeNames":[1]}',
    "names that are one name": b'{"Pod":{"metadata":{"name":"a"}},"NodeNames":"n1"}',
    "half a character": b'{"Pod":{"metadata":{"name":"a"}},"NodeNames":["\\ud800"]}',
    "bytes that are no text": b'{"Pod":{"metadata":{"name":"\xff"}},"NodeNames":["n1"]}',
    "very deep": b'{"Pod":' + b"[" * 100_000,
    "gzip that is none": b"\x1f\x8b" + b"x" * 50,
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
async def test_a_wrong_question_gets_an_error(clock: VirtualClock, body: bytes) -> None:
    async with extending(clock) as stage:
        code, told = await stage.post("/v1/filter", body)
    assert (code, bool(told["Error"])) == (400, True)


async def test_a_question_that_is_too_large_gets_an_error(clock: VirtualClock) -> None:
    body = question(make.pod("db"), ["n" * 200] * 20)
    async with extending(clock, body=1024) as stage:
        code, told = await stage.post("/v1/filter", body)
    assert (code, "too large" in told["Error"]) == (413, True)


async def test_a_scheduler_without_node_cache_is_told_what_to_set(clock: VirtualClock) -> None:
    body = msgspec.json.encode({"Pod": make.pod("a"), "Nodes": {"items": []}, "NodeNames": None})
    async with extending(clock) as stage:
        _, told = await stage.post("/v1/filter", body)
    assert "nodeCacheCapable: true" in told["Error"]


async def test_unknown_and_hostile_names_are_refused_one_by_one(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    hostile = ["", "../../etc/passwd", "n1\n", "n1\x00", "é" * 300, "{}"]
    async with extending(clock, *a_node("n1"), claim) as stage:
        found = await stage.filter(pod, *hostile, "n1")
    assert (found.nodes, set(found.failed)) == (["n1"], set(hostile))


async def test_only_posts_are_questions(clock: VirtualClock) -> None:
    async with extending(clock) as stage:
        assert (await stage.get("/v1/filter"))[0] == 405


def test_small_letters_of_old_schedulers_are_read() -> None:
    body = msgspec.json.encode({"pod": make.pod("db"), "nodenames": ["n1"]})
    assert wire.read(body).names == ["n1"]


# Anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=8), parts),
    max_leaves=8,
)
PATHS = ("/v1/filter", "/v1/prioritize", "/simulate")
FIELDS = st.sampled_from(["Pod", "pod", "Nodes", "NodeNames", "nodeNames", "metadata", "spec"])
PODS = st.builds(
    lambda meta, spec, more: {"metadata": {"name": "a", **meta}, "spec": spec, **more},
    st.dictionaries(st.sampled_from(["name", "uid", "namespace", "labels"]), JSON, max_size=2),
    st.dictionaries(st.sampled_from(["volumes", "nodeName", "priority"]), JSON, max_size=2) | JSON,
    st.dictionaries(st.text(max_size=5), JSON, max_size=2),
)
BODIES = st.one_of(
    st.binary(max_size=60),
    st.dictionaries(FIELDS, JSON).map(lambda value: msgspec.json.encode(_tame(value))),
    st.builds(
        lambda pod, names: msgspec.json.encode(_tame({"Pod": pod, "NodeNames": names})),
        PODS,
        st.lists(st.text(max_size=20)) | JSON,
    ),
    st.integers(1, len(GOOD)).map(lambda end: GOOD[:end]),
    st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)).map(
        lambda change: GOOD[: change[0]] + bytes([change[1]]) + GOOD[change[0] + 1 :]
    ),
)


def _tame(value: Any) -> Any:
    """As plain JSON: what no encoder takes becomes text."""
    if isinstance(value, dict):
        return {name: _tame(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_tame(part) for part in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies=st.lists(st.tuples(st.sampled_from(PATHS), BODIES), min_size=5, max_size=5))
def test_whatever_is_sent_gets_an_answer(bodies: list[tuple[str, bytes]]) -> None:
    """Over a real connection; a crash would be a 500, or no answer at all."""
    clock = VirtualClock(grace=0.001)
    claim, pod = a_pod("db")

    async def main() -> None:
        async with extending(clock, *a_node("n1"), claim, settleWait=0) as stage:
            for path, body in bodies:
                code, told = await stage.post(path, body)
                assert code in (200, 400), (body, told)
            assert (await stage.filter(pod, "n1")).nodes == ["n1"]

    run(main, clock=clock)


@settings(max_examples=300, deadline=None)
@given(body=BODIES)
def test_reading_a_question_raises_nothing_but_input_errors(body: bytes) -> None:
    try:
        wire.read(body)
    except InputError:
        return
