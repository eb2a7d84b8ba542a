"""What is coming is not bought a second time, whatever the next round thinks of how to fill it."""

from collections.abc import Iterable

import msgspec
import pytest

from tests.clusters.random_groups import NOW, random_scenario
from tests.scaleup.groups import DRIVER, group
from tests.scaleup.replay import missed, violations
from tonnage.groups import node_group_objects
from tonnage.groups import options as options_of
from tonnage.groups.inputs import Inputs
from tonnage.groups.model import Purchase
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup
from tonnage.rules import features
from tonnage.scaleup import assessment, decision, prepaid
from tonnage.scaleup.plan import NotHelped, Plan, ScaleUp
from tonnage.scaleup.request import Request
from tonnage.testing import builders as make

GATES = features.of_version()
PLAIN = {
    "compatibility": "none",
    "maxNodesTotal": 0,
    "maxNodesPerScaleUp": 1000,
    "coresTotal": 320_000,
    "pools": [],
}


def with_requests(objects: Iterable[KubeObject], plan: Plan) -> list[KubeObject]:
    """The cluster a moment later: the provider was asked, and there is no node yet."""
    objects = list(objects)
    declared = [one for one in objects if isinstance(one, NodeGroup)]
    nodes = [one for one in objects if isinstance(one, Node)]
    targets = {one.id: one.target for one in node_group_objects.from_objects(declared, nodes)}
    for up in plan.scale_ups:
        targets[up.group] += up.delta
    return [
        msgspec.structs.replace(
            one, spec=msgspec.structs.replace(one.spec, target_size=targets[one.metadata.name])
        )
        if isinstance(one, NodeGroup)
        else one
        for one in objects
    ]


def bought_twice(seed: int) -> tuple[Plan, Plan]:
    """What is decided for a random cluster, and again a moment later; both plans are replayed."""
    scenario = random_scenario(seed)
    options = options_of.of({**scenario.options, **PLAIN})
    gates = features.of_version("", scenario.gates)
    plan = decision.decide(
        Inputs.of_objects(scenario.objects, options=options, features=gates, now=NOW)
    ).plan
    if not plan.scale_ups:
        return plan, plan
    later = with_requests(scenario.objects, plan)
    again = decision.decide(Inputs.of_objects(later, options=options, features=gates, now=NOW)).plan
    for judge in (violations, missed):
        assert judge(later, again, options=options, features=gates, now=NOW) == []
    return plan, again


def helps_more(again: Plan, plan: Plan) -> bool:
    return len(again.not_helped) < len(plan.not_helped)


# Clusters in which pods of many shapes filled the coming nodes worse the second time, or others of
# those that cannot all be helped; in the last two some nodes were coming before already.
@pytest.mark.parametrize("seed", [19, 22, 48, 92, 129, 206, 220, 236, 244, 248, 293, 1027, 1288])
def test_the_same_pods_are_not_bought_for_twice(seed: int) -> None:
    plan, again = bought_twice(seed)
    assert plan.scale_ups
    assert again.scale_ups == ()
    assert not helps_more(plan, again)


@pytest.mark.parametrize("first", range(0, 16, 4))
def test_whatever_is_bought_again_helps_more_pods(first: int) -> None:
    for seed in range(first, first + 4):
        plan, again = bought_twice(seed)
        if plan.scale_ups and again.scale_ups and again is not plan:
            assert helps_more(again, plan), seed


@pytest.mark.parametrize("seed", [177, 229])
def test_what_another_round_would_buy_for_is_bought_for_at_once(seed: int) -> None:
    plan, again = bought_twice(seed)
    assert plan.scale_ups
    assert again.scale_ups == ()
    assert not helps_more(again, plan)


def test_a_pod_that_is_left_out_for_another_is_told_why() -> None:
    cluster = [make.pod("a"), make.pod("b"), group("g", target=1)]
    request = decision.request(
        assessment.assess(
            Inputs.of_objects(cluster, options=options_of.of({}), features=GATES, now=NOW)
        )
    )
    best = Plan(
        scale_ups=(ScaleUp(group="g", delta=1, nodes=()),), not_helped=(NotHelped(pod="default/a"),)
    )
    found = Plan(not_helped=(NotHelped(pod="default/b"),))
    again = prepaid.without_buying(request, best, plan_anew=lambda *_, **__: found)

    assert again is not None
    (left,) = again.not_helped
    assert left.pod == "default/b"
    assert [one.reasons for one in left.reasons] == [(prepaid.NO_BETTER,)]


def test_pods_that_came_since_are_bought_for() -> None:
    objects: list[KubeObject] = [
        make.storage_class("fast", DRIVER),
        *(make.pvc(f"data-{number}", storage_class="fast") for number in range(5)),
        *(make.pod(f"db-{number}", pvcs=[f"data-{number}"]) for number in range(3)),
        group("g", slots={DRIVER: 2}, cpu="4", most=9),
    ]
    options = options_of.of({})
    plan = decision.decide(
        Inputs.of_objects(objects, options=options, features=GATES, now=NOW)
    ).plan
    assert [one.delta for one in plan.scale_ups] == [2]
    later = [
        *with_requests(objects, plan),
        *(make.pod(f"db-{number}", pvcs=[f"data-{number}"]) for number in (3, 4)),
    ]

    again = decision.decide(Inputs.of_objects(later, options=options, features=GATES, now=NOW)).plan

    assert [one.delta for one in again.scale_ups] == [1]


def test_what_is_remembered_of_purchases_is_tried_first() -> None:
    """Two nodes of each of two groups are coming."""
    cluster = [make.pod("a"), make.pod("b"), *(group(name, target=2) for name in ("g", "h"))]
    inputs = Inputs.of_objects(cluster, options=options_of.of({}), features=GATES, now=NOW)
    for_a, for_b = (Purchase(nodes=1, pods=(f"default/{name}", "default/gone")) for name in "ab")
    for_nobody = Purchase(nodes=2, pods=("default/gone",))
    tried: list[dict[str, int]] = []

    def plan_anew(request: Request, **_: object) -> Plan:
        tried.append({one.id: one.target for one in request.groups})
        return Plan(partial=True)

    def first_try(purchases: dict[str, Purchase]) -> dict[str, int]:
        tried.clear()
        asked = msgspec.structs.replace(inputs, purchases=purchases)
        request = decision.request(assessment.assess(asked))
        best = Plan(scale_ups=(ScaleUp(group="g", delta=1, nodes=()),))
        assert prepaid.without_buying(request, best, plan_anew=plan_anew) is None
        return tried[0]

    assert first_try({}) == {"g": 0, "h": 0}
    assert first_try({"g": for_a, "h": for_nobody}) == {"g": 1, "h": 2}
    assert first_try({"g": for_a, "h": for_b}) == {"g": 1, "h": 1}
