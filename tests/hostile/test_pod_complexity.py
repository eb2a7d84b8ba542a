"""A pod's own complexity is bounded in work: twice as many rules are twice the work, no more."""

import numpy as np
import pytest

from tests.hostile import pods as hostile
from tests.hostile.work import calls
from tests.scaleup.groups import group
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod
from tonnage.rules import features, pipeline
from tonnage.rules.framework import kinds_of
from tonnage.scaleup import decision
from tonnage.scaleup.plan import Plan
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make

FEATURES = features.of_version("1.37")
FEW, MANY = 100, 400
KINDS = list(hostile.pods(1))


def cluster(nodes: int = 12) -> list[KubeObject]:
    """Nodes that are nearly full, with pods of other tenants, and one pod that waits."""
    return [
        *(make.namespace(f"team-{n}", {"team": f"team-{n}"}) for n in range(30)),
        *(make.node(f"n{n}", cpu="4", labels={hostile.NUMBERED: str(n)}) for n in range(nodes)),
        *(
            make.pod(f"web-{n}", namespace=f"team-{n}", on=f"n{n}", cpu="3", labels={"app": "web"})
            for n in range(nodes)
        ),
        make.pod("waits", namespace="team-1", cpu="2"),
        group("g1"),
        group("g2"),
    ]


def plan(*more: KubeObject) -> Plan:
    return decision.decide(
        Inputs.of_objects(
            [*cluster(), *more], options=options.Options(), features=FEATURES, now=0.0
        )
    ).plan


def evaluate(pod: Pod) -> None:
    snapshot = Snapshot.of([*cluster(), pod])
    pipeline.evaluate(snapshot, snapshot.pods["default/hostile"], FEATURES).summary()


@pytest.mark.parametrize("kind", KINDS)
def test_four_times_as_many_rules_are_at_most_four_times_the_work_of_a_verdict(kind: str) -> None:
    evaluate(make.pod("hostile"))
    few, many = hostile.pods(FEW)[kind], hostile.pods(MANY)[kind]
    assert calls(lambda: evaluate(many)) < 5 * calls(lambda: evaluate(few))


@pytest.mark.parametrize("kind", KINDS)
def test_four_times_as_many_rules_are_at_most_four_times_the_work_of_a_plan(kind: str) -> None:
    plan()
    few, many = hostile.pods(FEW)[kind], hostile.pods(MANY)[kind]
    assert calls(lambda: plan(many)) < 5 * calls(lambda: plan(few))


@pytest.mark.parametrize("kind", KINDS)
def test_others_are_bought_for_beside_such_a_pod(kind: str) -> None:
    found = plan(hostile.pods(MANY)[kind])
    helped = {pod for step in found.steps for pod in step.pods}
    assert "team-1/waits" in helped


def test_a_pod_that_waits_leaves_no_columns_for_what_no_node_has() -> None:
    snapshot = Snapshot.of(cluster())
    before = len(snapshot.table._columns)
    for pod in hostile.pods(MANY).values():
        pipeline.evaluate(snapshot, snapshot.record_of(pod), FEATURES)
    assert len(snapshot.table._columns) == before


def test_a_refusal_by_a_hundred_resources_names_the_same_ones_for_the_same_nodes_only() -> None:
    flags = [np.array([True, True, False])] * 70 + [np.array([True, False, False])]
    kinds = kinds_of(flags).tolist()
    assert len(set(kinds)) == 3


def test_explain_says_of_such_a_pod_that_it_is_decided_on_last() -> None:
    snapshot = Snapshot.of([*cluster(), hostile.pods(1_100)["tolerations"]])
    found = pipeline.evaluate(snapshot, snapshot.pods["default/hostile"], FEATURES)
    (warning,) = found.on("n0").warnings
    assert warning == (
        "the pod has 1,102 rules, terms, values and volumes, more than 1,000:"
        " the autoscaler decides on it last and alone"
    )
