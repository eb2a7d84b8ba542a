"""Plans that count pods which are not there yet: as many nodes, and no pod left out for them."""

import msgspec

from tests.groups.test_look_ahead import NOW, meta, pod, stateful_set
from tonnage.groups.inputs import Inputs
from tonnage.groups.options import Options
from tonnage.objects.kinds import KubeObject
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make

DRIVER = "disk.example.com"


def group(slots: int = 4, most: int = 50) -> NodeGroup:
    template = GroupTemplate(node=make.node("t"), csi_node=make.csinode("t", {DRIVER: slots}))
    return NodeGroup(metadata=meta("g"), spec=NodeGroupSpec(max_size=most, template=template))


def plan(*objects: KubeObject, ahead: bool = True) -> Plan:
    inputs = Inputs.of_objects(
        [make.storage_class("fast", DRIVER), *objects],
        options=Options(look_ahead=ahead),
        features=features.of_version("", {}),
        now=NOW,
    )
    return decision.decide(inputs).plan


def waiting(number: int) -> list[KubeObject]:
    """A pod of the StatefulSet that waits, with its claim."""
    name = f"db-{number}"
    made = pod(name)
    claimed = make.pod(name, pvcs=[f"data-{name}"])
    return [
        make.pvc(f"data-{name}", storage_class="fast", size="10Gi"),
        msgspec.structs.replace(claimed, metadata=made.metadata),
    ]


def nodes(made: Plan) -> int:
    return sum(one.delta for one in made.scale_ups)


def test_nodes_are_bought_for_all_replicas_when_the_first_waits() -> None:
    made = plan(group(), stateful_set(replicas=10), *waiting(0))
    assert nodes(made) == 3
    assert nodes(plan(group(), stateful_set(replicas=10), *waiting(0), ahead=False)) == 1


def test_nothing_is_counted_twice_when_pods_to_come_have_come() -> None:
    all_there = [one for number in range(10) for one in waiting(number)]
    some = [one for number in range(4) for one in waiting(number)]
    sizes = {nodes(plan(group(), stateful_set(replicas=10), *pods)) for pods in (all_there, some)}
    assert sizes == {3}


def test_pods_that_wait_go_before_those_to_come() -> None:
    other: list[KubeObject] = [
        make.pvc("own", storage_class="fast", size="1Gi"),
        make.pod("other", pvcs=["own"]),
    ]
    made = plan(group(slots=1, most=2), stateful_set(replicas=10), *waiting(0), *other)
    helped = {pod for one in made.scale_ups for node in one.nodes for pod in node.pods}
    assert helped == {"default/db-0", "default/other"}
    assert not made.not_helped


def test_the_plan_says_for_whom_it_buys() -> None:
    (room,) = plan(group(), stateful_set(replicas=10), *waiting(0)).kept_rooms
    assert (room.name, room.chunks, room.bought) == ("next pods of StatefulSet default/db", 9, 9)


def test_nothing_is_bought_for_pods_to_come_that_have_room() -> None:
    there: list[KubeObject] = [make.node("n1"), make.csinode("n1", {DRIVER: 20})]
    assert nodes(plan(group(), *there, stateful_set(replicas=8), *waiting(0))) == 0
