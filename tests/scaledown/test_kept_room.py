"""Nodes that only room which is kept ready needs."""

import msgspec
import pytest

from tests.scaledown.clusters import going, group, nodes, plan, web
from tests.scaleup.asking import NOW
from tests.scaleup.test_headroom import buffer, template
from tests.scaleup.test_requested_room import read, request
from tonnage.api import Cluster
from tonnage.groups import options as settings
from tonnage.groups.inputs import Inputs
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.rules import features
from tonnage.scaledown import decision
from tonnage.scaledown.codes import KeepCode
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.state import ScaleDownState
from tonnage.scaleup import decision as scale_up
from tonnage.scaleup import requested_room
from tonnage.testing import builders as make

EBS = "ebs.csi.aws.com"


def node(name: str) -> Node:
    return make.node(name, cpu="2", memory="8Gi")


TWO_NODES: list[KubeObject] = [group("a", "b"), node("a"), node("b")]


def test_a_node_that_only_kept_room_needs_stays() -> None:
    made = plan(group("a", "b"), node("a"), node("b"), template(cpu="1500m"), buffer(chunks=1))

    assert len(going(made)) == 1
    stays = next(one for one in made.nodes if not one.goes)
    assert stays.code == KeepCode.KEPT_ROOM
    assert stays.message == "CapacityBuffer default/room"
    assert stays.frees == "less room to be kept ready for CapacityBuffer default/room"


def test_room_on_a_node_that_stays_anyway_holds_no_other() -> None:
    made = plan(
        group("a", "b"),
        node("a"),
        node("b"),
        web("w", "a", cpu="1200m"),
        template(cpu="500m"),
        buffer(chunks=1),
    )

    assert going(made) == ["b"]


def test_chunks_are_not_moved_and_not_listed() -> None:
    made = plan(group("a", "b"), node("a"), node("b"), template(cpu="1500m"), buffer(chunks=1))

    assert made.pods == ()
    assert [one.moves for one in made.nodes] == [(), ()]


def test_pods_are_not_moved_into_room_that_is_kept() -> None:
    objects: list[KubeObject] = [
        group("a", "b"),
        node("a"),
        node("b"),
        web("w1", "a", cpu="900m"),
        web("w2", "b", cpu="900m"),
        template(cpu="1"),
    ]
    assert len(going(plan(*objects))) == 1
    assert going(plan(*objects, buffer(chunks=2))) == []


def test_the_node_that_has_been_unneeded_for_long_goes_first() -> None:
    objects: list[KubeObject] = [
        group("a", "b"),
        node("a"),
        node("b"),
        template(cpu="1500m"),
        buffer(chunks=1),
    ]
    state = ScaleDownState(unneeded={"b": 100.0, "a": 900.0})
    made = Cluster(objects).scale_down({"scaleDownUnneededTime": 0}, now=1000.0, state=state)

    assert going(made) == ["b"]
    assert nodes(made)["a"].code == KeepCode.KEPT_ROOM


def test_the_longer_the_buffer_is_gone_the_fewer_nodes_stay() -> None:
    closed = '[{"start": "0 0 1 1 *", "lasts": "1h"}]'
    objects: list[KubeObject] = [group("a", "b"), node("a"), node("b"), template(cpu="1500m")]
    assert len(going(plan(*objects, buffer(chunks=2)))) == 0
    assert len(going(plan(*objects, buffer(chunks=2, windows=closed)))) == 2


@pytest.mark.parametrize(("slots", "gone"), [(0, 3), (5, 2), (11, 1), (21, 0)])
def test_slots_that_are_kept_free_hold_nodes(slots: int, gone: int) -> None:
    names = ("a", "b", "c")
    objects: list[KubeObject] = [node(name) for name in names]
    csinodes = [make.csinode(name, {EBS: 10}) for name in names]
    made = Cluster([group(*names), *objects, *csinodes]).scale_down(
        {"headroom": {"driver": EBS, "slots": slots}}
    )

    assert len(going(made)) == gone


def test_a_node_that_is_asked_about_alone_may_not_go_for_kept_room() -> None:
    objects: list[KubeObject] = [
        group("a", "b"),
        node("a"),
        node("b"),
        template(cpu="1500m"),
        buffer(chunks=2),
    ]
    inputs = Inputs.of_objects(
        objects, options=settings.of({}), features=features.of_version(), now=0.0
    )
    told = decision.judge(ScaleDownInputs.of(inputs, objects), "a")

    assert told is not None
    assert told.code == KeepCode.KEPT_ROOM


# Room that ProvisioningRequests have booked.


@pytest.mark.parametrize(
    ("pods", "booked", "gone"), [(1, 60, 1), (2, 60, 0), (2, None, 2), (2, 601, 2)]
)
def test_booked_room_holds_the_nodes_it_needs(pods: int, booked: float | None, gone: int) -> None:
    """Room that is only asked for, or is booked no longer, holds none."""
    inputs = Inputs.of_objects(
        TWO_NODES, options=settings.of({}), features=features.of_version(), now=NOW
    )
    spec = make.pod("worker", cpu="1500m").spec
    rooms = [one.room for one in read(request("job", pods, booked=booked), spec=spec)]
    inputs = msgspec.structs.replace(inputs, requested=tuple(filter(None, rooms)))
    made = decision.decide(ScaleDownInputs.of(inputs, TWO_NODES)).plan

    held = [one for one in made.nodes if one.code == KeepCode.KEPT_ROOM]
    assert len(held) == 2 - gone
    assert {one.message for one in held} <= {"ProvisioningRequest default/job"}


def test_room_that_the_plan_has_just_found_is_booked_already() -> None:
    inputs = Inputs.of_objects(
        TWO_NODES, options=settings.of({}), features=features.of_version(), now=NOW
    )
    spec = make.pod("worker", cpu="1500m").spec
    asked = read(request("fits", 2, age=5), request("never", 60), spec=spec)
    rooms = tuple(one.room for one in asked if one.room is not None)
    inputs = msgspec.structs.replace(inputs, requested=rooms)
    made = scale_up.decide(inputs).plan

    found = requested_room.booked(inputs, made).requested
    assert [(one.name, one.booked) for one in found] == [("fits", True)]
    assert requested_room.booked(inputs, None).requested == ()
