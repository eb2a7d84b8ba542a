"""`POST /simulate`: the answer without the consequences, also for nodes that do not exist."""

from typing import Any

import msgspec

from tests.scheduler.extender.harness import DRIVER, Stage, a_claim, a_node, a_pod, extending
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock


async def simulated(stage: Stage, **asked: Any) -> dict[str, Any]:
    status, answer = await stage.post("/simulate", msgspec.json.encode(asked))
    assert status == 200, answer
    return {one["node"]: one for one in answer["verdicts"]}


async def test_named_nodes_are_answered_with_code_reason_and_facts(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    placed = a_pod("old", on="full")
    nodes = [*a_node("free"), *a_node("full", 1)]
    async with extending(clock, *nodes, *placed, claim) as stage:
        found = await simulated(stage, pod=pod, nodeNames=["free", "full"])
    assert found["free"]["code"] == "Success"
    assert found["full"]["causes"] == [
        {"cause": "MaxVolumeCountExceeded", "driver": DRIVER, "used": 1, "wanted": 1, "limit": 1}
    ]


async def test_without_names_all_nodes_are_answered(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    async with extending(clock, *a_node("n1"), *a_node("n2"), claim) as stage:
        assert set(await simulated(stage, pod=pod)) == {"n1", "n2"}


async def test_other_filters_speak_too(clock: VirtualClock) -> None:
    pod = make.pod("web", node_selector={"tier": "db"})
    async with extending(clock, *a_node("n1")) as stage:
        found = await simulated(stage, pod=pod)
    assert found["n1"]["plugin"] == "NodeAffinity"


async def test_a_node_that_does_not_exist_is_asked_about_by_its_template(
    clock: VirtualClock,
) -> None:
    pod = make.pod("db", pvcs=["a", "b"])
    claims = [a_claim("a"), a_claim("b")]
    templates = [
        {"node": make.node("small"), "csiNode": make.csinode("small", {DRIVER: 1})},
        {"node": make.node("large"), "csiNode": make.csinode("t", {DRIVER: 2})},
    ]
    async with extending(clock) as stage:
        found = await simulated(stage, pod=pod, templates=templates, claims=claims)
    assert (found["small"]["code"], found["large"]["code"]) == ("Unschedulable", "Success")


async def test_nothing_is_left_of_what_was_imagined(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    template = {"node": make.node("new"), "csiNode": make.csinode("new", {DRIVER: 1})}
    async with extending(clock, *a_node("n1", 1)) as stage:
        await simulated(stage, pod=pod, templates=[template], claims=[claim])
        snapshot = stage.program.standing.snapshot
    assert (list(snapshot.nodes), snapshot.storage.claims, snapshot.pods) == (["n1"], {}, {})


async def test_nothing_is_reserved(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    other_claim, other = a_pod("other")
    async with extending(clock, *a_node("n1", 1), claim, other_claim) as stage:
        await simulated(stage, pod=pod, nodeNames=["n1"])
        assert (await stage.filter(other, "n1")).nodes == ["n1"]


async def test_what_is_reserved_is_seen(clock: VirtualClock) -> None:
    claim, pod = a_pod("db")
    other_claim, other = a_pod("other")
    async with extending(clock, *a_node("n1", 1), claim, other_claim) as stage:
        await stage.filter(other, "n1")
        found = await simulated(stage, pod=pod, nodeNames=["n1"])
    assert (found["n1"]["plugin"], found["n1"]["code"]) == ("Extender", "Unschedulable")


async def test_an_unknown_node_is_an_error(clock: VirtualClock) -> None:
    async with extending(clock) as stage:
        body = msgspec.json.encode({"pod": make.pod("a"), "nodeNames": ["none"]})
        status, answer = await stage.post("/simulate", body)
    assert (status, answer["Error"]) == (400, "nodeNames: none: there is no such node")


async def test_a_template_may_not_take_the_name_of_a_node(clock: VirtualClock) -> None:
    async with extending(clock, *a_node("n1")) as stage:
        body = msgspec.json.encode({"pod": make.pod("a"), "templates": [{"node": make.node("n1")}]})
        status, answer = await stage.post("/simulate", body)
    assert (status, "a node of that name already" in answer["Error"]) == (400, True)


async def test_pools_are_still_there_afterwards(clock: VirtualClock) -> None:
    """They are set by the first question after something changed, whichever that is."""
    pools = [{"name": "bus", "size": 1, "members": {DRIVER: 1}}]
    *claims, pod = a_pod("db", "a", "b")
    async with extending(clock, *a_node("n1", 10), *claims, pools=pools) as stage:
        simulation = await simulated(stage, pod=pod, nodeNames=["n1"])
        answer = await stage.filter(pod, "n1")
    assert simulation["n1"]["causes"][0]["cause"] == "SlotPoolExhausted"
    assert answer.nodes == []
