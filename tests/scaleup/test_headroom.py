"""Room that is kept ready: what its chunks take, who goes before them, and what is told of it."""

from collections.abc import Iterable

import msgspec
import pytest

from tests.scaleup.asking import CLASS, EBS, bought, decide, group, stateful
from tonnage.groups.capacity_buffers import WINDOWS_ANNOTATION
from tonnage.objects.buffers import (
    CapacityBuffer,
    CapacityBufferSpec,
    PodTemplate,
    PodTemplateReference,
    ScalableReference,
)
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import PodTemplateSpec, Toleration
from tonnage.objects.volume_sources import VolumeSource
from tonnage.objects.workloads import StatefulSet, StatefulSetSpec
from tonnage.scaleup.plan import KeptRoomPlan, Plan
from tonnage.testing import builders as make

CLOSED = '[{"start": "0 0 1 1 *", "lasts": "1h"}]'
OPEN = '[{"start": "* * * * *", "lasts": "1h"}]'


def template(
    name: str = "chunk", *, cpu: str = "100m", volumes: Iterable[VolumeSource] = ()
) -> PodTemplate:
    spec = make.pod("x", cpu=cpu).spec
    spec = msgspec.structs.replace(spec, volumes=tuple(volumes))
    return PodTemplate(
        metadata=ObjectMeta(name=name, namespace="default"), template=PodTemplateSpec(spec=spec)
    )


def with_claims(count: int) -> list[VolumeSource]:
    return [
        make.ephemeral_volume(f"data-{number}", storage_class="fast") for number in range(count)
    ]


def buffer(
    name: str = "room",
    *,
    chunks: int | None = None,
    of: str | ScalableReference = "chunk",
    percentage: int | None = None,
    windows: str = "",
) -> CapacityBuffer:
    by_name = isinstance(of, str)
    return CapacityBuffer(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            annotations={WINDOWS_ANNOTATION: windows} if windows else {},
        ),
        spec=CapacityBufferSpec(
            pod_template_ref=PodTemplateReference(name=of) if isinstance(of, str) else None,
            scalable_ref=None if by_name else of,  # type: ignore[arg-type]
            replicas=chunks,
            percentage=percentage,
        ),
    )


def kept(plan: Plan) -> KeptRoomPlan:
    (found,) = plan.kept_rooms
    return found


def a_node(name: str, *, slots: int = 10, cpu: str = "4", zone: str = "") -> list[KubeObject]:
    return [make.node(name, cpu=cpu, zone=zone), make.csinode(name, {EBS: slots})]


def test_five_chunks_of_three_claims_need_two_nodes_of_ten_slots() -> None:
    plan = decide(
        CLASS,
        template(volumes=with_claims(3)),
        buffer(chunks=5),
        group("g", slots={EBS: 10}),
    )

    assert bought(plan) == {"g": 2}
    assert (kept(plan).chunks, kept(plan).bought, kept(plan).missing) == (5, 5, 0)
    assert sorted(one.chunks for one in kept(plan).nodes) == [2, 3]


def test_chunks_are_no_pods_of_the_plan() -> None:
    plan = decide(CLASS, template(), buffer(chunks=2), group("g"), a_node("n1"))

    assert plan.fit_on_existing == ()
    assert plan.not_helped == ()
    assert kept(plan).kept == 2
    assert plan.steps == ()


def test_a_plan_without_kept_room_says_nothing_of_it() -> None:
    plan = decide(CLASS, group("g"), a_node("n1"))

    assert "headroom" not in msgspec.to_builtins(plan)


def test_room_that_is_there_is_not_bought() -> None:
    plan = decide(
        CLASS,
        template(volumes=with_claims(3)),
        buffer(chunks=5),
        group("g", slots={EBS: 10}, nodes=["n1", "n2"], target=2),
        a_node("n1"),
        a_node("n2"),
    )

    assert bought(plan) == {}
    assert (kept(plan).kept, kept(plan).missing) == (5, 0)


def test_room_on_a_node_that_is_coming_is_not_bought_again() -> None:
    plan = decide(
        CLASS,
        template(volumes=with_claims(3)),
        buffer(chunks=5),
        group("g", slots={EBS: 10}, nodes=["n1"], target=2),
        a_node("n1"),
    )

    assert bought(plan) == {}
    assert kept(plan).kept == 5


def test_a_pod_that_waits_takes_the_place_of_chunks_and_the_room_is_bought_again() -> None:
    plan = decide(
        CLASS,
        template(volumes=with_claims(3)),
        buffer(chunks=3),
        stateful("db", 9, cpu="10m"),
        group("g", slots={EBS: 10}, nodes=["n1"], target=1),
        a_node("n1"),
    )

    assert {fit.node for fit in plan.fit_on_existing} == {"n1"}
    assert len(plan.fit_on_existing) == 9
    assert bought(plan) == {"g": 1}
    assert (kept(plan).kept, kept(plan).bought) == (0, 3)


def test_what_is_bought_for_pods_is_the_same_with_and_without_kept_room() -> None:
    cluster = [
        CLASS,
        *stateful("db", 25, cpu="10m"),
        group("g", slots={EBS: 10}, nodes=["n1"], target=1),
        *a_node("n1"),
    ]
    without = decide(cluster)
    plan = decide(cluster, template(volumes=with_claims(1)), buffer(chunks=8))

    assert plan.fit_on_existing == without.fit_on_existing
    assert plan.steps[: len(without.steps)][0].pods == without.steps[0].pods
    # Two nodes for 15 pods leave room for five of the eight chunks.
    assert bought(without) == {"g": 2}
    assert bought(plan) == {"g": 3}
    assert plan.steps[-1].headroom == ("CapacityBuffer default/room",)
    assert plan.steps[-1].pods == ()


