"""Plans where first fit would leave out pods that another order helps."""

from collections.abc import Iterator

import pytest

from tests.clusters.scarcity import scarce_scenario
from tests.scaleup import baseline
from tests.scaleup.asking import TYPE, bought, decide, group
from tests.scaleup.recorded import NOW, helped
from tests.scaleup.replay import missed, violations
from tonnage.groups import options as settings
from tonnage.groups.inputs import Inputs
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod, PodAffinityTerm
from tonnage.rules import features
from tonnage.scaleup import assessment, decision, planner
from tonnage.scaleup.attempts import Attempt, Attempts, Unlucky
from tonnage.scaleup.request import Request
from tonnage.testing import builders as make

LARGE = {TYPE: "large"}


def apart(name: str, key: str, *, cpu: str) -> Pod:
    """A pod that keeps away from all of its kind."""
    term = PodAffinityTerm(topology_key=key, label_selector=make.selecting({"app": "cache"}))
    return make.pod(name, labels={"app": "cache"}, cpu=cpu, apart=[term])


def test_a_node_that_one_pod_needs_is_kept_for_it_where_others_have_a_choice() -> None:
    nodes = [make.node("n1", cpu="1", labels=LARGE), make.node("n2", cpu="1")]
    pods = [make.pod("any", cpu="1"), make.pod("picky", cpu="1", node_selector=LARGE)]
    plan = decide(nodes, pods, group("g", kind="large", cpu="1", most=0))

    assert {fit.pod: fit.node for fit in plan.fit_on_existing} == {
        "default/any": "n2",
        "default/picky": "n1",
    }


def test_no_node_is_bought_where_a_better_use_of_those_there_are_will_do() -> None:
    nodes = [make.node("n1", cpu="1", labels=LARGE), make.node("n2", cpu="1")]
    pods = [make.pod("any", cpu="1"), make.pod("picky", cpu="1", node_selector=LARGE)]
    plan = decide(nodes, pods, group("g", kind="large", cpu="1"))

    assert bought(plan) == {}
    assert helped(plan) == 2


def test_many_are_not_left_out_for_one_that_keeps_them_all_away() -> None:
    loner = apart("loner", make.ZONE, cpu="2")
    others = [apart(f"other-{number}", make.HOSTNAME, cpu="1") for number in range(5)]
    plan = decide(loner, others, group("g", zone="z-a"))

    assert helped(plan) == 5


def test_the_same_question_has_the_same_answer() -> None:
    scenario = scarce_scenario(10)
    first, second = (asked(scenario.objects, scenario.options) for _ in range(2))

    assert planner.plan(first) == planner.plan(second)


def asked(objects: tuple[KubeObject, ...], options: dict[str, object]) -> Request:
    return decision.request(
        assessment.assess(
            Inputs.of_objects(
                objects, options=settings.of(options), features=features.of_version(), now=NOW
            )
        )
    )


# How much is attempted.


def attempts_at(*objects: KubeObject, better: bool = True) -> int:
    """How many attempts there are at the question, if each of them leaves somebody out."""
    tried = Attempts(asked(objects, {}))
    count = 0
    for _ in tried:
        tried.put_first(Unlucky({}), better=better)
        count += 1
    return count


def test_a_small_question_is_attempted_a_dozen_times() -> None:
    assert attempts_at(make.pod("p"), group("g")) == 12


def test_attempts_end_when_eight_in_a_row_were_in_vain() -> None:
    assert attempts_at(make.pod("p"), group("g"), better=False) == 8


def test_a_large_question_is_attempted_once() -> None:
    kinds = [make.pod(f"p{number}", cpu=f"{number + 1}m") for number in range(800)]

    assert attempts_at(*kinds, *(group(f"g{number}") for number in range(20))) == 1


def test_pods_that_no_node_ever_takes_are_attempted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    first = Attempts.__iter__

    def counted(self: Attempts) -> Iterator[Attempt]:
        for attempt in first(self):
            made.append(attempt)
            yield attempt

    monkeypatch.setattr(Attempts, "__iter__", counted)
    plan = decide(make.node("n1"), make.pod("fits"), make.pod("huge", cpu="99"), group("g"))

    assert [one.pod for one in plan.not_helped] == ["default/huge"]
    assert len(made) == 1


# Clusters that run short, against the best of several runs of upstream's way.

BELOW = {
    12: "set-1 spreads over hosts: nodes bought for set-0 are the emptiest hosts, and hold it back",
    27: "a zone has few slots of ebs: pods of the same set with pd should go there, not elsewhere",
    41: "set-0 spreads over hosts and zones: nodes bought for others in one zone hold it back",
}
"""Seeds whose plan helps fewer pods, or as many with more nodes, and why.

May become fewer, never more. In all of them pods spread with a skew of one, and upstream is luckier
with the order in which nodes come and pods are placed in between.
"""

SEEDS = (*range(18), 27, 41, 66)
TOGETHER = 7


@pytest.mark.parametrize("start", range(0, len(SEEDS), TOGETHER))
def test_plans_for_scarce_clusters_are_no_worse_than_upstreams_way(start: int) -> None:
    below = set()
    for seed in SEEDS[start : start + TOGETHER]:
        scenario = scarce_scenario(seed)
        options = settings.of(scenario.options)
        request = asked(scenario.objects, scenario.options)
        plan = planner.plan(request)
        held = {"options": options, "features": features.of_version(), "now": NOW}
        assert violations(scenario.objects, plan, **held) == [], seed  # type: ignore[arg-type]
        assert missed(scenario.objects, plan, **held) == [], seed  # type: ignore[arg-type]
        ours = baseline.Worth(helped(plan), -sum(bought(plan).values()))
        if ours < baseline.best(request, runs=3):
            below.add(seed)

    assert below <= BELOW.keys()
