"""Plans are replayed pod by pod: nothing is placed that would not fit at that moment.

The recorded scenarios also say what cluster-autoscaler 1.37 decided. Those that are chosen are
played here, all of them by `make parity` (tests/parity).
"""

from functools import cache

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.clusters.random_groups import NOW, UPSTREAM, random_scenario
from tests.scaleup import recorded
from tests.scaleup.groups import DRIVER, group
from tests.scaleup.recorded import Case
from tests.scaleup.replay import missed, violations
from tests.seeds import seeds
from tonnage.groups import options as options_of
from tonnage.groups.inputs import Inputs
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import TopologySpreadConstraint
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.scaleup.plan import NewNode, NotHelped, Placement, Plan
from tonnage.testing import builders as make


@cache
def chosen() -> list[tuple[Case, Plan]]:
    return [(case, case.decide()) for case in recorded.cases(recorded.CHOSEN)]


# The recorded scenarios.

together = pytest.mark.xdist_group("chosen")  # they are planned once, for all that is asked


@together
def test_plans_for_recorded_scenarios_keep_their_promises() -> None:
    found = {case.name: recorded.broken_promises(case, plan) for case, plan in chosen()}

    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@together
def test_no_plan_helps_fewer_pods_than_upstreams_least_lucky_run() -> None:
    fewer = [
        case.name
        for case, plan in chosen()
        if case.outcomes and recorded.helped(plan) < min(recorded.helped_by_upstream(case))
    ]

    assert fewer == []


@together
def test_no_plan_helps_fewer_pods_than_upstreams_luckiest_run() -> None:
    fewer = {case.name for case, plan in chosen() if recorded.is_below_the_luckiest(case, plan)}

    assert fewer <= recorded.BELOW_THE_LUCKIEST


@together
def test_where_upstream_has_one_answer_the_first_step_is_that_or_better() -> None:
    single = [
        (case, plan) for case, plan in chosen() if case.outcomes and recorded.has_one_answer(case)
    ]
    others = {case.name for case, plan in single if not recorded.first_step_holds(case, plan)}

    assert len(single) > 40
    assert others <= recorded.NOT_ITS_ONLY_ANSWER


@together
def test_there_is_a_plan_where_upstream_gives_up() -> None:
    given_up = [plan for case, plan in chosen() if not case.outcomes]

    assert given_up
    assert all(plan.fit_on_existing or plan.steps or plan.not_helped for plan in given_up)


@together
def test_no_plan_helps_fewer_pods_than_upstreams_whole_run() -> None:
    fewer = {case.name for case, plan in chosen() if recorded.is_below_the_whole_run(case, plan)}

    assert fewer <= recorded.BELOW_THE_WHOLE_RUN


@together
def test_for_the_same_pods_no_plan_buys_more_nodes_than_upstreams_whole_run() -> None:
    dearer = {
        case.name for case, plan in chosen() if recorded.is_dearer_than_the_whole_run(case, plan)
    }

    assert dearer <= recorded.DEARER_THAN_THE_WHOLE_RUN


# Random clusters. A failing seed replays with `random_scenario(seed)`.


@settings(
    max_examples=seeds(30),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.integers(0, 2**32), st.sampled_from(("none", UPSTREAM)))
@example(5053, "none")  # a pod nobody but others' anti-affinity speaks of, and two groups alike
def test_no_promise_is_broken_on_any_cluster(seed: int, compatibility: str) -> None:
    scenario = random_scenario(seed)
    options = options_of.of({**scenario.options, "compatibility": compatibility})
    gates = features.of_version("", scenario.gates)
    plan = decision.decide(
        Inputs.of_objects(scenario.objects, options=options, features=gates, now=NOW)
    ).plan

    assert violations(scenario.objects, plan, options=options, features=gates, now=NOW) == []
    assert missed(scenario.objects, plan, options=options, features=gates, now=NOW) == []


# The judge itself: a plan that is wrong is found out.

CLUSTER: tuple[KubeObject, ...] = (
    make.node("n1", cpu="1"),
    make.csinode("n1", {DRIVER: 0}),
    make.storage_class("fast", DRIVER),
    *(make.pvc(f"data-{number}", storage_class="fast") for number in range(3)),
    *(make.pod(f"db-{number}", cpu="500m", pvcs=[f"data-{number}"]) for number in range(3)),
    make.pod("web", cpu="800m"),
    group("g", slots={DRIVER: 2}, cpu="4", most=3),
)
OPTIONS = options_of.of({})
GATES = features.of_version()


def good() -> Plan:
    return decision.decide(
        Inputs.of_objects(CLUSTER, options=OPTIONS, features=GATES, now=NOW)
    ).plan


def rules(plan: Plan, **options: object) -> set[str]:
    judged = violations(CLUSTER, plan, options=options_of.of(options), features=GATES, now=NOW)
    return {one.rule for one in judged}


def on_new_nodes(plan: Plan, *nodes: tuple[str, ...]) -> Plan:
    """The plan with its pods on other nodes of the one group."""
    (up,) = plan.scale_ups
    (step,) = plan.steps
    made = tuple(NewNode(name=f"g-new-{i}", pods=pods) for i, pods in enumerate(nodes, 1))
    delta = msgspec.structs.replace(step.scale_ups[0], delta=len(made))
    return msgspec.structs.replace(
        plan,
        scale_ups=(msgspec.structs.replace(up, delta=len(made), nodes=made),),
        steps=(msgspec.structs.replace(step, scale_ups=(delta,)),),
    )


