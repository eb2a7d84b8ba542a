"""What the page shows of a cluster, and how it learns of changes."""

import random
from typing import Any

import msgspec
import pytest

from tests.board.boards import DRIVER, NOW, a_feed, applied, database, full_nodes, published, shown
from tests.scaleup.groups import group, owned_by
from tonnage.api import Cluster
from tonnage.autoscaler.consolidation.report import ConsolidationDocument
from tonnage.autoscaler.scaledown.report import NodeReport, ScaleDownDocument
from tonnage.board.feed import KEPT_PARTS, MANY_BEHIND
from tonnage.board.limit_rows import LimitRowReader
from tonnage.board.moment import Moment
from tonnage.board.page_state import LARGEST_PART
from tonnage.board.removal_rows import RemovalReader
from tonnage.consolidation.plan import (
    ConsolidatedNode,
    ConsolidationPlan,
    CostOfNodes,
    NodePurchase,
    PodMove,
)
from tonnage.groups.limit_lessons import Lesson
from tonnage.objects.kinds import KubeObject
from tonnage.objects.labels import HOSTNAME, INSTANCE_TYPE
from tonnage.scaledown.plan import Action, NodeDecision
from tonnage.testing import builders as make


def lane(state, node: str, name: str) -> list[int]:
    """Used, held, promised and limit of a lane."""
    names = [one["name"] for one in state["values"]["lanes"]]
    at = 6 + 4 * names.index(name)
    return state["tables"]["nodes"][node][at : at + 4]


def test_a_lane_tells_used_held_and_limit_of_slots() -> None:
    state = shown(published(full_nodes()))
    assert lane(state, "n1", DRIVER) == [2, 0, 0, 2]
    assert lane(state, "n2", DRIVER) == [1, 1, 0, 2]


def test_cpu_is_in_thousandths_and_memory_in_mebibytes() -> None:
    state = shown(published(full_nodes()))
    assert lane(state, "n1", "CPU") == [2000, 0, 0, 8000]
    assert lane(state, "n1", "memory")[3] == 16 * 1024
    assert lane(state, "n1", "pods") == [2, 0, 0, 110]


def test_a_pod_that_the_plan_puts_on_a_node_is_promised_its_place_there() -> None:
    state = shown(published([*full_nodes(waiting=0), make.pod("web", cpu="500m")]))
    promised = [lane(state, node, "CPU")[2] for node in ("n1", "n2")]
    assert sorted(promised) == [0, 500]


def test_what_binds_is_the_fullest_lane() -> None:
    state = shown(published(full_nodes()))
    names = [one["name"] for one in state["values"]["lanes"]]
    row = state["tables"]["nodes"]["n1"]
    assert (names[row[4]], row[5]) == (DRIVER, 1000)


@pytest.mark.parametrize(
    ("listed", "limit"),
    [({DRIVER: None}, -2), ({"other.example.com": 1}, -1)],
    ids=["unlimited: listed without a number", "unknown: in use and not listed"],
)
def test_a_limit_has_three_states(listed: dict[str, int | None], limit: int) -> None:
    objects = [make.node("n1"), make.csinode("n1", listed), *database("db", "n1")]
    assert lane(shown(published(objects)), "n1", DRIVER)[3] == limit


def test_a_node_without_a_driver_has_no_such_lane() -> None:
    objects = [*full_nodes(waiting=0), make.node("bare")]
    assert lane(shown(published(objects)), "bare", DRIVER) == [0, 0, 0, -3]


def test_disks_that_a_driver_publishes_are_a_lane() -> None:
    objects: list[KubeObject] = [
        make.node("n1"),
        make.csidriver("local.example.com", storage_capacity=True),
        make.storage_class("disks", provisioner="local.example.com"),
        make.capacity("n1", "disks", free="60Gi", topology={HOSTNAME: "n1"}),
    ]
    assert lane(shown(published(objects)), "n1", "disks") == [0, 0, 0, 60 * 1024]


def test_pods_that_wait_say_why_in_the_words_of_the_scheduler() -> None:
    (row,) = shown(published(full_nodes()))["tables"]["pending"].values()
    assert row["count"] == 3
    assert row["reason"] == "0/2 nodes are available: 2 node(s) exceed max volume count."
    assert row["refusals"] == [{"nodes": 2, "reason": "node(s) exceed max volume count"}]


def test_pods_that_wait_say_what_is_bought_for_them() -> None:
    (row,) = shown(published(full_nodes()))["tables"]["pending"].values()
    assert (row["fate"], row["cure"]) == ("bought", "one more node of db")
    assert row["bought"] == "2 nodes of db"


