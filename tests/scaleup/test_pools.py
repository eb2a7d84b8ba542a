"""Plans on machines whose slots several drivers share. Every plan is replayed, pools included."""

import msgspec
import pytest

from tests.scaleup.asking import EBS, UPSTREAM, bought, decide, group, helped, left_out, stateful
from tonnage.errors import InputError
from tonnage.groups import options as settings
from tonnage.objects.kinds import KubeObject
from tonnage.objects.scenarios import NodeGroup, SlotPool
from tonnage.testing import builders as make

OTHER = "other.example.com"
BASE = (make.storage_class("fast", EBS), make.storage_class("other", OTHER))
SHARED = {"name": "shared", "size": 6, "members": {EBS: 1, OTHER: 1}}


def pods(count: int) -> list[KubeObject]:
    """Pods with a volume of each driver."""
    made: list[KubeObject] = []
    for number in range(count):
        claims = [make.pvc(f"{name}-{number}", storage_class=name) for name in ("fast", "other")]
        names = [claim.metadata.name for claim in claims]
        made += [*claims, make.pod(f"db-{number}", cpu="10m", pvcs=names)]
    return made


def roomy(name: str = "g", **rest: object) -> NodeGroup:
    return group(name, slots={EBS: 10, OTHER: 10}, **rest)  # type: ignore[arg-type]


def test_without_a_pool_each_driver_has_its_own_slots() -> None:
    assert bought(decide(BASE, roomy(), pods(10))) == {"g": 1}


def test_a_pool_holds_the_volumes_of_all_its_drivers() -> None:
    plan = decide(BASE, roomy(), pods(10), pools=[SHARED])

    assert bought(plan) == {"g": 4}
    assert plan.bounds.nodes == 4
    assert plan.scale_ups[0].binding == "slots of pool shared"


def test_weights_count_several_slots_for_one_volume() -> None:
    heavy = {**SHARED, "members": {EBS: 1, OTHER: 2}}

    assert bought(decide(BASE, roomy(), pods(10), pools=[heavy])) == {"g": 5}


def test_what_other_things_occupy_is_taken_off() -> None:
    assert bought(decide(BASE, roomy(), pods(10), pools=[{**SHARED, "occupied": 4}])) == {"g": 10}


def test_a_groups_own_pool_is_its_own() -> None:
    own = roomy("own", price="1.0")
    pool = SlotPool(name="shared", size=2, members={EBS: 1, OTHER: 1})
    own = msgspec.structs.replace(own, spec=msgspec.structs.replace(own.spec, pools=(pool,)))

    plan = decide(BASE, own, roomy("free", price="1.5"), pods(10), expander="least-nodes")

    assert bought(plan) == {"free": 1}
    assert [(one.group, one.free, one.source) for one in plan.pools] == [("own", 2, "override")]


def test_nodes_that_are_there_have_pools_too() -> None:
    node, csinode = make.node("n1"), make.csinode("n1", {EBS: 10, OTHER: 10})

    plan = decide(BASE, node, csinode, pods(10), pools=[SHARED])

    assert len(plan.fit_on_existing) == 3


def test_a_pod_too_large_for_the_pool_is_told_what_it_lacks() -> None:
    plan = decide(BASE, roomy(), stateful("db", 1, claims=7), pools=[SHARED])

    left = left_out(plan, "db-0")
    assert left.never_fits
    assert left.nearest is not None
    assert (left.nearest.resource, left.nearest.wanted, left.nearest.available) == (
        "slots of pool shared",
        7,
        6,
    )


def test_drivers_outside_the_pool_are_not_held_up_by_it() -> None:
    lone = {"name": "shared", "size": 0, "members": {OTHER: 1}}

    assert helped(decide(BASE, roomy(), stateful("db", 5), pools=[lone])) == 5


def test_the_catalogue_gives_the_size_of_a_pool_without_one() -> None:
    nitro = {"name": "aws-nitro", "members": {EBS: 1, OTHER: 1}}
    kinds = group("g", kind="m5.large", slots={EBS: None, OTHER: None}, cpu="64", pods=500)

    plan = decide(BASE, kinds, pods(26), pools=[nitro])

    assert [(one.free, one.source) for one in plan.pools] == [(26, "catalogue")]
    assert bought(plan) == {"g": 2}


def test_upstreams_rules_know_no_pools() -> None:
    assert bought(decide(BASE, roomy(), pods(10), pools=[SHARED], compatibility=UPSTREAM)) == {
        "g": 1
    }


def test_a_pool_that_makes_no_sense_is_an_error_that_says_where() -> None:
    with pytest.raises(InputError, match=r"pools\[0\]: members\.x: 0: expected 1 slot or more"):
        settings.of({"pools": [{"name": "p", "members": {"x": 0}}]})
