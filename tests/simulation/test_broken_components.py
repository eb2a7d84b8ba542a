"""The race explorer finds components that are broken on purpose, each by the rule meant for it."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tonnage.autoscaler.actuator import Actuator
from tonnage.autoscaler.scale_up_executor import ScaleUpExecutor
from tonnage.embedded.cloud import SimulatedCloud
from tonnage.groups.registry import Observation, Registry
from tonnage.rules import node_volume_limits
from tonnage.rules.causes import Cause
from tonnage.rules.framework import SKIP, Code, Rejection
from tonnage.rules.inter_pod_affinity import InterPodAffinity
from tonnage.rules.pod_topology_spread import PodTopologySpread
from tonnage.scheduler.claim_space import ClaimSpace
from tonnage.scheduler.queue import SchedulingQueue
from tonnage.scheduler.scheduler_cache import SchedulerCache
from tonnage.simulation import explorer, random_scenarios
from tonnage.simulation.checks import (
    bindings,
    bounds,
    disks,
    pending_pods,
    placements,
    purchases,
    repeats,
)
from tonnage.simulation.recorded_cloud import RecordedCloud
from tonnage.snapshot.reservations import Reservations

Patch = pytest.MonkeyPatch


def is_found(rule: str, seeds: Sequence[int]) -> bool:
    """Whether the rule is broken in one of a few seeds."""
    played = explorer.explore(seeds)
    return any(one.rule == rule for outcome in played for one in outcome.violations)


def with_sizes(monkeypatch: Patch, **sizes: int) -> None:
    """A cloud that tells other sizes of its groups than those that hold."""
    told = SimulatedCloud._group

    def group(self: SimulatedCloud, name: str) -> Any:
        return msgspec.structs.replace(told(self, name), **sizes)

    monkeypatch.setattr(SimulatedCloud, "_group", group)


def test_a_scheduler_that_does_not_count_volumes_in_flight(monkeypatch: Patch) -> None:
    monkeypatch.setattr(SchedulerCache, "assume", lambda _self, record, _node, _choice: record)
    assert is_found(bindings.BEYOND_LIMIT, (0, 1, 2))


def test_a_scheduler_that_ignores_the_opt_in(monkeypatch: Patch) -> None:
    monkeypatch.setattr(node_volume_limits, "missing_drivers", lambda _ask: {})
    assert is_found(bindings.SENT_ASTRAY, (6,))


def test_a_scheduler_that_forgets_what_it_gave_of_a_disk(monkeypatch: Patch) -> None:
    monkeypatch.setattr(ClaimSpace, "give", lambda _self, _claim, _node, **_moment: None)
    assert is_found(disks.PLEDGED_BEYOND, (2, 5))


def test_a_scheduler_that_knows_nothing_of_spread(monkeypatch: Patch) -> None:
    monkeypatch.setattr(PodTopologySpread, "pre_filter", lambda _self, _ask: SKIP)
    assert is_found(placements.AGAINST_ITS_WISHES, (59,))


def test_a_scheduler_that_knows_nothing_of_affinity(monkeypatch: Patch) -> None:
    monkeypatch.setattr(InterPodAffinity, "pre_filter", lambda _self, _ask: SKIP)
    assert is_found(placements.AGAINST_ITS_WISHES, (20,))


def test_a_scheduler_that_refuses_whoever_wants_to_be_spread(monkeypatch: Patch) -> None:
    refusal = Rejection(Code.UNSCHEDULABLE, Cause.SPREAD_SKEW)
    monkeypatch.setattr(
        PodTopologySpread,
        "pre_filter",
        lambda _self, ask: refusal if ask.pod_class.spread else SKIP,
    )
    assert is_found(placements.HAS_A_PLACE, (29,))


def test_a_scheduler_that_is_not_woken_by_a_cure(monkeypatch: Patch) -> None:
    monkeypatch.setattr(
        SchedulingQueue, "wake", lambda _self, _cured, _worth, *, now: bool(now < 0)
    )
    assert is_found(pending_pods.HAS_A_PLACE, (0, 1, 2))


def test_an_autoscaler_that_forgets_nodes_on_their_way(monkeypatch: Patch) -> None:
    observe = Registry.observe

    def forgetful(self: Registry, *about: Any, **more: Any) -> Observation:
        seen = observe(self, *about, **more)
        groups = {
            name: msgspec.structs.replace(one, upcoming=0) for name, one in seen.groups.items()
        }
        return msgspec.structs.replace(seen, groups=groups)

    monkeypatch.setattr(Registry, "observe", forgetful)
    assert is_found(purchases.ALREADY_COMING, (0, 1, 2))


def test_an_autoscaler_that_takes_promised_slots_for_free(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Reservations, "place", lambda _self, _snapshot: None)
    assert is_found(repeats.BY_HALVES, (11,))


def test_an_autoscaler_that_buys_one_node_too_many(monkeypatch: Patch) -> None:
    increase = RecordedCloud.increase

    async def greedy(self: RecordedCloud, group: str, delta: int) -> None:
        known = self._group(group)
        await increase(self, group, min(delta + 1, known.max_size - known.target))

    monkeypatch.setattr(RecordedCloud, "increase", greedy)
    assert is_found(purchases.MORE_THAN_NEEDED, (0, 1, 2))


def test_an_autoscaler_that_buys_too_much_for_what_was_lost(monkeypatch: Patch) -> None:
    increase = RecordedCloud.increase

    async def anxious(self: RecordedCloud, group: str, delta: int) -> None:
        lately = any(one.deed == "increase" and self._now() - one.at < 60 for one in self.asked)
        known = self._group(group)
        await increase(self, group, min(delta + 2 * lately, known.max_size - known.target))

    monkeypatch.setattr(RecordedCloud, "increase", anxious)
    # The seed was found among clusters whose trouble begins at once.
    monkeypatch.setattr(random_scenarios, "aged", lambda simulation: simulation)
    assert is_found(repeats.BEYOND_LOSSES, (19,))


def test_an_autoscaler_that_buys_nothing(monkeypatch: Patch) -> None:
    async def buy(*_: Any, **__: Any) -> bool:
        return True

    monkeypatch.setattr(ScaleUpExecutor, "buy", buy)
    assert is_found(pending_pods.COULD_BE_HELPED, (0, 1))


def test_an_autoscaler_that_asks_for_more_than_a_group_may_have(monkeypatch: Patch) -> None:
    increase = Actuator.increase

    async def immoderate(self: Actuator, group: str, delta: int, *, reason: str) -> None:
        await increase(self, group, 100 * delta, reason=reason)

    monkeypatch.setattr(Actuator, "increase", immoderate)
    assert is_found(bounds.ASKED_BEYOND, (0, 1))


def test_a_provider_without_a_maximum(monkeypatch: Patch) -> None:
    with_sizes(monkeypatch, max_size=99)
    assert is_found(bounds.BEYOND, (0, 1, 2))


def test_a_provider_without_a_minimum(monkeypatch: Patch) -> None:
    with_sizes(monkeypatch, min_size=0)
    assert is_found(bounds.BEYOND, (7, 8, 9))
