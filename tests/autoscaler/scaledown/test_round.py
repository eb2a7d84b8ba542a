"""A round of scale-down: when removals begin, when not, and what is said of it."""

from functools import partial
from typing import Any

import pytest

from tests.autoscaler.scaledown.stage import BEGIN, ScriptedDecider, nodes, play
from tonnage.autoscaler.program import AutoscalerSettings
from tonnage.embedded.apiserver.store import Stored
from tonnage.groups.passing_taints import DELETION_CANDIDATE
from tonnage.scaledown.decision import ScaleDownDecision
from tonnage.scaledown.plan import ScaleDownPlan
from tonnage.scaledown.state import ScaleDownState
from tonnage.service.leader_election import Leadership
from tonnage.simulation import ensemble as ensembles
from tonnage.simulation.ensemble import Ensemble

Patch = pytest.MonkeyPatch

NOON = {"start": "0 12 * * *", "lasts": 3600}
MIDNIGHT = {"start": "0 0 * * *", "lasts": 3600}


class Unneeded(ScriptedDecider):
    """The first node could go, and its time has not come; after a while it is needed again."""

    async def decide(self, assessed: Any, state: ScaleDownState, **_: Any) -> ScaleDownDecision:
        idle = BEGIN <= self._clock.monotonic() < BEGIN + 100
        names = sorted(assessed.inputs.groups[0].nodes)[: int(idle)]
        since = {name: state.unneeded.get(name, assessed.inputs.now) for name in names}
        return ScaleDownDecision(ScaleDownPlan(), ScaleDownState(unneeded=since))


def soft_taints(ensemble: Ensemble) -> list[dict[str, Any]]:
    return [
        taint
        for node in nodes(ensemble)
        for taint in node["spec"].get("taints") or ()
        if taint["key"] == DELETION_CANDIDATE
    ]


def test_a_node_that_could_go_is_tainted_softly(monkeypatch: Patch) -> None:
    ensemble, _ = play(monkeypatch, pods=1, decider=Unneeded, duration=BEGIN + 20)
    (taint,) = soft_taints(ensemble)
    assert (taint["effect"], taint["value"].isdecimal()) == ("PreferNoSchedule", True)


def test_a_node_that_is_needed_again_loses_its_soft_taint(monkeypatch: Patch) -> None:
    ensemble, _ = play(monkeypatch, pods=1, decider=Unneeded, duration=BEGIN + 120)
    assert soft_taints(ensemble) == []


class Several(ScriptedDecider):
    """The first node is to go with its pod, and the one that the pod is not to go to may go too."""

    async def decide(self, assessed: Any, state: ScaleDownState, **more: Any) -> ScaleDownDecision:
        plan, _ = await super().decide(assessed, state, **more)
        going = [one.node for one in plan.going]
        others = self._nodes(assessed)[1:-1] if going else []
        return ScaleDownDecision(
            plan, ScaleDownState(unneeded=dict.fromkeys([*others, *going], BEGIN))
        )


@pytest.mark.parametrize(
    ("at_once", "tainted"),
    [
        pytest.param(1, 2, id="a taint in each round"),
        pytest.param(10, 2, id="all taints at once"),
        pytest.param(0, 0, id="soft taints turned off"),
    ],
)
def test_no_pod_is_moved_before_all_that_may_go_are_tainted_softly(
    monkeypatch: Patch, at_once: int, tainted: int
) -> None:
    """A scheduler would put it on one of them, which could not go by then."""
    seen: list[int] = []
    play(
        monkeypatch,
        pods=1,
        decider=Several,
        options={"maxBulkSoftTaintCount": at_once},
        when_marked=lambda ensemble, _: seen.append(len(soft_taints(ensemble))),
    )
    assert seen == [tainted]


def test_soft_taints_that_take_too_long_are_not_waited_for(monkeypatch: Patch) -> None:
    options = {"maxBulkSoftTaintTime": 0}
    _, course = play(monkeypatch, pods=1, decider=Several, duration=BEGIN + 200, options=options)
    assert BEGIN + 120 <= course.at("marked") <= BEGIN + 140


