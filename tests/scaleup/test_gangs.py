"""A gang is helped whole or not at all."""

from collections.abc import Iterable

import msgspec
import pytest

from tests.scaleup.asking import CLASS, EBS, UPSTREAM, bought, decide, group, stateful
from tonnage.objects.gangs import (
    COSCHEDULING_LABELS,
    KUEUE_LABEL,
    KUEUE_TOTAL_ANNOTATION,
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
    GangPolicy,
    PodGroupPolicy,
    WorkloadPodGroup,
    WorkloadPodGroupSpec,
)
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import Pod, SchedulingGroup
from tonnage.scaleup.plan import GangOutcome, Plan
from tonnage.testing import builders as make

LABEL = COSCHEDULING_LABELS[0]


def pod_group(name: str, minimum: int) -> CoschedulingPodGroup:
    return CoschedulingPodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=CoschedulingPodGroupSpec(min_member=minimum),
    )


def workload(name: str, minimum: int | None) -> WorkloadPodGroup:
    gang = GangPolicy(min_count=minimum) if minimum is not None else None
    return WorkloadPodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=WorkloadPodGroupSpec(scheduling_policy=PodGroupPolicy(gang=gang)),
    )


def job(number: int) -> dict[str, str]:
    return {LABEL: f"job-{number}"}


def members(gang: str, count: int, *, minimum: int = 0, **pod: object) -> list[KubeObject]:
    """Pods of a gang, a node's CPU each, with its PodGroup."""
    settings = {"cpu": "4", "labels": {LABEL: gang}, **pod}
    made: list[KubeObject] = [
        make.pod(f"{gang}-{number}", **settings)  # type: ignore[arg-type]
        for number in range(count)
    ]
    return [pod_group(gang, minimum or count), *made]


def of_workload(pod: Pod, group: str) -> Pod:
    spec = msgspec.structs.replace(pod.spec, scheduling_group=SchedulingGroup(pod_group_name=group))
    return msgspec.structs.replace(pod, spec=spec)


def plan(*objects: KubeObject | Iterable[KubeObject], **options: object) -> Plan:
    """Replayed; whom it does not help is not asked: a part of a gang could always be."""
    return decide(*objects, all_helped=False, **options)  # type: ignore[arg-type]


def gangs(plan: Plan) -> dict[str, GangOutcome]:
    assert not isinstance(plan.gangs, msgspec.UnsetType)
    return {one.gang.partition("/")[2].split()[0]: one for one in plan.gangs}


def helped(plan: Plan) -> list[str]:
    return sorted(name for name, one in gangs(plan).items() if one.helped)


def left(plan: Plan) -> set[str]:
    return {one.pod for one in plan.not_helped}


# Whole or not at all.


def test_ten_gangs_with_room_for_three_give_three_whole_ones() -> None:
    found = plan(group("g", most=26), *(members(f"job-{n}", 8) for n in range(10)))

    assert helped(found) == ["job-0", "job-1", "job-2"]
    assert bought(found) == {"g": 24}
    assert len(found.not_helped) == 56


def test_gangs_whose_pods_came_in_turns_are_helped_whole_too() -> None:
    jobs = [members(f"job-{n}", 4) for n in range(10)]
    in_turns = [one for some in zip(*jobs, strict=True) for one in some]

    found = plan(group("g", most=13), in_turns)

    assert helped(found) == ["job-0", "job-1", "job-2"]
    assert bought(found) == {"g": 12}


def test_leaders_do_not_take_the_room_of_workers() -> None:
    jobs: list[KubeObject] = [
        make.pod(f"job-{n}-{w}", cpu="4", memory="8Gi" if w == 0 else "1Gi", labels=job(n))
        for n in range(4)
        for w in range(3)
    ]

    found = plan(group("g", most=7), (pod_group(f"job-{n}", 3) for n in range(4)), jobs)

    assert helped(found) == ["job-0", "job-1"]
    assert bought(found) == {"g": 6}


def test_a_small_gang_is_helped_where_a_large_one_before_it_has_no_room() -> None:
    found = plan(group("g", most=5), members("large", 8), members("small", 4))

    assert helped(found) == ["small"]
    assert bought(found) == {"g": 4}


def test_the_more_important_gang_is_helped() -> None:
    found = plan(group("g", most=5), members("low", 4), members("high", 4, priority=100))

    assert helped(found) == ["high"]


def test_slots_are_what_a_gang_may_lack() -> None:
    disks = stateful("db", 6, claims=2, labels={LABEL: "db"})

    found = plan(CLASS, group("g", slots={EBS: 4}, most=2), pod_group("db", 6), disks)

    assert helped(found) == []
    assert bought(found) == {}
    assert "there is room for 4" in gangs(found)["db"].reason
    assert bought(plan(CLASS, group("g", slots={EBS: 4}, most=3), pod_group("db", 6), disks)) == {
        "g": 3
    }


def test_pods_that_go_one_by_one_are_helped_beside_a_gang_that_is_not() -> None:
    found = plan(group("g", most=3), make.pod("web", cpu="4"), members("job", 8))

    assert bought(found) == {"g": 1}
    assert left(found) == {f"default/job-{n}" for n in range(8)}


