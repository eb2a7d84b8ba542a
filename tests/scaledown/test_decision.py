"""Which nodes go, which stay, and what is said of both."""

import msgspec
import pytest

from tests.scaledown.clusters import (
    DRIVER,
    WEB,
    budget,
    db,
    going,
    group,
    nodes,
    plan,
    template,
    volume,
    web,
)
from tonnage.api import Cluster
from tonnage.groups import options as settings
from tonnage.groups.inputs import Inputs
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.pods import PodAffinityTerm
from tonnage.rules import features
from tonnage.scaledown import codes, decision
from tonnage.scaledown.codes import KeepCode
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import Action
from tonnage.scaledown.state import CoolDowns, ScaleDownState
from tonnage.testing import builders as make


def node(name: str, **fields: object) -> Node:
    return make.node(name, **{"cpu": "2", "memory": "8Gi", **fields})  # type: ignore[arg-type]


def annotated(name: str, **annotations: str) -> Node:
    made = node(name)
    notes = {
        f"cluster-autoscaler.kubernetes.io/{key.replace('_', '-')}": value
        for key, value in annotations.items()
    }
    return msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, annotations=notes)
    )


def test_an_empty_node_goes() -> None:
    made = plan(group("a", "b"), node("a"), node("b"), web("w", "a", cpu="1500m"))
    assert going(made) == ["b"]
    assert nodes(made)["b"].action is Action.DELETE


def test_pods_move_to_the_nodes_that_stay() -> None:
    made = plan(group("a", "b"), node("a"), node("b"), web("w1", "a"), web("w2", "b"))
    (gone,) = made.going
    assert (gone.action, [move.to for move in gone.moves]) == (
        Action.DRAIN,
        ["b" if gone.node == "a" else "a"],
    )


def test_a_group_keeps_its_minimum() -> None:
    made = plan(group("a", "b", "c", least=2), node("a"), node("b"), node("c"))
    assert len(made.going) == 1


def test_totals_keep_their_minimum() -> None:
    objects: list[KubeObject] = [group("a", "b", "c"), node("a"), node("b")]
    objects.append(node("c", cpu="1"))
    assert going(plan(*objects, coresTotal="4:100")) == ["c"]


@pytest.mark.parametrize(
    ("objects", "options", "code"),
    [
        ([node("x")], {}, KeepCode.NO_GROUP),
        ([group("x", least=1), node("x")], {}, KeepCode.GROUP_AT_MIN_SIZE),
        (
            [group("x"), annotated("x", scale_down_disabled="true")],
            {},
            KeepCode.DISABLED_BY_ANNOTATION,
        ),
        ([group("x"), node("x"), web("w", "x", cpu="1500m")], {}, KeepCode.IN_USE),
        ([group("x"), node("x"), web("w", "x")], {}, KeepCode.NO_PLACE),
        ([group("x"), node("x"), web("w", "x"), budget(0)], {}, KeepCode.BLOCKED_BY_POD),
        ([group("x"), node("x")], {"scaleDownUnneededTime": "10m"}, KeepCode.NOT_LONG_ENOUGH),
    ],
)
def test_a_node_stays_because(
    objects: list[KubeObject], options: dict[str, object], code: KeepCode
) -> None:
    made = nodes(plan(*objects, **options))["x"]
    assert (made.code, made.reason) == (code.value, codes.NODE_REASONS[code].upstream)


def test_who_blocks_and_what_would_help_is_said() -> None:
    made = nodes(plan(group("x"), node("x"), web("w", "x"), budget(0)))["x"]
    assert (made.pod, made.pod_reason) == ("default/w", "NotEnoughPdb")
    assert made.frees == "one more allowed disruption of default/web"


def test_how_much_less_would_help_is_said() -> None:
    made = nodes(plan(group("x"), node("x"), web("w", "x", cpu="1500m")))["x"]
    assert made.frees == "501m less cpu requested on the node"


def test_an_atomic_group_goes_as_a_whole() -> None:
    whole = group("a", "b", scaling="zeroOrMax")
    assert going(plan(whole, node("a"), node("b"))) == ["a", "b"]


def test_an_atomic_group_stays_as_a_whole() -> None:
    whole = group("a", "b", scaling="zeroOrMax")
    made = plan(whole, node("a"), node("b"), web("w", "a"))
    assert going(made) == []
    assert nodes(made)["b"].code == KeepCode.ALL_OR_NOTHING


