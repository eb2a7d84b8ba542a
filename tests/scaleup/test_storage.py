"""Plans for pods with storage of the nodes' own: the ledger, and where it takes its numbers from.

Every plan is replayed, storage included (`tests.scaleup.asking.decide`).
"""

from collections.abc import Iterable

import msgspec
import pytest

from tests.scaleup.asking import (
    NOW,
    UPSTREAM,
    assessed,
    bought,
    created,
    daemons,
    decide,
    group,
    helped,
    left_out,
)
from tests.scaleup.replay import violations
from tonnage.groups import options as settings
from tonnage.groups.inputs import Inputs
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects import validation
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.scenarios import NodeGroup, StorageCapacity
from tonnage.rules import features, pipeline
from tonnage.scaleup import decision
from tonnage.scaleup.plan import Plan
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make

LOCAL = "local.example.com"
HOST = "kubernetes.io/hostname"
GIB = 2**30
BASE = (make.csidriver(LOCAL, storage_capacity=True), make.storage_class("local", LOCAL))


def with_disk(name: str, capacity: str, *, largest: str | None = None, **rest: object) -> NodeGroup:
    """A group whose template says what disk a new node has."""
    made = group(name, **rest)  # type: ignore[arg-type]
    assert made.spec.template is not None
    room = StorageCapacity(
        storage_class_name="local", capacity=capacity, maximum_volume_size=largest
    )
    template = msgspec.structs.replace(made.spec.template, storage_capacity=(room,))
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, template=template))


def pods(name: str, count: int, *sizes: str, **pod: object) -> list[KubeObject]:
    """Pods that wait, each with a claim of each size."""
    made: list[KubeObject] = []
    for number in range(count):
        claims = [
            make.pvc(f"{name}-{number}-{place}", storage_class="local", size=size)
            for place, size in enumerate(sizes)
        ]
        names = [claim.metadata.name for claim in claims]
        made += [*claims, make.pod(f"{name}-{number}", cpu="10m", pvcs=names, **pod)]  # type: ignore[arg-type]
    return made


def disk(node: str, free: str) -> KubeObject:
    return make.capacity(f"disk-{node}", "local", free=free, topology={HOST: node})


def on_existing(plan: Plan) -> dict[str, str]:
    return {one.pod: one.node for one in plan.fit_on_existing}


