"""What instance types teach: limits that were shown, ceilings where machines refused."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import pytest

from tests.groups.group_objects import (
    DEFAULT,
    EBS,
    NOW,
    TYPE,
    UPSTREAM,
    aged,
    ago,
    build,
    declared,
    group,
    node_group,
    sources,
    template,
)
from tonnage import api
from tonnage.groups import limit_lessons
from tonnage.groups.inputs import Inputs
from tonnage.groups.limit_lessons import CEILING, LIMIT, Lesson
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.model import Group
from tonnage.groups.options import Options
from tonnage.objects import attach_errors
from tonnage.objects.nodes import Node
from tonnage.objects.storage import AttachError, CSINode, VolumeAttachment
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.testing import builders
from tonnage.testing.builders import csinode, node

T4G = "t4g.xlarge"  # 26 volumes by the catalogue with a single interface
DAY = 86_400.0


def machine(name: str, kind: str = T4G) -> Node:
    return node(name, labels={TYPE: kind})


def attached(count: int, name: str, driver: str = EBS) -> list[VolumeAttachment]:
    return [builders.attachment(f"v{i}", name, attacher=driver) for i in range(count)]


def refusing(
    name: str, *, volume: str = "more", code: int | None = 8, message: str = "", at: float = 60
) -> VolumeAttachment:
    """An attach to the node that failed so many seconds ago."""
    one = builders.attachment(volume, name, attacher=EBS, attached=False)
    error = AttachError(time=ago(at), message=message, error_code=code)
    return msgspec.structs.replace(
        one, status=msgspec.structs.replace(one.status, attach_error=error)
    )


def lesson(kind: str, count: int, *, instance_type: str = T4G, seen: float = NOW) -> Lesson:
    return Lesson(
        instance_type=instance_type, driver=EBS, kind=kind, count=count, node="old", seen=seen
    )


def renewed(
    *before: Lesson,
    nodes: Sequence[Node] = (),
    csinodes: Sequence[CSINode] = (),
    attachments: Sequence[VolumeAttachment] = (),
    max_age: float = 30 * DAY,
) -> tuple[Lesson, ...]:
    return limit_lessons.renewed(
        before,
        nodes=nodes,
        csinodes=csinodes,
        attachments=attachments,
        policy=DEFAULT,
        now=NOW,
        max_age=max_age,
    )


def counts(lessons: Sequence[Lesson]) -> list[tuple[str, str, int]]:
    return [(one.kind, one.instance_type, one.count) for one in lessons]


@pytest.mark.parametrize(
    ("code", "message", "told"),
    [
        (8, "anything", True),
        (None, "rpc error: code = ResourceExhausted desc = no slot left", True),
        (13, "AttachmentLimitExceeded: the instance is full", True),
        (None, "The maximum number of data disks allowed to be attached is 4", True),
        (13, "rpc error: code = Internal desc = no such volume", False),
        (None, "", False),
    ],
)
def test_a_failed_attach_tells_by_code_or_words_that_there_is_no_room(
    code: int | None, message: str, told: bool
) -> None:
    assert attach_errors.without_room(refusing("n1", code=code, message=message)) is told


def test_an_attach_that_came_about_after_all_tells_nothing() -> None:
    one = refusing("n1")
    done = msgspec.structs.replace(one.status, attached=True)
    assert not attach_errors.without_room(msgspec.structs.replace(one, status=done))


class Case(NamedTuple):
    before: tuple[Lesson, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    nodes: tuple[Node, ...] = (machine("n1"), machine("n2"))
    found: tuple[int, ...] = ()


CEILINGS = {
    "a refused attach teaches how many were attached": Case(
        attachments=(*attached(16, "n1"), refusing("n1")), found=(16,)
    ),
    "without a refusal there is no ceiling": Case(attachments=tuple(attached(16, "n1"))),
    "the lowest of several machines counts": Case(
        attachments=(
            *attached(12, "n1"),
            refusing("n1"),
            *attached(12, "n2"),
            refusing("n2", volume="w"),
        ),
        found=(12,),
    ),
    "a machine that holds more disproves a ceiling": Case(
        before=(lesson(CEILING, 16),), attachments=tuple(attached(17, "n2"))
    ),
    "a machine that holds more disproves a refusal elsewhere": Case(
        attachments=(*attached(3, "n1"), refusing("n1"), *attached(20, "n2"))
    ),
    "a refusal of the first volume is no matter of slots": Case(attachments=(refusing("n1"),)),
    "a refusal already looked at does not follow volumes that leave": Case(
        before=(lesson(CEILING, 16, seen=NOW - 60),),
        attachments=(*attached(10, "n1"), refusing("n1", at=60)),
        found=(16,),
    ),
    "a later refusal counts anew": Case(
        before=(lesson(CEILING, 16, seen=NOW - 600),),
        attachments=(*attached(14, "n1"), refusing("n1", at=60)),
        found=(14,),
    ),
    "a node without a type teaches nothing": Case(
        attachments=(*attached(16, "n1"), refusing("n1")), nodes=(node("n1"),)
    ),
    "volumes of other drivers do not count": Case(
        attachments=(*attached(4, "n1"), *attached(9, "n1", "other.example"), refusing("n1")),
        found=(4,),
    ),
    "what was learned stays when the machines are gone": Case(
        before=(lesson(CEILING, 16),), nodes=(), found=(16,)
    ),
}


@pytest.mark.parametrize("case", CEILINGS.values(), ids=CEILINGS)
def test_ceilings(case: Case) -> None:
    found = renewed(*case.before, nodes=case.nodes, attachments=case.attachments)
    assert tuple(one.count for one in found if one.kind == CEILING) == case.found


def test_a_ceiling_says_when_and_where() -> None:
    (found,) = renewed(
        nodes=[machine("n1")], attachments=[*attached(16, "n1"), refusing("n1", at=90)]
    )
    assert (found.node, found.seen, found.driver) == ("n1", NOW - 90, EBS)


def test_the_limit_that_most_ready_nodes_of_a_type_show_is_learned() -> None:
    found = renewed(
        nodes=[machine("n1"), machine("n2"), machine("n3"), machine("x", "m5.large")],
        csinodes=[csinode("n1", {EBS: 9}), csinode("n2", {EBS: 25}), csinode("n3", {EBS: 25})],
    )
    assert counts(found) == [(LIMIT, T4G, 25)]
    assert (found[0].node, found[0].seen) == ("n2", NOW)


@pytest.mark.parametrize("count", [None, 0])
def test_a_node_that_shows_no_number_or_none_teaches_no_limit(count: int | None) -> None:
    assert renewed(nodes=[machine("n1")], csinodes=[csinode("n1", {EBS: count})]) == ()


def test_a_node_that_is_not_ready_teaches_no_limit() -> None:
    unready = aged(machine("n1"), ready="False")
    assert renewed(nodes=[unready], csinodes=[csinode("n1", {EBS: 25})]) == ()


def test_lessons_expire() -> None:
    before = lesson(LIMIT, 25, seen=NOW - 31 * DAY), lesson(CEILING, 16, seen=NOW - 29 * DAY)
    assert counts(renewed(*before)) == [(CEILING, T4G, 16)]


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ({}, []),
        ({"instance_type": T4G}, ["m5.large"]),
        ({"driver": EBS}, []),
        ({"driver": "other.example"}, [T4G, "m5.large"]),
        ({"instance_type": T4G, "driver": "other.example"}, [T4G, "m5.large"]),
    ],
)
def test_lessons_are_forgotten_by_type_and_driver(chosen: dict[str, str], left: list[str]) -> None:
    lessons = lesson(LIMIT, 25), lesson(LIMIT, 26, instance_type="m5.large")
    assert [one.instance_type for one in limit_lessons.forgotten(lessons, **chosen)] == left


# What new nodes get from it.


def limit_of(one: Group, *lessons: Lesson, **cluster: object) -> object:
    memory = TemplateMemory(lessons=lessons)
    return sources(template(one, memory=memory, wanted=[EBS], **cluster))[EBS]


def of_type(kind: str = T4G, drivers: dict[str, int | None] | None = None) -> Group:
    return group(provider=declared(drivers, node=machine("any", kind)))


def test_a_limit_of_past_nodes_of_the_type_goes_before_the_catalogue() -> None:
    assert limit_of(of_type(), lesson(LIMIT, 21)) == (21, "learned")


def test_a_lesson_about_another_type_says_nothing() -> None:
    assert limit_of(of_type("m5.large"), lesson(LIMIT, 21)) == (26, "catalogue")


def test_live_nodes_of_the_type_go_before_past_ones() -> None:
    cluster = {"nodes": [machine("n1")], "csinodes": [csinode("n1", {EBS: 24})]}
    assert limit_of(of_type(), lesson(LIMIT, 21), **cluster) == (24, "learned")


def test_the_provider_goes_before_what_was_learned() -> None:
    assert limit_of(of_type(drivers={EBS: 23}), lesson(LIMIT, 21)) == (23, "provider")


def test_a_ceiling_below_what_the_provider_says_wins() -> None:
    assert limit_of(of_type(drivers={EBS: 23}), lesson(CEILING, 16)) == (16, "learned")


def test_a_ceiling_above_what_is_reported_says_nothing() -> None:
    assert limit_of(of_type(drivers={EBS: 12}), lesson(CEILING, 16)) == (12, "provider")


def test_a_ceiling_is_better_than_no_number() -> None:
    assert limit_of(of_type("unheard.of"), lesson(CEILING, 9, instance_type="unheard.of")) == (
        9,
        "learned",
    )


def test_upstream_learns_nothing() -> None:
    found = limit_of(of_type(drivers={EBS: 23}), lesson(CEILING, 16), policy=UPSTREAM)
    assert found == (23, "provider")


def test_lessons_come_out_of_a_round_of_templates_as_they_went_in() -> None:
    memory = TemplateMemory(lessons=(lesson(CEILING, 16),))
    assert build(group(), memory=memory).memory.lessons == memory.lessons


# Acceptance: four interfaces on t4g.xlarge leave 16 slots, whatever the driver says.


def measured() -> dict[str, object]:
    """A node that says 26 and refused the seventeenth volume, and what it taught."""
    nodes, csinodes = [machine("n1")], [csinode("n1", {EBS: 26})]
    refused = [*attached(16, "n1"), refusing("n1")]
    lessons = renewed(nodes=nodes, csinodes=csinodes, attachments=refused)
    return {"nodes": nodes, "csinodes": csinodes, "memory": TemplateMemory(lessons=lessons)}


def test_the_limit_of_new_nodes_is_the_measured_ceiling_of_their_type() -> None:
    found = [
        sources(template(one, wanted=[EBS], **measured()))[EBS]
        for one in (group(nodes=["n1"]), of_type())
    ]
    assert found == [(16, "learned"), (16, "learned")]


def test_an_override_is_kept_above_the_measured_ceiling() -> None:
    made = template(group(nodes=["n1"], limits={EBS: 20}), **measured())
    assert sources(made)[EBS] == (20, "override")


def test_a_plan_on_files_learns_from_the_refusals_among_them() -> None:
    pods = [builders.pod(f"db-{i}", pvcs=[f"data-{i}"], cpu="100m") for i in range(6)]
    plan = decision.decide(
        Inputs.of_objects(
            [
                machine("n1"),
                csinode("n1", {EBS: 26}),
                builders.pod("filling", cpu="4", on="n1"),
                *attached(3, "n1"),
                refusing("n1"),
                builders.storage_class("fast", EBS),
                *(builders.pvc(f"data-{i}", storage_class="fast") for i in range(6)),
                *pods,
                node_group("g", nodes=["n1"]),
            ],
            options=Options(),
            features=features.of_version("1.37"),
            now=NOW,
        )
    ).plan
    assert [(one.group, one.delta) for one in plan.scale_ups] == [("g", 2)]
    assert [(one.count, one.source) for one in plan.limits] == [(3, "learned")]


# Acceptance: the driver's pod is deleted, and its entry leaves the CSINode.


def test_the_count_of_a_driver_that_left_its_csinode_is_remembered() -> None:
    had = build(
        group(nodes=["n1"]), nodes=[machine("n1")], csinodes=[csinode("n1", {EBS: 25})]
    ).memory
    left = build(
        group(nodes=["n1"]),
        nodes=[machine("n1")],
        csinodes=[csinode("n1")],
        memory=had,
        wanted=[EBS],
    )
    assert sources(left.by_group["g"])[EBS] == (25, "remembered")
    assert left.memory.groups["g"].drivers[EBS].count == 25


@pytest.mark.parametrize(("drivers", "fits"), [({EBS: 25}, ("n1",)), ({}, ())])
def test_no_new_pod_with_a_volume_goes_where_an_opted_in_driver_left(
    drivers: dict[str, int | None], fits: tuple[str, ...]
) -> None:
    cluster = api.Cluster(
        [
            builders.namespace("default"),
            machine("n1"),
            csinode("n1", drivers),
            builders.csidriver(EBS, opt_in=True),
            builders.storage_class("fast", EBS),
            builders.pvc("data", storage_class="fast"),
            builders.pod("db", pvcs=["data"]),
        ],
        feature_gates={"VolumeLimitScaling": True},
    )
    assert cluster.explain("db").fits == fits
