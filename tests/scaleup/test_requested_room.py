"""Room for pods that do not exist yet: all of it or none, and booked until its pods come."""

import msgspec
import pytest

from tests.scaleup.asking import CLASS, EBS, NOW, ago, bought, group
from tests.scaleup.test_gangs import members
from tonnage.groups import options as settings
from tonnage.groups import provisioning_requests
from tonnage.groups.inputs import Inputs
from tonnage.groups.passing_taints import NOT_READY
from tonnage.groups.provisioning_requests import RequestReading
from tonnage.objects.buffers import PodTemplate, PodTemplateReference
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import Condition, ObjectMeta
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.pods import Pod, PodTemplateSpec
from tonnage.objects.provisioning_requests import (
    ATOMIC_SCALE_UP,
    CHECK_CAPACITY,
    CONSUME_ANNOTATION,
    PodSet,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
)
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make

WORKER = make.pod("worker", cpu="4").spec
WITH_DISK = make.pod("worker", cpu="1", pvcs=["data"]).spec


def request(
    name: str,
    count: int,
    *,
    kind: str = ATOMIC_SCALE_UP,
    template: str = "worker",
    booked: float | None = None,
    age: float = 0.0,
    **parameters: str,
) -> ProvisioningRequest:
    """A request; `booked` is since how many seconds it is provisioned."""
    conditions: tuple[Condition, ...] = ()
    if booked is not None:
        conditions = (
            Condition(type="Provisioned", status="True", last_transition_time=ago(booked)),
        )
    return ProvisioningRequest(
        metadata=ObjectMeta(name=name, namespace="default", creation_timestamp=ago(age)),
        spec=ProvisioningRequestSpec(
            provisioning_class_name=kind,
            pod_sets=(PodSet(pod_template_ref=PodTemplateReference(name=template), count=count),),
            parameters=parameters,
        ),
        status=ProvisioningRequestStatus(conditions=conditions),
    )


def read(
    *requests: ProvisioningRequest, consumers: int = 0, spec: object = WORKER
) -> tuple[RequestReading, ...]:
    template = PodTemplate(
        metadata=ObjectMeta(name="worker", namespace="default"),
        template=PodTemplateSpec(spec=spec),  # type: ignore[arg-type]
    )
    return provisioning_requests.read(
        requests,
        lambda _, name: template if name == "worker" else None,
        {("default", one.metadata.name): consumers for one in requests},
        now=NOW,
    )


def plan(requests: tuple[RequestReading, ...], *objects: KubeObject | list[KubeObject]) -> Plan:
    held = [one for some in objects for one in (some if isinstance(some, list) else [some])]
    inputs = Inputs.of_objects(
        held, options=settings.of({}), features=features.of_version(), now=NOW
    )
    rooms = tuple(one.room for one in requests if one.room is not None)
    return decision.decide(msgspec.structs.replace(inputs, requested=rooms)).plan


def helped(plan: Plan) -> dict[str, bool]:
    return {one.gang.partition("/")[2].split()[0]: one.helped for one in plan.gangs or ()}


def promised(plan: Plan) -> set[str]:
    """The nodes on which room is promised."""
    return {one.node for gang in plan.gangs or () for one in gang.nodes or ()}


def n1(pods: int = 0) -> list[KubeObject]:
    return [make.node("n1", cpu="8"), *(make.pod(f"r-{n}", on="n1", cpu="4") for n in range(pods))]


# Atomic scale-up.


@pytest.mark.parametrize(("most", "nodes"), [(3, {}), (4, {"g": 4})])
def test_room_is_bought_for_all_pods_or_for_none(most: int, nodes: dict[str, int]) -> None:
    found = plan(read(request("job", 4)), group("g", most=most))

    assert bought(found) == nodes
    assert helped(found) == {"job": bool(nodes)}
    assert not [pod for step in found.steps for pod in step.pods]
    assert not found.not_helped


def test_room_that_is_there_is_not_bought() -> None:
    found = plan(read(request("job", 2)), n1(), group("g", nodes=["n1"]))

    assert bought(found) == {}
    assert helped(found) == {"job": True}


def test_claims_of_the_template_count_for_each_pod() -> None:
    claim = make.pvc("data", storage_class="fast")

    found = plan(read(request("job", 4), spec=WITH_DISK), CLASS, claim, group("g", slots={EBS: 2}))

    assert bought(found) == {"g": 2}


def test_pods_that_wait_go_before_room_that_is_asked_for() -> None:
    found = plan(read(request("job", 2)), group("g", most=2), make.pod("web", cpu="4"))

    assert bought(found) == {"g": 1}
    assert helped(found) == {"job": False}


def test_requests_and_gangs_are_counted_once_each() -> None:
    found = plan(read(request("asked", 2)), group("g", most=5), members("job", 3))

    assert bought(found) == {"g": 5}
    assert helped(found) == {"asked": True, "job": True}


# Checking capacity.


@pytest.mark.parametrize(("taken", "there"), [(0, True), (1, False)])
def test_capacity_is_checked_and_never_bought(taken: int, there: bool) -> None:
    found = plan(read(request("job", 2, kind=CHECK_CAPACITY)), n1(taken), group("g", nodes=["n1"]))

    assert helped(found) == {"job": there}
    assert bought(found) == {}


def test_of_two_requests_for_the_same_room_one_gets_it() -> None:
    both = read(
        request("first", 2, kind=CHECK_CAPACITY, age=5), request("second", 2, kind=CHECK_CAPACITY)
    )

    assert helped(plan(both, n1(), group("g", nodes=["n1"]))) == {"first": True, "second": False}