def test_attach_limits_hold_at_the_destination() -> None:
    objects: list[KubeObject] = [group("a", "b"), make.storage_class("disk", DRIVER)]
    for name, claims in (("a", ("c1", "c2")), ("b", ("c3", "c4"))):
        objects += [node(name), make.csinode(name, {DRIVER: 3})]
        for claim in claims:
            objects += [*volume(claim), db(f"db-{claim}", name, cpu="100m", pvcs=[claim])]
    assert going(plan(*objects, slotsUtilization=False)) == []


def test_a_node_whose_slots_are_taken_is_in_use() -> None:
    objects: list[KubeObject] = [group("a"), make.storage_class("disk", DRIVER), *volume("c")]
    objects += [node("a"), make.csinode("a", {DRIVER: 1}), db("db", "a", pvcs=["c"])]
    made = nodes(plan(*objects))["a"]
    assert made.utilisation is not None
    assert (made.code, made.utilisation.resource) == (KeepCode.IN_USE, DRIVER)


def zonal(*more: KubeObject) -> list[KubeObject]:
    """A node in a zone of its own with a volume that nobody uses just now."""
    affinity = make.nodes_with(make.ZONE, "z1")
    return [
        make.storage_class("disk", DRIVER),
        node("a", zone="z1"),
        node("b", zone="z2"),
        web("w", "b", cpu="1500m"),
        *volume("c", node_affinity=affinity),
        *more,
    ]


def test_the_last_node_that_volumes_need_stays() -> None:
    made = nodes(plan(*zonal(group("a", "b"))))["a"]
    assert made.code == KeepCode.LAST_OF_ZONE


def test_unless_a_group_can_bring_another() -> None:
    named = group("a", template=template("z1"))
    meta = msgspec.structs.replace(named.metadata, name="zonal")
    assert going(plan(*zonal(group("b"), msgspec.structs.replace(named, metadata=meta)))) == ["a"]


def test_one_replica_of_a_set_moves_at_a_time() -> None:
    objects: list[KubeObject] = [
        group("a", "b"),
        node("a"),
        node("b", cpu="8"),
        db("db-0", "a"),
        db("db-1", "a"),
    ]
    (gone,) = plan(*objects, web("w", "b", cpu="5")).going
    assert [move.wave for move in gone.moves] == [1, 2]
    assert gone.wave == 2


def test_budgets_hold_within_a_wave() -> None:
    objects: list[KubeObject] = [group("a", "b"), node("a"), node("b", cpu="8"), budget(1)]
    objects += [web("w1", "a"), web("w2", "a"), web("big", "b", cpu="5")]
    (gone,) = plan(*objects).going
    assert [move.wave for move in gone.moves] == [1, 2]


def test_pods_that_keep_apart_do_so_at_their_destination() -> None:
    alike = make.selecting({"app": "web"})
    term = PodAffinityTerm(topology_key=make.HOSTNAME, label_selector=alike)
    objects: list[KubeObject] = [group("a", "b"), node("a"), node("b")]
    objects += [web("w1", "a", apart=[term]), web("w2", "b", apart=[term])]
    assert going(plan(*objects)) == []


def test_waiting_pods_keep_the_node_they_need() -> None:
    made = plan(group("a"), node("a"), make.pod("waiting", cpu="1"))
    assert nodes(made)["a"].code == KeepCode.NOT_THIS_TIME


def test_what_goes_is_priced() -> None:
    made = plan(group("a", price="0.504"), node("a"))
    assert (made.saves_per_hour, nodes(made)["a"].saves) == ("0.504", "0.504")


def test_a_node_that_is_to_go_goes_however_busy() -> None:
    objects: list[KubeObject] = [group("a", "b"), node("a"), node("b"), web("w", "a", cpu="1500m")]
    cluster = Cluster(objects)
    options = {"skipNodesWithCustomControllerPods": False}
    assert [one.node for one in cluster.scale_down(options).going] == ["b"]
    assert [one.node for one in cluster.scale_down(options, wanted=["a"]).going] == ["a"]


def asked(*objects: KubeObject, state: ScaleDownState, **options: object) -> ScaleDownInputs:
    inputs = Inputs.of_objects(
        objects, options=settings.of(options), features=features.of_version(), now=10_000.0
    )
    return ScaleDownInputs.of(inputs, objects, state=state)