def test_the_plan_the_next_tests_spoil_is_a_good_one() -> None:
    plan = good()

    assert rules(plan) == set()
    assert [up.delta for up in plan.scale_ups] == [2]
    assert [fit.pod for fit in plan.fit_on_existing] == ["default/web"]


def test_a_volume_too_many_is_found_out() -> None:
    databases = tuple(f"default/db-{number}" for number in range(3))

    assert "placement" in rules(on_new_nodes(good(), databases, ()))


def test_a_pod_that_does_not_fit_an_existing_node_is_found_out() -> None:
    plan = good()
    moved = Placement(pod="default/db-0", node="n1")
    spoiled = msgspec.structs.replace(plan, fit_on_existing=(*plan.fit_on_existing, moved))

    assert rules(spoiled) >= {"placement", "every pod once"}


def test_an_existing_node_that_does_not_exist_is_found_out() -> None:
    moved = (Placement(pod="default/web", node="n2"),)
    spoiled = msgspec.structs.replace(good(), fit_on_existing=moved)

    assert rules(spoiled) == {"fits an existing node"}


def test_a_forgotten_pod_is_found_out() -> None:
    assert rules(msgspec.structs.replace(good(), fit_on_existing=())) == {"every pod once"}


def test_a_pod_nobody_asked_for_is_found_out() -> None:
    extra = (NotHelped(pod="default/stranger"),)

    assert rules(msgspec.structs.replace(good(), not_helped=extra)) == {"every pod once"}


def test_a_node_without_a_pod_is_found_out() -> None:
    plan = good()
    (up,) = plan.scale_ups

    assert "nodes are needed" in rules(on_new_nodes(plan, *(one.pods for one in up.nodes), ()))


def test_steps_that_do_not_add_up_are_found_out() -> None:
    plan = good()
    (step,) = plan.steps
    delta = msgspec.structs.replace(step.scale_ups[0], delta=1)
    spoiled = msgspec.structs.replace(
        plan, steps=(msgspec.structs.replace(step, scale_ups=(delta,)),)
    )

    assert "steps add up" in rules(spoiled)


def test_a_bound_above_what_is_bought_is_found_out() -> None:
    plan = good()
    bounds = msgspec.structs.replace(plan.bounds, nodes=3)

    assert rules(msgspec.structs.replace(plan, bounds=bounds)) == {"bounds"}


def test_a_pod_that_would_fit_and_is_said_never_to_is_found_out() -> None:
    plan = good()
    never = (NotHelped(pod="default/web", never_fits=True),)
    spoiled = msgspec.structs.replace(plan, fit_on_existing=(), not_helped=never)

    assert rules(spoiled) == {"never fits"}


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"maxNodesPerScaleUp": 1}, "nodes per step"),
        ({"maxNodesTotal": 2}, "nodes in all"),
        ({"coresTotal": 8}, "cores in all"),
        ({"memoryTotal": 40}, "memory in all"),
    ],
)
def test_a_limit_that_is_passed_is_found_out(options: dict[str, object], rule: str) -> None:
    assert rules(good(), **options) == {rule}


def test_a_group_that_grows_beyond_its_size_is_found_out() -> None:
    pods = [(f"default/db-{number}",) for number in range(3)]

    assert "group size" in rules(on_new_nodes(good(), *pods, ()))


def test_a_pod_left_out_that_a_node_would_take_is_missed() -> None:
    plan = good()
    left = (NotHelped(pod="default/web"),)
    spoiled = msgspec.structs.replace(plan, fit_on_existing=(), not_helped=left)

    (found,) = missed(CLUSTER, spoiled, options=OPTIONS, features=GATES, now=NOW)

    assert found.subject == "default/web"


def test_a_partial_plan_may_leave_anybody_out() -> None:
    left = (NotHelped(pod="default/web"),)
    spoiled = msgspec.structs.replace(good(), fit_on_existing=(), not_helped=left, partial=True)

    assert missed(CLUSTER, spoiled, options=OPTIONS, features=GATES, now=NOW) == []


# Nodes that are on their way.


def spread_beside_a_node_on_its_way(*fits: tuple[str, str]) -> list[str]:
    """Who is placed wrong: pods keep apart by host, one runs on n0, and a node is on its way."""
    spread = TopologySpreadConstraint(
        max_skew=1,
        topology_key="kubernetes.io/hostname",
        when_unsatisfiable="DoNotSchedule",
        label_selector=make.selecting({"app": "web"}),
    )
    app = {"app": "web"}
    cluster: list[KubeObject] = [
        make.node("n0"),
        make.pod("running", on="n0", labels=app),
        *(make.pod(name, labels=app, spread=[spread]) for name, _ in fits),
        group("g", target=1),
    ]
    placed = tuple(Placement(pod=f"default/{pod}", node=node) for pod, node in fits)
    plan = Plan(fit_on_existing=placed)
    found = violations(cluster, plan, options=OPTIONS, features=GATES, now=NOW)
    return [one.subject for one in found if one.rule == "placement"]


def test_a_pod_may_be_placed_before_a_node_on_its_way_is_there() -> None:
    assert spread_beside_a_node_on_its_way(("a", "n0"), ("b", "g-upcoming-1")) == []


def test_a_node_on_its_way_that_has_a_pod_is_there() -> None:
    wrong = spread_beside_a_node_on_its_way(("b", "g-upcoming-1"), ("a", "n0"), ("c", "n0"))
    assert wrong == ["default/c"]