def test_a_pod_is_never_left_out_for_the_sake_of_kept_room() -> None:
    plan = decide(
        CLASS,
        template(cpu="4"),
        buffer(chunks=3),
        [make.pod("big", cpu="3")],
        group("g", most=1),
    )

    assert plan.not_helped == ()
    assert bought(plan) == {"g": 1}
    assert kept(plan).missing == 3
    assert kept(plan).reasons[0].group == "g"


def test_claims_that_a_template_names_are_not_shared_by_the_chunks() -> None:
    plan = decide(
        CLASS,
        make.pvc("mine", storage_class="fast"),
        template(volumes=[make.claim_volume("mine")]),
        buffer(chunks=11),
        group("g", slots={EBS: 10}),
    )

    assert bought(plan) == {"g": 2}


def test_the_chunks_of_a_stateful_set_have_its_claims() -> None:
    claims = tuple(
        make.pvc(f"data-{number}", storage_class="fast", size="1Gi") for number in range(3)
    )
    workload = StatefulSet(
        metadata=ObjectMeta(name="db", namespace="default", uid="seen"),
        spec=StatefulSetSpec(
            replicas=10,
            template=template().template,
            volume_claim_templates=claims,
        ),
    )
    reference = ScalableReference(api_group="apps", kind="StatefulSet", name="db")
    plan = decide(
        CLASS,
        workload,
        buffer(of=reference, percentage=45),
        group("g", slots={EBS: 10}),
        judged=False,
    )

    assert kept(plan).chunks == 5
    assert bought(plan) == {"g": 2}


def test_volumes_that_are_made_at_once_count_too() -> None:
    plan = decide(
        make.storage_class("fast", EBS, immediate=True),
        template(volumes=with_claims(1)),
        buffer(chunks=11),
        group("g", slots={EBS: 10}),
    )

    assert bought(plan) == {"g": 2}


@pytest.mark.parametrize(("windows", "chunks"), [(OPEN, 2), (CLOSED, 0)])
def test_a_buffer_with_windows_is_there_while_one_is_open(windows: str, chunks: int) -> None:
    plan = decide(template(), buffer(chunks=2, windows=windows), group("g"))

    assert sum(one.chunks for one in plan.kept_rooms) == chunks
    assert bought(plan) == ({"g": 1} if chunks else {})


def test_slots_are_kept_in_every_zone_that_has_nodes_for_the_driver() -> None:
    plan = decide(
        group("a", slots={EBS: 10}, zone="a", nodes=["n1"], target=1),
        group("b", slots={EBS: 10}, zone="b"),
        group("c", zone="c"),
        a_node("n1", zone="a"),
        headroom={"driver": EBS, "slots": 8, "perZone": True},
    )

    assert bought(plan) == {"b": 1}
    assert {one.name: (one.kept, one.bought) for one in plan.kept_rooms} == {
        f"headroom {EBS}@a": (8, 0),
        f"headroom {EBS}@b": (0, 8),
    }


def test_slots_of_nodes_without_the_driver_do_not_count() -> None:
    plan = decide(
        group("g", slots={EBS: 10}),
        group("cheap", price="0.01"),
        make.node("n1"),
        headroom=[{"driver": EBS, "slots": 15}],
    )

    assert bought(plan) == {"g": 2}


def test_slots_may_be_kept_on_certain_nodes() -> None:
    tainted = [Taint(key="db", value="yes", effect="NoSchedule")]
    entry = {
        "driver": EBS,
        "slots": 5,
        "nodeSelector": {"pool": "db"},
        "tolerations": [{"key": "db", "operator": "Exists"}],
    }
    plan = decide(
        group("db", slots={EBS: 10}, labels={"pool": "db"}, taints=tainted),
        group("web", slots={EBS: 10}),
        headroom=[entry],
    )

    assert bought(plan) == {"db": 1}
    assert Toleration(key="db", operator="Exists")


@pytest.mark.parametrize(("start", "nodes"), [("* * * * *", {"g": 1}), ("0 0 1 1 *", {})])
def test_slots_with_windows_are_kept_while_one_is_open(start: str, nodes: dict[str, int]) -> None:
    windows = [{"start": start, "lasts": "1h"}]
    plan = decide(
        group("g", slots={EBS: 10}),
        headroom=[{"driver": EBS, "slots": 5, "windows": windows}],
    )

    assert bought(plan) == nodes


def test_a_bad_buffer_stops_nothing_else() -> None:
    plan = decide(
        template(),
        buffer("bad", chunks=-1),
        buffer("missing", chunks=1, of="nothing"),
        buffer("good", chunks=2),
        [make.pod("web")],
        group("g"),
    )

    assert [one.name for one in plan.kept_rooms] == ["CapacityBuffer default/good"]
    assert plan.not_helped == ()


def test_a_template_with_too_many_rules_is_told_of_and_costs_nobody_else_time() -> None:
    plan = decide(
        template(volumes=with_claims(3)),
        buffer(chunks=2),
        group("g"),
        CLASS,
        maxPodComplexity=1,
    )

    assert plan.kept_rooms == ()
    assert "no room is kept" in plan.warnings[-1]
