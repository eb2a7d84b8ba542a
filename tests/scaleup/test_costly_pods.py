"""Pods with too many rules come last, alone and within a time of their own; nobody waits."""

from collections.abc import Callable

import msgspec
import pytest

from tests.clusters.random_groups import NOW, random_scenario
from tests.scaleup import replay
from tests.scaleup.groups import group
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.objects import complexity
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import LabelRequirement
from tonnage.objects.pods import (
    NodeSelector,
    Pod,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from tonnage.rules import features
from tonnage.scaleup import assessment, decision, planner
from tonnage.scaleup.costly_pods import OwnTime
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make

FEATURES = features.of_version("1.37")


def plan(
    *objects: KubeObject,
    own_time: OwnTime | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    **settings: object,
) -> Plan:
    chosen = options.of(settings)
    request = decision.request(
        assessment.assess(Inputs.of_objects(objects, options=chosen, features=FEATURES, now=0.0)),
        out_of_time=out_of_time,
    )
    found = planner.plan(msgspec.structs.replace(request, own_time=own_time or OwnTime()))
    assert replay.violations(objects, found, options=chosen, features=FEATURES, now=0.0) == []
    return found


def costly(name: str = "costly", *, rules: int = 20, **more: object) -> Pod:
    many = [Toleration(key=f"example.com/{n}", operator="Exists") for n in range(rules)]
    return make.pod(name, cpu="1", tolerations=many, **more)  # type: ignore[arg-type]


def helped(found: Plan) -> list[str]:
    bought = [pod for step in found.steps for pod in step.pods]
    return [*(one.pod for one in found.fit_on_existing), *bought]


def test_a_pod_past_the_limit_comes_after_all_others() -> None:
    found = plan(
        costly(),
        make.pod("a", cpu="1"),
        make.node("n1", cpu="1"),
        group("g", cpu="1"),
        maxPodComplexity=10,
    )
    assert helped(found) == ["default/a", "default/costly"]


def test_it_is_named_with_the_reason_in_the_plan_and_its_warnings() -> None:
    found = plan(costly(), group("g"), maxPodComplexity=10)
    (named,) = found.set_apart
    assert (named.pod, named.decided) == ("default/costly", True)
    assert named.reason == (
        "it has 22 rules, terms, values and volumes, more than the 10 of maxPodComplexity"
    )
    assert any(named.reason in warning for warning in found.warnings)


def test_a_pod_within_the_limit_is_not_set_apart() -> None:
    found = plan(costly(), group("g"), maxPodComplexity=22)
    assert (found.set_apart, found.warnings) == ((), ())


def test_it_uses_room_that_purchases_for_others_leave() -> None:
    found = plan(costly(), make.pod("a", cpu="3"), group("g", cpu="4"), maxPodComplexity=10)
    assert [one.delta for one in found.scale_ups] == [1]
    assert found.scale_ups[0].nodes[0].pods == ("default/a", "default/costly")


def test_past_its_own_time_it_is_left_out_and_others_are_not() -> None:
    found = plan(
        costly(),
        make.pod("a", cpu="1"),
        group("g"),
        maxPodComplexity=10,
        own_time=OwnTime(lambda: 0.0, 0.0),
    )
    assert helped(found) == ["default/a"]
    assert found.partial
    (left_out,) = found.not_helped
    assert left_out.reasons[0].reasons[0].startswith("not decided on in time: it has 22 rules")


def test_it_has_its_own_time_though_that_of_all_others_is_over() -> None:
    found = plan(costly(), group("g"), maxPodComplexity=10, out_of_time=lambda: True)
    assert helped(found) == ["default/costly"]


def test_its_own_time_is_for_all_tries_of_a_plan_together() -> None:
    seconds = 0.0
    own = OwnTime(lambda: seconds, 2.0)
    over = []
    for _ in range(3):
        with own.running() as is_over:
            over.append(is_over())
            seconds += 1.0
    assert over == [False, False, True]


def test_of_pods_that_are_too_many_together_every_namespace_has_its_turn() -> None:
    flood = [costly(f"flood-{n}", rules=10 + n, namespace="tenant") for n in range(5)]
    found = plan(
        *flood, costly("honest", rules=20, namespace="other"), group("g"), maxRoundComplexity=60
    )
    apart = [one.pod for one in found.set_apart]
    assert apart == ["tenant/flood-2", "tenant/flood-3", "tenant/flood-4"]
    assert set(helped(found)) == {*(f"tenant/flood-{n}" for n in range(5)), "other/honest"}


def test_a_decision_is_cut_while_pods_are_put_on_nodes_that_are_there() -> None:
    asked = iter(range(10**6))  # once for each pod before the first is placed, then again
    pods = [make.pod(f"p{n}", cpu=f"{n + 1}m") for n in range(10)]
    found = plan(*pods, make.node("n1", cpu="8"), out_of_time=lambda: next(asked) >= 13)
    assert found.partial
    assert len(helped(found)) == 3


@pytest.mark.parametrize("seed", range(25))
def test_plans_with_pods_set_apart_keep_their_promises(seed: int) -> None:
    scenario = random_scenario(seed)
    chosen = options.of({**scenario.options, "maxPodComplexity": 4, "maxRoundComplexity": 40})
    looked_at = features.of_version("1.37", scenario.gates)
    found = decision.decide(
        Inputs.of_objects(scenario.objects, options=chosen, features=looked_at, now=NOW)
    ).plan
    asked = {"options": chosen, "features": looked_at, "now": NOW}
    assert replay.violations(scenario.objects, found, **asked) == []  # type: ignore[arg-type]
    assert replay.missed(scenario.objects, found, **asked) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pod", "count"),
    [
        (make.pod("plain"), 1),
        (make.pod("of two resources", cpu="1", memory="1Gi"), 3),
        (make.pod("with a node selector", node_selector={"a": "b", "c": "d"}), 3),
        (
            make.pod("with a term of two values", node_affinity=make.nodes_with("zone", "a", "b")),
            1 + 1 + 1 + 2,
        ),
        (make.pod("with an empty term", node_affinity=NodeSelector()), 1),
        (make.pod("tolerant", tolerations=[Toleration(key="a"), Toleration(key="b")]), 3),
        (
            make.pod(
                "spread",
                spread=[
                    TopologySpreadConstraint(
                        max_skew=1,
                        topology_key="zone",
                        label_selector=make.selecting(
                            {"a": "b"}, LabelRequirement(key="c", operator="In", values=("d", "e"))
                        ),
                    )
                ],
            ),
            1 + 1 + 1 + 3,
        ),
        (
            make.pod(
                "apart",
                apart=[
                    PodAffinityTerm(
                        topology_key="zone",
                        namespaces=("x", "y"),
                        label_selector=make.selecting({"a": "b"}),
                    )
                ],
            ),
            1 + 1 + 2 + 1,
        ),
        (make.pod("with a port", host_ports=[80]), 2),
        (make.pod("gated", gates=["a"]), 2),
    ],
    ids=lambda value: value.metadata.name if isinstance(value, Pod) else "",
)
def test_what_is_counted(pod: Pod, count: int) -> None:
    assert complexity.of(pod.spec) == count