def test_nodes_that_are_there_count() -> None:
    found = plan(make.node("n1", cpu="4"), group("g", most=2, nodes=["n1"]), members("job", 2))

    assert helped(found) == ["job"]
    assert bought(found) == {"g": 1}


# Minimum, and who counts.


def test_members_past_the_minimum_may_be_left_out() -> None:
    found = plan(group("g", most=5), members("job", 8, minimum=4))

    assert helped(found) == ["job"]
    assert bought(found) == {"g": 5}
    assert len(found.not_helped) == 3


def test_spare_members_leave_the_room_to_those_another_gang_needs() -> None:
    found = plan(group("g", most=8), members("a", 8, minimum=4), members("b", 4))

    assert helped(found) == ["a", "b"]
    assert left(found) == {f"default/a-{n}" for n in range(4, 8)}


def test_a_gang_that_is_not_all_there_waits() -> None:
    found = plan(group("g"), members("job", 3, minimum=5))

    assert bought(found) == {}
    assert gangs(found)["job"].reason == "it waits for 2 more pods to be made"


def test_members_that_run_count() -> None:
    held = [make.pod("job-r", on="n1", cpu="4", labels={LABEL: "job"})]

    found = plan(
        make.node("n1", cpu="4"),
        group("g", most=3, nodes=["n1"]),
        held,
        members("job", 2, minimum=3),
    )

    assert helped(found) == ["job"]
    assert gangs(found)["job"].running == 1
    assert bought(found) == {"g": 2}


def test_a_group_of_the_server_is_a_gang_by_its_minimum() -> None:
    pods = [of_workload(make.pod(f"w-{n}", cpu="4"), "train") for n in range(4)]

    assert bought(plan(group("g", most=3), workload("train", 4), pods)) == {}
    assert bought(plan(group("g", most=4), workload("train", 4), pods)) == {"g": 4}


def test_without_a_gang_policy_pods_go_one_by_one() -> None:
    pods = [of_workload(make.pod(f"w-{n}", cpu="4"), "train") for n in range(4)]

    found = plan(group("g", most=3), workload("train", None), pods)

    assert bought(found) == {"g": 3}
    assert isinstance(found.gangs, msgspec.UnsetType)


def kueue(name: str, count: int, total: str) -> list[Pod]:
    pods = [make.pod(f"{name}-{n}", cpu="4", labels={KUEUE_LABEL: name}) for n in range(count)]
    return [
        msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(
                pod.metadata, annotations={KUEUE_TOTAL_ANNOTATION: total}
            ),
        )
        for pod in pods
    ]


def test_a_group_of_kueue_has_its_size_from_its_pods() -> None:
    assert bought(plan(group("g", most=3), kueue("job", 4, "4"))) == {}
    assert bought(plan(group("g", most=4), kueue("job", 4, "4"))) == {"g": 4}


# What is wrong is told, and stops nobody else.


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        (members("job", 2)[1:], "there is no PodGroup default/job (scheduling.x-k8s.io)"),
        (
            [pod_group("job", -1), *members("job", 2)[1:]],
            "its minimum is -1, expected a number above 0",
        ),
        (
            kueue("job", 2, "many"),
            f"{KUEUE_TOTAL_ANNOTATION} is no number that all of its pods agree on",
        ),
        (
            [*kueue("job", 2, "4"), *kueue("job", 3, "3")[2:]],
            f"{KUEUE_TOTAL_ANNOTATION} is no number that all of its pods agree on",
        ),
    ],
    ids=["no PodGroup", "negative", "no number", "two sizes"],
)
def test_a_bad_gang_has_a_reason_and_others_are_helped(
    objects: list[KubeObject], reason: str
) -> None:
    found = plan(group("g"), objects, members("good", 2), make.pod("web", cpu="4"))

    assert gangs(found)["job"].reason == reason
    assert helped(found) == ["good"]
    assert bought(found) == {"g": 3}


def test_a_gang_that_can_never_fit_gets_a_reason_and_no_node() -> None:
    found = plan(group("g", cpu="4"), members("job", 3, cpu="8"))

    assert bought(found) == {}
    (first, *_) = found.not_helped
    assert first.never_fits
    assert first.nearest is not None
    assert first.nearest.resource == "cpu"
    assert first.reasons[0].reasons[0] == (
        "gang PodGroup default/job (scheduling.x-k8s.io): 3 pods have to run at once, and there is"
        " room for 0"
    )


def test_upstream_knows_of_no_gangs() -> None:
    found = plan(group("g", most=3), members("job", 8), compatibility=UPSTREAM)

    assert bought(found) == {"g": 3}


def test_when_time_is_over_no_part_of_a_gang_is_bought_for() -> None:
    asked = iter(range(10_000))

    found = decide(
        group("g", most=5),
        members("job", 8),
        judged=False,
        out_of_time=lambda: next(asked) > 3,
    )

    assert bought(found) == {}
    assert not helped(found)