# Nodes that may come back.


def down(name: str = "n1", *, age: float = 300, since: float = 20) -> Node:
    """A young node of 8 processors that is not ready, since so many seconds."""
    made = make.node(name, cpu="8", taints=(Taint(key=NOT_READY, effect="NoSchedule"),))
    ready = Condition(type="Ready", status="False", last_transition_time=ago(since))
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, creation_timestamp=ago(age)),
        status=msgspec.structs.replace(made.status, conditions=(ready,)),
    )


@pytest.mark.parametrize("kind", [CHECK_CAPACITY, ATOMIC_SCALE_UP])
@pytest.mark.parametrize(
    ("since", "there"),
    [pytest.param(20, False, id="was up"), pytest.param(299, True, id="comes up")],
)
def test_nothing_is_promised_nor_bought_while_a_node_may_come_back(
    kind: str, since: float, there: bool
) -> None:
    found = plan(
        read(request("job", 2, kind=kind)), down(since=since), group("g", nodes=["n1"], cpu="8")
    )

    assert helped(found) == {"job": there}
    assert bought(found) == {}


@pytest.mark.parametrize(("taken", "nodes"), [(0, {}), (1, {}), (2, {"g": 2})])
def test_nodes_are_bought_at_once_that_would_be_in_any_case(
    taken: int, nodes: dict[str, int]
) -> None:
    full: list[KubeObject] = [make.pod(f"r-{number}", on="n1", cpu="4") for number in range(taken)]
    found = plan(read(request("job", 3)), down(), full, group("g", nodes=["n1"], cpu="8"))

    assert (bought(found), helped(found)) == (nodes, {"job": bool(nodes)})
    assert "n1" not in promised(found)


def test_where_there_is_room_elsewhere_it_is_promised_there() -> None:
    nodes = group("g", nodes=["n1", "n2"], cpu="8")
    found = plan(read(request("job", 2)), down(), make.node("n2", cpu="8"), nodes)

    assert (bought(found), helped(found)) == ({}, {"job": True})
    assert promised(found) == {"n2"}


def test_what_is_booked_already_waits_for_its_node_and_so_do_pods() -> None:
    booked = read(request("job", 1, booked=60))
    found = plan(booked, down(), group("g", nodes=["n1"], cpu="8"), make.pod("web", cpu="4"))

    assert (bought(found), helped(found)) == ({}, {"job": True})


# Bookings.


def test_booked_room_is_left_to_its_pods() -> None:
    booked = read(request("job", 2, kind=CHECK_CAPACITY, booked=60))

    found = plan(booked, n1(), group("g", nodes=["n1"]), make.pod("web", cpu="4"))

    assert bought(found) == {"g": 1}


def test_pods_that_have_come_take_their_part_of_the_booking() -> None:
    booked = read(request("job", 2, kind=CHECK_CAPACITY, booked=60), consumers=2)

    found = plan(booked, n1(), group("g", nodes=["n1"]), make.pod("web", cpu="4"))

    assert bought(found) == {}


def test_nodes_on_their_way_for_a_booking_are_not_bought_again() -> None:
    found = plan(read(request("job", 2, booked=60)), group("g", target=2))

    assert bought(found) == {}
    assert helped(found) == {"job": True}


def test_a_booking_ends_after_its_time() -> None:
    (found,) = read(request("job", 2, booked=601))

    assert found.room is None
    assert found.ending is not None
    assert found.ending.type == "BookingExpired"


@pytest.mark.parametrize(("answered", "nodes"), [(True, {}), (False, {"g": 3})])
def test_a_gang_that_takes_booked_room_is_bought_nothing(
    answered: bool, nodes: dict[str, int]
) -> None:
    gang = members("job", 3)
    pods = [one for one in gang if isinstance(one, Pod)]
    taking = [
        msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(
                pod.metadata, annotations={**pod.metadata.annotations, CONSUME_ANNOTATION: "room"}
            ),
        )
        for pod in pods
    ]
    held = [*(one for one in gang if not isinstance(one, Pod)), *taking, group("g")]
    inputs = Inputs.of_objects(
        held, options=settings.of({}), features=features.of_version(), now=NOW
    )
    found = decision.decide(msgspec.structs.replace(inputs, requests_answered=answered)).plan

    assert bought(found) == nodes
    assert len(found.not_helped) == (3 if answered else 0)


# What is wrong is told.


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            request("job", 1, template="gone"),
            "podSets[0].podTemplateRef: there is no PodTemplate default/gone",
        ),
        (request("job", -1), "podSets[0].count: -1: expected 1 to 10000"),
        (
            request("job", 1, ValidUntilSeconds="soon"),
            "parameters.ValidUntilSeconds: 'soon': expected a number of seconds",
        ),
        (request("job", 1, age=100, ValidUntilSeconds="60"), "no room was found within 60 s"),
    ],
    ids=["no template", "negative", "no number", "too late"],
)
def test_a_request_that_cannot_be_served_fails_with_the_reason(
    bad: ProvisioningRequest, message: str
) -> None:
    found, good = read(bad, request("zz", 1))

    assert found.ending is not None
    assert (found.ending.type, found.ending.message) == ("Failed", message)
    assert good.room is not None


def test_a_class_of_somebody_else_is_left_alone() -> None:
    assert read(request("job", 1, kind="queued.example.com")) == ()
