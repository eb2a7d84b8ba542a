"""Pods that are being bound hold their place: what waits is bought for beside them."""

from collections.abc import Iterable

import msgspec
import pytest

from tests.scaleup.asking import CLASS, EBS, NOW, UPSTREAM, ago, bought, group, left_out, stateful
from tonnage.groups import options as settings
from tonnage.groups.inputs import Inputs
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolume
from tonnage.rules import features
from tonnage.scaleup import decision, underway
from tonnage.scaleup.plan import Plan
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make


def node(slots: int) -> tuple[KubeObject, KubeObject]:
    return make.node("n1"), make.csinode("n1", {EBS: slots})


NODE = node(slots=2)
GROUP = group("g", slots={EBS: 2}, nodes=["n1"])
LOCAL = "local.example.com"


def being_bound(name: str, node: str = "n1", **pod: object) -> list[KubeObject]:
    """A pod whose volume is being made for a node."""
    claim = make.pvc(f"data-{name}", storage_class="fast", selected_node=node)
    return [claim, make.pod(name, pvcs=[claim.metadata.name], **pod)]  # type: ignore[arg-type]


def decide(
    *objects: KubeObject | Iterable[KubeObject], waiting: Iterable[str], **options: object
) -> Plan:
    """What is decided for pods that wait, as a live caller names them."""
    held = [one for some in objects for one in (some if isinstance(some, Iterable) else (some,))]
    inputs = Inputs.of_objects(
        held, options=settings.of(options), features=features.of_version(), now=NOW
    )
    asked = msgspec.structs.replace(
        inputs,
        pending=tuple(f"default/{name}" for name in waiting),
        skipped={},
        upcoming={},
        live=True,
    )
    return decision.decide(asked).plan


def on_existing(plan: Plan) -> dict[str, str]:
    return {one.pod: one.node for one in plan.fit_on_existing}


# Plans.


def test_a_slot_of_a_pod_that_is_being_bound_is_not_given_away() -> None:
    plan = decide(
        CLASS,
        NODE,
        GROUP,
        being_bound("first"),
        being_bound("second"),
        stateful("db", 2),
        waiting=["db-0", "db-1"],
    )

    assert on_existing(plan) == {}
    assert bought(plan) == {"g": 1}


def test_what_is_left_beside_pods_that_are_being_bound_is_used() -> None:
    plan = decide(
        CLASS, NODE, GROUP, being_bound("first"), stateful("db", 2), waiting=["db-0", "db-1"]
    )

    assert on_existing(plan) == {"default/db-0": "n1"}
    assert bought(plan) == {"g": 1}


def test_a_pod_that_waited_and_is_being_bound_now_keeps_its_slot_from_more_urgent_ones() -> None:
    plan = decide(
        CLASS,
        node(slots=1),
        GROUP,
        being_bound("late"),
        stateful("urgent", 1, priority=1000),
        waiting=["late", "urgent-0"],
    )

    assert on_existing(plan) == {"default/late": "n1"}
    assert bought(plan) == {"g": 1}


def test_a_pod_whose_node_has_filled_up_since_is_left_out_and_nothing_is_bought_for_it() -> None:
    plan = decide(CLASS, node(slots=0), GROUP, being_bound("late"), waiting=["late"])

    assert left_out(plan, "late").reasons[0].plugin == "VolumeBinding"
    assert bought(plan) == {}


def test_a_claim_of_a_pod_that_is_being_bound_takes_no_second_slot() -> None:
    shared = make.pod("sharing", pvcs=["data-first"])
    plan = decide(
        CLASS,
        NODE,
        GROUP,
        being_bound("first"),
        being_bound("second"),
        shared,
        waiting=["sharing"],
    )

    assert on_existing(plan) == {"default/sharing": "n1"}


def test_storage_that_is_being_made_is_taken_once() -> None:
    plan = decide(
        make.csidriver(LOCAL, storage_capacity=True),
        make.storage_class("local", LOCAL),
        make.node("n1"),
        make.csinode("n1", {LOCAL: None}),
        make.capacity("disk", "local", free="100Gi", topology={make.HOSTNAME: "n1"}),
        make.pvc("made", storage_class="local", size="40Gi", selected_node="n1"),
        make.pod("first", pvcs=["made"]),
        make.pvc("wanted", storage_class="local", size="60Gi"),
        make.pod("second", pvcs=["wanted"]),
        waiting=["second"],
    )

    assert on_existing(plan) == {"default/second": "n1"}


def test_storage_that_is_being_made_is_no_longer_there_for_others() -> None:
    def claim(name: str, node: str = "") -> KubeObject:
        return make.pvc(name, storage_class="local", size="60Gi", selected_node=node)

    plan = decide(
        make.csidriver(LOCAL, storage_capacity=True),
        make.storage_class("local", LOCAL),
        make.node("n1"),
        make.csinode("n1", {LOCAL: None}),
        make.capacity("disk", "local", free="100Gi", topology={make.HOSTNAME: "n1"}),
        claim("made", "n1"),
        make.pod("first", pvcs=["made"]),
        claim("wanted"),
        make.pod("second", pvcs=["wanted"]),
        waiting=["second"],
    )

    assert on_existing(plan) == {}


def test_as_upstream_no_such_pod_counts() -> None:
    plan = decide(
        CLASS,
        NODE,
        GROUP,
        being_bound("first"),
        being_bound("second"),
        stateful("db", 2),
        waiting=["db-0", "db-1"],
        compatibility=UPSTREAM,
    )

    assert on_existing(plan) == {"default/db-0": "n1", "default/db-1": "n1"}


# Who is being bound.


def aged(one: Pod | PersistentVolume, seconds: float) -> KubeObject:
    metadata = msgspec.structs.replace(one.metadata, creation_timestamp=ago(seconds))
    return msgspec.structs.replace(one, metadata=metadata)


def made_for(pod_age: float, volume_age: float) -> list[KubeObject]:
    """A pod whose claim is bound, and still has the note where its volume was made."""
    claim = make.pvc("data", storage_class="fast", volume="pv", selected_node="n1")
    return [
        claim,
        aged(make.pv("pv", driver=EBS, storage_class="fast", claim=claim), volume_age),
        aged(make.pod("db", pvcs=["data"]), pod_age),
    ]


@pytest.mark.parametrize(
    ("objects", "node"),
    [
        pytest.param(being_bound("db"), "n1", id="its volume is being made"),
        pytest.param(being_bound("db", "gone"), None, id="its node is gone"),
        pytest.param(being_bound("db", gates=["example.com/wait"]), None, id="it is gated"),
        pytest.param(stateful("db", 1), None, id="nobody has selected a node"),
        pytest.param([make.pod("db")], None, id="it has no volumes"),
        pytest.param(made_for(60, 5), "n1", id="its volume has just been made"),
        pytest.param(made_for(5, 60), None, id="its volume was made for a pod before it"),
        pytest.param(made_for(5, 60)[::2], None, id="its volume is not known"),
    ],
)
def test_a_pod_is_being_bound_if(objects: list[KubeObject], node: str | None) -> None:
    snapshot = Snapshot.of((CLASS, *NODE, *objects))
    found = list(underway.being_bound(snapshot, snapshot.pending_pods(), now=0.0))

    assert [one.node for one in found] == ([] if node is None else [node])