def sources(plan: Plan) -> dict[str, tuple[int, str]]:
    """GiB of a new node by group, and who says so."""
    return {one.group: (one.capacity // GIB, one.source) for one in plan.storage}


# New nodes.


def test_two_claims_of_a_whole_disk_each_are_refused_together() -> None:
    plan = decide(BASE, with_disk("g", "100Gi"), pods("db", 1, "100Gi", "100Gi"))

    left = left_out(plan, "db-0")
    assert left.never_fits
    assert left.nearest is not None
    assert (left.nearest.resource, left.nearest.wanted, left.nearest.available) == (
        "storage of class local",
        200 * GIB,
        100 * GIB,
    )


def test_a_claim_larger_than_each_of_several_disks_is_refused() -> None:
    plan = decide(BASE, with_disk("g", "300Gi", largest="100Gi"), pods("db", 1, "120Gi"))

    assert left_out(plan, "db-0").never_fits


def test_a_thousand_pods_that_need_a_whole_disk_get_a_thousand_nodes() -> None:
    plan = decide(
        BASE, with_disk("g", "1800Gi", most=2000), pods("db", 1000, "1800Gi"), judged=False
    )

    assert bought(plan) == {"g": 1000}
    assert helped(plan) == 1000
    assert plan.bounds.nodes == 1000


def test_disks_are_filled_as_far_as_they_go() -> None:
    plan = decide(BASE, with_disk("g", "100Gi"), pods("a", 4, "60Gi"), pods("b", 4, "40Gi"))

    assert bought(plan) == {"g": 4}


def test_a_group_with_too_small_a_disk_is_passed_over() -> None:
    plan = decide(
        BASE, with_disk("small", "50Gi"), with_disk("large", "100Gi"), pods("db", 3, "60Gi")
    )

    assert bought(plan) == {"large": 3}


def test_volumes_of_pods_that_come_with_a_node_are_taken_first() -> None:
    cache = make.pod(
        "cache", volumes=[make.ephemeral_volume("c", storage_class="local", size="50Gi")]
    )

    plan = decide(BASE, with_disk("g", "100Gi"), daemons("cache", cache), pods("db", 2, "50Gi"))

    assert bought(plan) == {"g": 2}


def test_a_claim_that_two_pods_share_takes_its_size_once() -> None:
    claim = make.pvc("both", storage_class="local", size="100Gi")
    sharing = [make.pod(f"p{number}", cpu="10m", pvcs=["both"]) for number in range(2)]

    plan = decide(BASE, with_disk("g", "100Gi"), claim, sharing)

    assert bought(plan) == {"g": 1}
    assert helped(plan) == 2


def test_drivers_that_publish_no_capacity_are_not_counted() -> None:
    classes = (make.csidriver(LOCAL), make.storage_class("local", LOCAL))

    plan = decide(classes, with_disk("g", "100Gi"), pods("db", 5, "100Gi"))

    assert bought(plan) == {"g": 1}
    assert plan.storage == ()


def test_upstreams_rules_know_no_ledger() -> None:
    published = make.capacity(
        "template", "local", free="100Gi", topology={TEMPLATE_NODE_LABEL: "true"}
    )

    plan = decide(
        BASE, with_disk("g", "1Gi"), published, pods("db", 5, "100Gi"), compatibility=UPSTREAM
    )

    assert bought(plan) == {"g": 1}


# Nodes that are there.


def test_pods_placed_in_the_same_plan_take_what_a_node_has_left() -> None:
    nodes = [make.node(name) for name in ("n1", "n2")]

    plan = decide(BASE, nodes, disk("n1", "100Gi"), disk("n2", "50Gi"), pods("db", 4, "50Gi"))

    assert sorted(on_existing(plan).values()) == ["n1", "n1", "n2"]
    assert len(plan.not_helped) == 1


def test_nodes_of_a_zone_share_what_the_zone_has() -> None:
    nodes = [make.node(name, zone="z1") for name in ("n1", "n2")]
    zone = make.capacity("z1", "local", free="120Gi", topology={make.ZONE: "z1"})

    plan = decide(BASE, nodes, zone, group("g", zone="z1"), pods("db", 4, "50Gi"))

    assert len(on_existing(plan)) == 2
    assert bought(plan) == {}
    assert not left_out(plan, "db-3").never_fits


def test_a_zones_storage_bounds_what_is_bought_for_it() -> None:
    zone = make.capacity("z1", "local", free="500Gi", topology={make.ZONE: "z1"})

    plan = decide(BASE, zone, group("g", zone="z1", pods=2), pods("db", 20, "50Gi"))

    assert bought(plan) == {"g": 5}
    assert len(plan.not_helped) == 10


def test_kube_scheduler_still_offers_a_node_for_each_claim_alone() -> None:
    objects = [*BASE, make.node("n1"), disk("n1", "100Gi"), *pods("db", 1, "100Gi", "100Gi")]
    snapshot = Snapshot.of(objects)
    (waiting,) = snapshot.pending_pods()

    fits = pipeline.evaluate(snapshot, waiting, features.of_version()).fits

    assert fits.any()
    assert len(decide(objects).not_helped) == 1


def test_a_plan_warns_where_kube_scheduler_would_overfill_its_nodes() -> None:
    plan = decide(BASE, with_disk("g", "100Gi"), pods("db", 3, "100Gi"))

    (warning,) = [one for one in plan.warnings if "storage class local" in one]
    assert "g-new-1 and 2 more" in warning


def test_a_plan_does_not_warn_where_there_is_room_left() -> None:
    plan = decide(BASE, with_disk("g", "100Gi"), pods("db", 1, "10Gi"))

    assert [one for one in plan.warnings if "storage class" in one] == []


# Where the numbers come from.


def live(name: str, free: str, *held: str) -> Iterable[KubeObject]:
    """A node of group g with a disk that has volumes on it and so much left."""
    yield make.node(name)
    yield disk(name, free)
    for number, size in enumerate(held):
        yield make.pv(
            f"{name}-{number}",
            driver=LOCAL,
            storage_class="local",
            size=size,
            node_affinity=make.nodes_with(HOST, name),
            claim=make.pvc(f"{name}-{number}", storage_class="local"),
        )


def test_a_live_node_tells_what_an_empty_one_would_have() -> None:
    plan = decide(
        BASE,
        live("n1", "10Gi", "60Gi", "30Gi"),
        group("g", nodes=["n1"]),
        pods("db", 2, "100Gi"),
    )

    assert sources(plan) == {"g": (100, "live")}
    assert bought(plan) == {"g": 2}


def test_the_emptiest_of_several_nodes_tells_most() -> None:
    plan = decide(
        BASE,
        live("n1", "10Gi"),
        live("n2", "70Gi", "30Gi"),
        group("g", nodes=["n1", "n2"]),
        pods("db", 1, "90Gi"),
    )

    assert sources(plan) == {"g": (100, "live")}


def test_what_the_template_declares_comes_before_what_nodes_show() -> None:
    plan = decide(
        BASE, live("n1", "10Gi"), with_disk("g", "80Gi", nodes=["n1"]), pods("db", 1, "70Gi")
    )

    assert sources(plan) == {"g": (80, "provider")}


def test_an_object_published_for_template_nodes_is_used() -> None:
    topology = {TEMPLATE_NODE_LABEL: "true", "node.kubernetes.io/instance-type": "m5d"}
    published = make.capacity("for-m5d", "local", free="75Gi", topology=topology)

    plan = decide(
        BASE, published, group("g", kind="m5d"), group("h", kind="m5"), pods("db", 2, "70Gi")
    )

    assert sources(plan) == {"g": (75, "published")}
    assert bought(plan) == {"g": 2}


def requirement(key: str, operator: str, *values: str) -> LabelRequirement:
    return LabelRequirement(key=key, operator=operator, values=values)


TYPE = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    "topology",
    [
        pytest.param(
            make.selecting({TEMPLATE_NODE_LABEL: "true"}, requirement(TYPE, "In", "m5d", "i3")),
            id="one of several instance types",
        ),
        pytest.param(
            make.selecting({TYPE: "m5d"}, requirement(TEMPLATE_NODE_LABEL, "Exists")),
            id="whatever the value of the template label",
        ),
        pytest.param(
            make.selecting({}, requirement(TEMPLATE_NODE_LABEL, "In", "true")),
            id="all template nodes",
        ),
        pytest.param(
            make.selecting({TEMPLATE_NODE_LABEL: "true"}, requirement(TYPE, "NotIn", "m5")),
            id="all but an instance type",
        ),
        pytest.param(
            make.selecting({TEMPLATE_NODE_LABEL: "true"}, requirement("diskless", "DoesNotExist")),
            id="all without a label",
        ),
        pytest.param(
            make.selecting(
                {},
                requirement(TEMPLATE_NODE_LABEL, "Exists"),
                requirement(TYPE, "Exists"),
                requirement("zone", "NotIn", "b"),
            ),
            id="expressions only",
        ),
    ],
)
def test_each_new_node_has_what_an_object_for_template_nodes_says_however_it_selects(
    topology: LabelSelector,
) -> None:
    published = msgspec.structs.replace(
        make.capacity("for-new", "local", free="75Gi"), node_topology=topology
    )

    plan = decide(BASE, published, group("g", kind="m5d"), pods("db", 4, "70Gi"))

    assert sources(plan) == {"g": (75, "published")}
    assert bought(plan) == {"g": 4}


def test_an_object_that_excludes_a_groups_nodes_says_nothing_about_them() -> None:
    topology = make.selecting({TEMPLATE_NODE_LABEL: "true"}, requirement(TYPE, "NotIn", "m5d"))
    published = msgspec.structs.replace(
        make.capacity("for-new", "local", free="75Gi"), node_topology=topology
    )

    plan = decide(BASE, published, group("g", kind="m5d"), pods("db", 1, "70Gi"))

    assert bought(plan) == {}


def test_the_disk_of_a_node_is_its_own_when_an_expression_names_the_host() -> None:
    named = make.selecting({}, requirement(HOST, "In", "n1"))
    own = msgspec.structs.replace(make.capacity("disk", "local", free="100Gi"), node_topology=named)

    plan = decide(BASE, make.node("n1"), own, group("g", nodes=["n1"]), pods("db", 3, "80Gi"))

    assert sources(plan) == {"g": (100, "live")}
    assert len(on_existing(plan)) == 1
    assert bought(plan) == {"g": 2}


def test_what_a_groups_last_node_had_is_remembered() -> None:
    before = [*BASE, *live("n1", "90Gi", "10Gi"), group("g", nodes=["n1"])]
    memory = assessed(before).templates.memory

    plan = decide(BASE, group("g", described=False), pods("db", 1, "95Gi"), memory=memory)

    assert sources(plan) == {"g": (100, "remembered")}
    assert bought(plan) == {"g": 1}


@pytest.mark.parametrize("quantity", ["lots", "-1Gi"])
def test_a_wrong_quantity_in_a_template_is_named(quantity: str) -> None:
    fault = validation.first_fault(with_disk("g", quantity))

    assert fault is not None
    assert fault.path == ("spec", "template", "storageCapacity", 0, "capacity")


# Nodes that have not published theirs yet.


def one_node(*, seconds_old: float) -> list[KubeObject]:
    return [created(make.node("n1"), seconds_old), make.csinode("n1", {LOCAL: None})]


def test_a_node_whose_driver_has_just_registered_counts_with_the_disk_of_its_group() -> None:
    plan = decide(
        BASE,
        one_node(seconds_old=60),
        with_disk("g", "100Gi", nodes=["n1"], slots={LOCAL: None}),
        pods("db", 3, "40Gi"),
    )

    assert len(on_existing(plan)) == 2
    assert bought(plan) == {"g": 1}


def test_a_node_that_has_published_less_than_its_group_would_have_has_that() -> None:
    plan = decide(
        BASE,
        one_node(seconds_old=60),
        disk("n1", "50Gi"),
        with_disk("g", "100Gi", nodes=["n1"], slots={LOCAL: None}),
        pods("db", 3, "40Gi"),
    )

    assert len(on_existing(plan)) == 1


def test_a_node_that_has_not_published_in_time_is_not_counted_on() -> None:
    plan = decide(
        BASE,
        one_node(seconds_old=901),
        with_disk("g", "100Gi", nodes=["n1"], slots={LOCAL: None}),
        pods("db", 2, "40Gi"),
    )

    assert (on_existing(plan), bought(plan)) == ({}, {"g": 1})


# The judge.


def test_a_plan_that_overfills_a_disk_is_found_out() -> None:
    objects = [*BASE, with_disk("g", "100Gi"), *pods("db", 2, "100Gi")]
    options, gates = settings.of({}), features.of_version()
    plan = decision.decide(
        Inputs.of_objects(objects, options=options, features=gates, now=NOW)
    ).plan
    (up,), (step,) = plan.scale_ups, plan.steps
    node = msgspec.structs.replace(up.nodes[0], pods=step.pods)
    spoiled = msgspec.structs.replace(
        plan,
        scale_ups=(msgspec.structs.replace(up, delta=1, nodes=(node,)),),
        steps=(
            msgspec.structs.replace(
                step, scale_ups=(msgspec.structs.replace(step.scale_ups[0], delta=1),)
            ),
        ),
        bounds=msgspec.structs.replace(plan.bounds, nodes=1, gap=0.0),
    )

    found = violations(objects, spoiled, options=options, features=gates, now=NOW)

    assert [one.rule for one in found] == ["placement"]