def test_candidates_are_in_the_status(monkeypatch: Patch) -> None:
    ensemble, _ = play(monkeypatch, pods=1, decider=Unneeded, duration=BEGIN + 20)
    assert ensemble.autoscaler is not None
    told = ensemble.autoscaler.autoscaler.document
    assert told["clusterWide"]["scaleDown"]["status"] == "CandidatesPresent"
    assert told["clusterWide"]["scaleDown"]["candidates"] == 1
    assert told["tonnage"]["scaleDown"]["unneededCount"] == 1


def test_outside_of_its_windows_no_node_goes(monkeypatch: Patch) -> None:
    _, course = play(monkeypatch, pods=1, options={"scaleDownWindows": [NOON]}, duration=200)
    assert course.words() == []


def test_within_a_window_nodes_go(monkeypatch: Patch) -> None:
    _, course = play(monkeypatch, pods=1, options={"scaleDownWindows": [MIDNIGHT]}, duration=200)
    assert "gone" in course.words()


def test_a_window_for_empty_nodes_leaves_others_alone(monkeypatch: Patch) -> None:
    windows = [MIDNIGHT | {"reasons": ["empty"]}, NOON | {"reasons": ["underutilized"]}]
    _, course = play(monkeypatch, pods=1, options={"scaleDownWindows": windows}, duration=200)
    assert course.words() == []


def test_off_nothing_goes(monkeypatch: Patch) -> None:
    _, course = play(monkeypatch, pods=1, options={"scaleDownEnabled": False}, duration=200)
    assert course.words() == []


def test_a_dry_run_says_what_would_go_and_touches_nothing(
    monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ensembles, "AutoscalerSettings", partial(AutoscalerSettings, dry_run=True))
    caplog.set_level("INFO")
    ensemble, course = play(monkeypatch, pods=1, duration=150)
    assert course.words() == []
    assert soft_taints(ensemble) == []
    assert any("Scale-down: removing node" in one.message for one in caplog.records)


def test_who_no_longer_leads_stops_at_the_next_step(monkeypatch: Patch) -> None:
    leads = [True]
    monkeypatch.setattr(Leadership, "leading", lambda _: leads[0])

    def lose(_: Ensemble, __: Stored) -> None:
        leads[0] = False

    _, course = play(monkeypatch, sets=3, when_marked=lose, duration=200)
    assert course.words() == ["marked"]


def test_a_group_that_has_all_or_none_goes_as_a_whole(monkeypatch: Patch) -> None:
    class Whole(ScriptedDecider):
        async def decide(self, assessed: Any, state: ScaleDownState, **_: Any) -> ScaleDownDecision:
            going = []
            if self._clock.monotonic() >= BEGIN and not state.removing:
                names = sorted(assessed.inputs.groups[0].nodes)
                going = [self._gone(name, to=name) for name in names]
            return ScaleDownDecision(ScaleDownPlan(nodes=tuple(going)), ScaleDownState())

    ensemble, course = play(
        monkeypatch, decider=Whole, whole=True, options={"maxScaleDownParallelism": 1}
    )
    assert [one.nodes for one in ensemble.decisions if one.deed == "delete"] == [3]
    assert course.words()[:3] == ["marked"] * 3


def test_a_set_with_a_replica_that_is_not_ready_keeps_its_nodes(monkeypatch: Patch) -> None:
    # Of twenty replicas fifteen find a slot, and no more nodes can be had.
    options = {"scaleDownEnabled": True, "maxNodesTotal": 3}
    _, course = play(monkeypatch, sets=20, options=options, duration=200)
    assert course.words() == []


def test_a_decision_that_fails_stops_nothing_else(monkeypatch: Patch) -> None:
    class Failing(ScriptedDecider):
        async def decide(self, *_: Any, **__: Any) -> ScaleDownDecision:
            raise ZeroDivisionError("of a rule")

    ensemble, course = play(monkeypatch, pods=1, decider=Failing, duration=150)
    assert ensemble.autoscaler is not None
    autoscaler = ensemble.autoscaler.autoscaler
    assert (course.words(), autoscaler.failure) == ([], None)
    assert "ZeroDivisionError" in autoscaler.document["tonnage"]["scaleDown"]["held"]
