"""What is coming is not bought a second time, whatever the next round thinks of how to fill it."""

from collections.abc import Iterable

import msgspec
import pytest

from tests.scaleup.groups import DRIVER, group
from tonnage.filters import features
from tonnage.groups import nodegroups
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup
from tonnage.scaleup import deciding
from tonnage.scaleup import options as options_of
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make
from tonnage.testing.groups import NOW, random_scenario
from tonnage.testing.replay import violations

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
    targets = {one.id: one.target for one in nodegroups.from_objects(declared, nodes)}
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


# Clusters in which pods of many shapes filled the coming nodes worse the second time.
@pytest.mark.parametrize("seed", [19, 22, 92, 129, 220, 236, 244, 248, 293])
def test_the_same_pods_are_not_bought_for_twice(seed: int) -> None:
    scenario = random_scenario(seed)
    options = options_of.of({**scenario.options, **PLAIN})
    gates = features.of_version("", scenario.gates)
    plan = deciding.decide(scenario.objects, options=options, features=gates, now=NOW)
    assert plan.scale_ups
    later = with_requests(scenario.objects, plan)

    again = deciding.decide(later, options=options, features=gates, now=NOW)

    assert again.scale_ups == ()
    assert violations(later, again, options=options, features=gates, now=NOW) == []


def test_pods_that_came_since_are_bought_for() -> None:
    objects: list[KubeObject] = [
        make.storage_class("fast", DRIVER),
        *(make.pvc(f"data-{number}", storage_class="fast") for number in range(5)),
        *(make.pod(f"db-{number}", pvcs=[f"data-{number}"]) for number in range(3)),
        group("g", slots={DRIVER: 2}, cpu="4", most=9),
    ]
    options = options_of.of({})
    plan = deciding.decide(objects, options=options, features=GATES, now=NOW)
    assert [one.delta for one in plan.scale_ups] == [2]
    later = [
        *with_requests(objects, plan),
        *(make.pod(f"db-{number}", pvcs=[f"data-{number}"]) for number in (3, 4)),
    ]

    again = deciding.decide(later, options=options, features=GATES, now=NOW)

    assert [one.delta for one in again.scale_ups] == [1]
