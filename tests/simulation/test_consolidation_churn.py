"""Load that goes up and down with default settings: moves pay back, and then there is quiet."""

import random
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import pytest

from benchmarks import consolidation as shapes
from tests.simulation.departures import Departures
from tonnage.autoscaler.consolidation.consolidator import Consolidator
from tonnage.consolidation.plan import ConsolidationStep
from tonnage.simulation import runner
from tonnage.simulation.ensemble import Ensemble

pytestmark = pytest.mark.xdist_group("churn")  # played once, for all tests

ROUNDS = 4
LAST = shapes._AGE + (ROUNDS - 1) * shapes._BETWEEN
"""When the load changes for the last time."""


class Begun(NamedTuple):
    """Nodes of a step that began to go, and where their pods went."""

    at: float
    step: ConsolidationStep
    nodes: tuple[str, ...]
    targets: frozenset[str]


class Churn(NamedTuple):
    ensemble: Ensemble
    leaving: list[float]
    begun: list[Begun]


def shape() -> shapes.Shape:
    """Pods of twelve sizes on nodes that are 85 % full; each round takes some and adds some."""
    rng = random.Random(3)
    sizes = [min(max(round(rng.lognormvariate(5.5, 0.8) / 50) * 50, 50), 3500) for _ in range(12)]
    workloads = []
    for number, cpu in enumerate(sizes):
        replicas = [20]
        for _ in range(ROUNDS):
            replicas.append(max(round(replicas[-1] * rng.uniform(0.6, 1.2)), 1))
        workloads.append(shapes.ShapeWorkload(f"kind-{number}", cpu, tuple(replicas)))
    requested = sum(one.cpu * one.replicas[0] for one in workloads)
    return shapes.Shape("churn", -(-requested * 100 // (shapes._CPU * 85)), tuple(workloads))


@cache
def churn() -> Churn:
    leaving, begun = Departures(), []
    start: Callable[..., Any] = Consolidator._start

    def noted(self: Consolidator, step: ConsolidationStep, removals: Any, now: float) -> Any:
        found = start(self, step, removals, now)
        targets = frozenset(target for one in found for target in one.moves.values())
        begun.append(Begun(now, step, tuple(one.node for one in found), targets))
        return found

    with mock.patch.object(Consolidator, "_start", noted):
        ensemble = runner.played(shapes._simulation(shape()), prepare=leaving.follow)
    return Churn(ensemble, leaving.times, begun)


def test_the_nodes_follow_the_load() -> None:
    summary = churn().ensemble.timeline().summary
    requested = sum(one.cpu * one.replicas[-1] for one in shape().workloads)
    assert summary.pending_at_end == 0
    assert requested >= 0.85 * shapes._CPU * summary.nodes_at_end


def test_every_step_that_begins_pays_back_within_the_hour() -> None:
    begun = churn().begun
    assert any(one.targets for one in begun), "something moves"
    assert all(one.step.pays_back_in <= 3600 for one in begun)


def test_no_node_goes_before_what_was_moved_to_it_has_paid_back() -> None:
    tied: dict[str, float] = {}
    early = []
    for one in churn().begun:
        early += [(name, one.at, tied[name]) for name in one.nodes if tied.get(name, 0.0) > one.at]
        for name in one.targets:
            tied[name] = max(tied.get(name, 0.0), one.at + one.step.pays_back_in)
    assert not early


def test_nobody_is_evicted_at_constant_load() -> None:
    assert [at for at in churn().leaving if at > LAST + shapes._SETTLED] == []
