"""What anybody may try who reaches the extender's port, and who has the scheduler's key."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.hostile.served import Identity, identity
from tests.scheduler.extender.harness import Stage, a_claim, a_node, a_pod, extending, question
from tonnage.objects.pods import Pod
from tonnage.scheduler.extender import wire
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

SCHEDULER = "system:kube-scheduler"
UNKNOWN = "no such pod"


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity(tmp_path_factory.mktemp("identity"))


def made_up(number: int) -> Pod:
    """A pod that nobody has created, with a claim that there is."""
    return make.pod(f"made-up-{number}", pvcs=["shared"])


async def asked(stage: Stage, pod: Pod, *names: str) -> Any:
    """What filter says, of a pod that need not exist."""
    status, told = await stage.post("/v1/filter", question(pod, names))
    assert status == 200, told
    return told


# Who asks


@pytest.mark.parametrize(
    ("common_name", "status"), [(None, 403), ("system:node:n1", 403), (SCHEDULER, 200)]
)
@pytest.mark.parametrize("path", ["/v1/filter", "/v1/prioritize"])
async def test_only_the_scheduler_is_answered(
    clock: VirtualClock, known: Identity, path: str, common_name: str | None, status: int
) -> None:
    certificates = known.certificates(SCHEDULER)
    body = question(make.pod("web"), ["n1"])
    context = known.context(common_name=common_name)
    async with extending(clock, *a_node("n1"), certificates=certificates) as stage:
        url = f"https://localhost:{stage.program.server.port}{path}"
        async with stage.session.post(url, data=body, ssl=context) as told:
            assert told.status == status


async def test_a_certificate_of_another_authority_does_not_get_as_far_as_a_question(
    clock: VirtualClock, known: Identity, tmp_path: Path
) -> None:
    context = known.context()
    identity(tmp_path).authority.issue_cert(common_name=SCHEDULER).configure_cert(context)
    async with extending(clock, certificates=known.certificates(SCHEDULER)) as stage:
        url = f"https://localhost:{stage.program.server.port}/v1/filter"
        with pytest.raises(aiohttp.ClientError):
            await stage.session.post(url, data=b"{}", ssl=context)


@pytest.mark.parametrize("path", ["/simulate", "/debug/snapshot", "/debug/decisions"])
async def test_nothing_of_the_inside_is_on_the_port_of_the_scheduler(
    clock: VirtualClock, path: str
) -> None:
    async with extending(clock) as stage:
        url = f"http://127.0.0.1:{stage.program.server.port}{path}"
        async with stage.session.post(url, data=b"{}") as told:
            assert told.status == 404


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://example.com"}, {"Host": "example.com"}, {"Host": "10.0.0.1"}]
)
async def test_no_web_page_puts_a_question(clock: VirtualClock, headers: dict[str, str]) -> None:
    body = msgspec.json.encode({"pod": make.pod("web")})
    async with (
        extending(clock, *a_node("n1")) as stage,
        stage.session.post(stage.url("/simulate"), data=body, headers=headers) as told,
    ):
        assert told.status == 403


# Made-up pods


async def test_made_up_pods_reserve_nothing(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    async with extending(clock, *a_node("n1", 1), claim, a_claim("shared")) as stage:
        told = [await asked(stage, made_up(number), "n1") for number in range(25)]
        assert [UNKNOWN in one["Error"] for one in told] == [True] * 25
        assert len(stage.program.reservations) == 0
        assert (await stage.filter(pod, "n1")).nodes == ["n1"]


async def test_a_pod_is_known_by_its_uid(clock: VirtualClock) -> None:
    claim, pod = a_pod("db", uid="1")
    *_, other = a_pod("db", uid="2")
    async with extending(clock, *a_node("n1", 1), claim, pod) as stage:
        await stage.filter(pod, "n1")
        held = stage.program.reservations.get("default/db")
        told = await asked(stage, other, "n1")
        assert (UNKNOWN in told["Error"], held) == (
            True,
            stage.program.reservations.get("default/db"),
        )


async def test_a_pod_that_has_a_node_reserves_nothing_more(clock: VirtualClock) -> None:
    *objects, pod = a_pod("db", on="n1")
    async with extending(clock, *a_node("n1"), *a_node("n2"), *objects, pod) as stage:
        assert UNKNOWN in (await asked(stage, make.pod("db", pvcs=["db"]), "n2"))["Error"]


async def test_what_a_question_says_of_a_known_pod_does_not_count(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    lie = make.pod("db", pvcs=["shared"] * 3)
    async with extending(clock, *a_node("n1", 1), claim, pod, a_claim("shared")) as stage:
        assert (await asked(stage, lie, "n1"))["NodeNames"] == ["n1"]


async def test_a_pod_that_the_scheduler_hears_of_first_is_waited_for(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    async with extending(clock, *a_node("n1", 1), claim) as stage:
        answer = asyncio.ensure_future(asked(stage, pod, "n1"))
        await clock.sleep(0.1)
        await stage.put(pod)
        assert (await answer)["NodeNames"] == ["n1"]


async def test_scores_of_a_made_up_pod_are_nothing(clock: VirtualClock) -> None:
    async with extending(clock, *a_node("n1", 1), a_claim("shared")) as stage:
        _, told = await stage.post("/v1/prioritize", question(made_up(1), ["n1"]))
    assert told == [{"Host": "n1", "Score": 0}]


# Too much


async def test_more_nodes_than_any_cluster_has_are_too_many(clock: VirtualClock) -> None:
    body = question(make.pod("web"), ["n"] * (wire.MOST_NODES + 1))
    async with extending(clock) as stage:
        assert (await stage.post("/v1/filter", body))[0] == 413


async def test_millions_of_values_are_refused_before_they_are_built(clock: VirtualClock) -> None:
    body = b'{"Pod": {"metadata": {"name": "a"}}, "NodeNames": [' + b'"",' * 600_000 + b'""]}'
    async with extending(clock, body=2**22) as stage:
        assert (await stage.post("/v1/filter", body))[0] == 413


@pytest.mark.parametrize("field", ["templates", "claims", "nodeNames"])
async def test_a_simulation_is_of_a_size_that_a_person_asks(
    clock: VirtualClock, field: str
) -> None:
    one: object = "n1" if field == "nodeNames" else {"node": {}} if field == "templates" else {}
    body = json.dumps({"pod": {"metadata": {"name": "a"}}, field: [one] * 6000}).encode()
    async with extending(clock, *a_node("n1")) as stage:
        status, told = await stage.post("/simulate", body)
    assert (status, told["Error"].startswith(f"{field}: 6000: expected")) == (413, True)


@pytest.mark.parametrize("of", ["pod", "templates"])
async def test_a_simulation_of_20000_resources_is_too_much(clock: VirtualClock, of: str) -> None:
    """It took a minute and 1.6 GB, on a hundred nodes."""
    many: Any = {f"example.com/r{number}": "1" for number in range(20_000)}
    pod = make.pod("web", requests=many if of == "pod" else {})
    template = {"metadata": {"name": "new"}, "status": {"allocatable": many}}
    asked = {"pod": pod, "templates": [{"node": template}] if of == "templates" else []}
    async with extending(clock, *a_node("n1")) as stage:
        status, told = await stage.post("/simulate", msgspec.json.encode(asked))
    assert (status, told["Error"].startswith(f"{of}: 20")) == (413, True), told


async def test_questions_beyond_those_that_can_be_answered_at_once_are_refused_at_once(
    clock: VirtualClock,
) -> None:
    """Each of these waits for news of its pod, for an hour, and holds a place meanwhile."""
    objects = (*a_node("n1"), a_claim("shared"))
    async with extending(clock, *objects, settleWait=3600, reservationTime=3600) as stage:
        bodies = [question(made_up(number), ["n1"]) for number in range(50)]
        answers = [asyncio.ensure_future(stage.post("/v1/filter", body)) for body in bodies]
        come = asyncio.as_completed(answers)
        refused = [(await next(come))[0] for _ in range(18)]
        healthy = await stage.get("/healthz")
        waiting = [one for one in answers if not one.done()]
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
    assert (refused, len(waiting), healthy[0]) == ([429] * 18, 32, 200)


async def test_a_pod_with_25000_resources_makes_no_long_line(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    claim, pod = a_pod("db")
    raw = msgspec.to_builtins(pod)
    many = {f"example.com/r{number}": "1" for number in range(25_000)}
    raw["spec"]["containers"] = [{"name": "c", "resources": {"requests": many}}]
    body = msgspec.json.encode({"Pod": raw, "NodeNames": ["n1"]})
    with caplog.at_level(logging.DEBUG):
        async with extending(clock, *a_node("n1"), claim, body=2**22) as stage:
            await stage.post("/v1/filter", body)
    assert all(len(str(record.__dict__)) < 20_000 for record in caplog.records)