def test_the_smallest_cure_of_a_pod_that_no_group_helps_is_what_is_short_by_least() -> None:
    objects = [one for one in full_nodes() if getattr(one.metadata, "name", "") != "db"]
    (row,) = shown(published(objects))["tables"]["pending"].values()
    assert row["fate"] == "stuck"
    assert row["cure"] == f"1 slot of {DRIVER} more on n1, which has 0 slots of {DRIVER} left"


def test_the_plan_has_its_price_and_bound() -> None:
    plan = shown(published(full_nodes()))["values"]["plan"]
    assert (plan["nodes"], plan["pods"], plan["costPerHour"]) == (2, 3, 1.0)
    assert (plan["boundNodes"], plan["gap"]) == (2, 0.0)


def test_the_plan_tells_what_differs_from_the_one_before() -> None:
    feed = published(full_nodes())
    published(full_nodes(waiting=5), feed)
    assert shown(feed)["values"]["plan"]["differences"] == ["db: +2 became +3"]


def test_nodes_tell_whether_they_could_go_and_why_not() -> None:
    objects: list[KubeObject] = [
        make.storage_class("fast", provisioner=DRIVER),
        *(make.node(name) for name in ("idle", "busy", "stray")),
        *(make.csinode(name, {DRIVER: 4}) for name in ("idle", "busy")),
        make.pod("web", cpu="3", on="busy", owner=owned_by("ReplicaSet")),
        group("all", nodes=("idle", "busy"), price="0.5"),
    ]
    rows = shown(published(objects))["tables"]["removals"]
    fates = {name: row["fate"] for name, row in rows.items()}
    assert fates == {"idle": "goes", "busy": "needed", "stray": "notOurs"}
    assert rows["idle"]["saves"] == "0.5"


def test_limits_name_sources_that_disagree() -> None:
    labels = {INSTANCE_TYPE: "m5.large"}
    driver = "ebs.csi.aws.com"
    objects: list[KubeObject] = [
        make.node("n1", labels=labels),
        make.csinode("n1", {driver: 25}),
        make.node("n2", labels=labels),
        make.csinode("n2", {driver: 3}),
        group("all", nodes=("n1", "n2")),
    ]
    (row,) = shown(published(objects))["tables"]["limits"].values()
    assert sorted(row["csinode"]) == [[3, 1], [25, 1]]
    assert row["disagree"] is True
    assert row["catalogue"] is not None


def test_what_was_learned_of_a_type_is_beside_what_others_say() -> None:
    objects: list[KubeObject] = [
        make.node("n1", labels={INSTANCE_TYPE: "m5.large"}),
        make.csinode("n1", {DRIVER: 25}),
        group("all", nodes=("n1",)),
    ]
    inputs = Cluster(objects).decide(now=NOW).inputs
    told: dict[str, Any] = {"instance_type": "m5.large", "driver": DRIVER, "node": "n1"}
    lessons = (
        Lesson(**told, kind="limit", count=24, seen=NOW),
        Lesson(**told, kind="ceiling", count=20, seen=NOW),
    )
    memory = msgspec.structs.replace(inputs.memory, lessons=lessons)
    reader = LimitRowReader()
    (before,) = reader.read(Moment(now=NOW, inputs=inputs)).values()
    taught = Moment(now=NOW, inputs=msgspec.structs.replace(inputs, memory=memory))
    (row,) = reader.read(taught).values()
    assert (before.learned, before.ceiling) == (None, None)
    assert (row.learned, row.ceiling, row.disagree) == (24, 20, True)