def test_since_when_a_node_is_unneeded_is_remembered() -> None:
    state = ScaleDownState(unneeded={"a": 9_900.0, "gone": 1.0})
    made = decision.decide(asked(group("a", "b"), node("a"), node("b"), state=state))
    assert made.state.unneeded == {"a": 9_900.0, "b": 10_000.0}
    assert nodes(made.plan)["a"].until == "1970-01-01T02:55:00Z"


def test_a_node_goes_when_its_time_has_come() -> None:
    state = ScaleDownState(unneeded={"a": 9_000.0, "b": 9_900.0})
    made = decision.decide(asked(group("a", "b"), node("a"), node("b"), state=state))
    assert going(made.plan) == ["a"]


def test_nothing_goes_just_after_nodes_were_added() -> None:
    state = ScaleDownState(unneeded={"a": 0.0}, cool_downs=CoolDowns(added={"other": 9_900.0}))
    made = decision.decide(asked(group("a"), node("a"), state=state)).plan
    assert nodes(made)["a"].code == KeepCode.COOLING_DOWN


def test_a_local_delay_keeps_its_own_group_only() -> None:
    state = ScaleDownState(unneeded={"a": 0.0}, cool_downs=CoolDowns(added={"other": 9_900.0}))
    options = {"scaleDownDelayTypeLocal": True}
    assert going(decision.decide(asked(group("a"), node("a"), state=state, **options)).plan) == [
        "a"
    ]


def test_a_single_node_is_judged() -> None:
    question = asked(group("a", "b"), node("a"), node("b"), state=ScaleDownState())
    judged = decision.judge(question, "a")
    assert judged is not None
    assert judged.action is Action.DELETE
    assert decision.judge(question, "nobody") is None


@pytest.mark.parametrize(("size", "gone"), [(1, []), (2, ["a"])], ids=["full", "one is free"])
def test_slots_that_drivers_share_hold_at_the_destination(size: int, gone: list[str]) -> None:
    pool: dict[str, object] = {
        "name": "slots",
        "size": size,
        "members": {DRIVER: 1, "other.example.com": 1},
    }
    made = plan(
        group("a"),
        make.storage_class("disk", DRIVER),
        *(make.node(name) for name in ("a", "b")),
        *(make.csinode(name, {DRIVER: 9}) for name in ("a", "b")),
        *volume("here"),
        *volume("there"),
        web("moves", "a", pvcs=["here"]),
        web("stays", "b", pvcs=["there"]),
        pools=[pool],
        slotsUtilization=False,
    )
    assert going(made) == gone


@pytest.mark.parametrize(
    ("free", "gone"),
    [
        pytest.param("5Gi", [], id="too little for one"),
        pytest.param("10Gi", [], id="enough for one, not for both"),
        pytest.param("12Gi", ["a"], id="enough for both"),
    ],
)
def test_volumes_that_are_yet_to_be_made_are_added_up_at_the_destination(
    free: str, gone: list[str]
) -> None:
    host = make.HOSTNAME
    made = plan(
        group("a"),
        make.csidriver(DRIVER, storage_capacity=True),
        make.storage_class("local", DRIVER),
        *(make.node(name) for name in ("a", "b")),
        *(make.csinode(name, {DRIVER: 9}) for name in ("a", "b")),
        make.capacity("of-a", "local", free="50Gi", topology={host: "a"}),
        make.capacity("of-b", "local", free=free, topology={host: "b"}),
        *(make.pvc(name, storage_class="local", size="6Gi") for name in ("one", "two")),
        *(web(name, "a", pvcs=[name]) for name in ("one", "two")),
        slotsUtilization=False,
    )
    assert going(made) == gone


def test_pods_that_consolidation_moved_stay_until_that_has_paid_back() -> None:
    busy = web("busy", "b", cpu="3")
    nodes: list[KubeObject] = [make.node("a"), make.node("b")]
    objects = [WEB, *nodes, web("w", "a"), busy, group("a", "b")]
    state = ScaleDownState(pays_back={"a": 1100.0})
    soon, later = (
        Cluster(objects).scale_down({"scaleDownUnneededTime": 0}, now=now, state=state)
        for now in (1000.0, 1200.0)
    )
    (kept,) = (one for one in soon.nodes if one.node == "a")
    assert (kept.code, kept.until) == ("cooling-down", "1970-01-01T00:18:20Z")
    assert [one.node for one in later.going] == ["a"]
