"""Places that are taken and not seen yet count for scale-down too."""

import msgspec

from tests.scaledown.clusters import DB, DRIVER, WEB, going, group, nodes, web
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.groups.scale_down_options import AT_ONCE
from tonnage.objects.kinds import KubeObject
from tonnage.rules import features
from tonnage.scaledown import decision
from tonnage.scaledown.codes import KeepCode
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import ScaleDownPlan
from tonnage.scaledown.state import ScaleDownState
from tonnage.scaleup import decision as scale_up
from tonnage.scaleup.plan import Plan
from tonnage.snapshot.reservations import Reservation, Source
from tonnage.testing import builders as make

NOW = 10_000.0


def made_while_a_pod_is_bound(node: str, *objects: KubeObject) -> ScaleDownPlan:
    """What goes while the scheduler has volumes made on the node for a pod of one processor."""
    every = [
        WEB,
        DB,
        make.storage_class("fast", DRIVER),
        make.pvc("data", storage_class="fast", selected_node=node),
        make.pod("db-0", pvcs=["data"], cpu="1"),
        *objects,
    ]
    inputs = Inputs.of_objects(
        every, options=options.of({}), features=features.of_version(), now=NOW
    )
    # Nobody is to be decided on: the scheduler has not refused the pod, it is binding it.
    inputs = msgspec.structs.replace(inputs, pending=())
    state = ScaleDownState(unneeded={"a": 0.0, "b": 0.0})
    asked = ScaleDownInputs.of(inputs, every, state=state)
    return decision.decide(asked).plan


def test_a_node_that_a_pod_is_being_bound_to_stays() -> None:
    cluster = (group("a", "b"), make.node("a", cpu="2"), make.node("b", cpu="2"))
    made = made_while_a_pod_is_bound("b", *cluster)
    assert going(made) == ["a"]
    assert nodes(made)["b"].code == KeepCode.NOT_THIS_TIME


def test_nobody_moves_to_the_place_of_a_pod_that_is_being_bound() -> None:
    cluster = (group("a", "b"), make.node("a", cpu="2"), make.node("b", cpu="2"))
    assert going(made_while_a_pod_is_bound("a", *cluster, web("w", "b", cpu="1"))) == ["b"]
    assert going(made_while_a_pod_is_bound("a", *cluster, web("w", "b", cpu="1500m"))) == []


def plans_beside_a_move(*objects: KubeObject) -> tuple[Plan, ScaleDownPlan]:
    """What is bought and what goes while a pod of one processor moves to node `b`."""
    every = [WEB, DB, *objects]
    inputs = Inputs.of_objects(
        every, options=options.of(AT_ONCE), features=features.of_version(), now=NOW
    )
    to_come = inputs.cluster.snapshot.record_of(web("w:next", "", cpu="1"))
    entry = Reservation(to_come.key, Source.MOVING, NOW, node="b", pod=to_come)
    asked = ScaleDownInputs.of(inputs, every)
    beside = asked.assessed.beside([entry])
    made = decision.decide(asked._replace(assessed=beside)).plan
    return scale_up.decide_on(beside).plan, made


def test_a_pending_pod_is_not_planned_into_the_place_of_one_that_moves() -> None:
    cluster = (group("b"), make.node("b", cpu="2"))
    fits, _ = plans_beside_a_move(*cluster, make.pod("p", cpu="1"))
    full, _ = plans_beside_a_move(*cluster, make.pod("p", cpu="1500m"))
    assert [one.node for one in fits.fit_on_existing] == ["b"]
    assert full.fit_on_existing == ()


def test_nobody_moves_to_the_place_of_a_pod_that_moves_already() -> None:
    cluster = (group("a", "b"), make.node("a", cpu="2"), make.node("b", cpu="2"))
    assert going(plans_beside_a_move(*cluster, web("o", "a", cpu="1"))[1]) == ["a"]
    assert going(plans_beside_a_move(*cluster, web("o", "a", cpu="1100m"))[1]) == []