def test_nodes_that_consolidation_replaces_go_in_its_waves() -> None:
    """Each node alone is needed; both fit a cheaper one."""
    inputs = Cluster([make.node("n1"), make.node("n2")]).decide(now=NOW).inputs
    plan = ConsolidationPlan(
        buys=(NodePurchase(group="small", nodes=("small-0",), price_per_hour="0.2"),),
        moves=(
            PodMove(pod="a/db", source="n1", to="small-0", wave=1, detach=("pv-1",)),
            PodMove(pod="a/web", source="n2", to="small-0", wave=2),
        ),
        nodes=(
            ConsolidatedNode(node="n1", group="g", action=Action.DRAIN, wave=1, saves="0.5"),
            ConsolidatedNode(node="n2", group="g", action=Action.DRAIN, wave=2, saves="0.5"),
        ),
        cost=CostOfNodes(before="1", after="0.2", bound="0.2", nodes_before=2, nodes_after=1),
        saves_per_hour="0.8",
    )
    document = ScaleDownDocument(
        time="t",
        enabled=True,
        nodes=tuple(
            NodeReport(
                decision=NodeDecision(node=name, group="g", candidate=True, action=Action.KEEP)
            )
            for name in ("n1", "n2")
        ),
        consolidation=ConsolidationDocument(enabled=True, plan=plan),
    )
    rows, summary = RemovalReader().read(Moment(now=NOW, inputs=inputs, scale_down=document))
    assert {name: (row.fate, row.wave) for name, row in rows.items()} == {
        "n1": ("goes", 1),
        "n2": ("goes", 2),
    }
    assert rows["n1"].why == "consolidation: 1 pod to move, 1 volume to detach"
    assert rows["n1"].moves == ("a/db to small-0",)
    told = summary.consolidation
    assert told is not None
    assert (told.saves_per_hour, told.buys, summary.saves_per_hour) == ("0.8", ("+1 small",), 0.8)
    assert [(one.wave, one.nodes, one.moves, one.detach) for one in told.waves] == [
        (1, ("n1",), 1, 1),
        (2, ("n2",), 1, 0),
    ]


def test_a_decision_is_a_mark_and_a_moment_a_sample() -> None:
    state = shown(published(full_nodes()))
    (mark,) = state["tables"]["decisions"].values()
    (sample,) = state["tables"]["samples"].values()
    assert mark["text"] == "would buy 2 of db"
    assert sample["groups"] == {"db": 2}
    assert (sample["pending"], sample["slots"][DRIVER]) == (3, [4, 4])


def a_cluster(chance: random.Random) -> list[KubeObject]:
    nodes = [f"n{number}" for number in range(12) if chance.random() < 0.8]
    objects: list[KubeObject] = [make.storage_class("fast", provisioner=DRIVER)]
    for name in nodes:
        objects += [make.node(name), make.csinode(name, {DRIVER: chance.choice((2, 5))})]
        for number in range(chance.randrange(3)):
            objects += database(f"db-{name}-{number}", name)
    for number in range(chance.randrange(4)):
        objects += database(f"new-{number}")
    return [*objects, group("all", nodes=nodes, slots={DRIVER: 5})]


def test_differences_lead_to_the_state_that_a_new_page_would_get() -> None:
    chance = random.Random(7)
    feed = published(a_cluster(chance))
    state = shown(feed)
    for _ in range(12):
        before = feed.revision
        published(a_cluster(chance), feed)
        with feed.followed(before) as follower:
            assert not follower.lost
            parts = [follower.parts.get_nowait()[1] for _ in range(follower.parts.qsize())]
        assert applied(state, parts) == shown(feed)


def test_a_moment_like_the_one_before_sends_nothing_but_the_end_of_the_timeline() -> None:
    feed = published(full_nodes())
    published(full_nodes(), feed)
    assert feed.revision == 1


def test_no_part_is_larger_than_it_may_be() -> None:
    feed = published([make.node(f"a-node-with-a-long-name-{number:04}") for number in range(3000)])
    with feed.followed(1) as follower:
        published([make.node(f"another-node-{number:04}") for number in range(3000)], feed)
        parts = [follower.parts.get_nowait()[1] for _ in range(follower.parts.qsize())]
    assert len(parts) > 1
    assert max(map(len, parts)) < LARGEST_PART + 2048 < 100 * 1024
    assert [msgspec.json.decode(part)["more"] for part in parts] == [True] * (len(parts) - 1) + [
        False
    ]


def test_one_node_that_changes_is_a_small_difference() -> None:
    nodes = [make.node(f"n{number}") for number in range(2000)]
    feed = published(nodes)
    with feed.followed(1) as follower:
        published([*nodes, make.pod("web", cpu="1", on="n7")], feed)
        parts = [follower.parts.get_nowait()[1] for _ in range(follower.parts.qsize())]
    assert sum(map(len, parts)) < 2048


def test_who_is_too_far_behind_begins_anew() -> None:
    feed = published([make.node("n1")])
    for number in range(KEPT_PARTS + 2):
        published([make.node("n1"), *(make.pod(f"p{n}", on="n1") for n in range(number))], feed)
    with feed.followed(1) as follower:
        assert follower.lost
    with feed.followed(feed.revision) as follower:
        for number in range(MANY_BEHIND + 2):
            follower.take(number, b"")
        assert follower.lost


def test_a_revision_of_another_server_is_not_believed() -> None:
    feed = a_feed()
    published([make.node("n1")], feed)
    with feed.followed(99) as follower:
        assert follower.lost
