"""A dimension of one's own is one rule, handed in with the features: everybody honours it.

Here nodes have licences, by a label, and pods with another label take one each.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from tests.scaleup.asking import NOW, bought, group
from tonnage.api import Cluster
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.rules.causes import Cause
from tonnage.rules.features import Features
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Code,
    EventKind,
    Measure,
    Need,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    short_of,
)
from tonnage.scaleup.plan import Plan
from tonnage.scheduler import queueing_hints
from tonnage.scheduler.extender import node_verdicts
from tonnage.scheduler.queueing_hints import ClusterEvent
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.pod_counters import Scope
from tonnage.snapshot.reservations import Reservation, Reservations, Source
from tonnage.snapshot.rows import Ints, Rows
from tonnage.snapshot.snapshot import PodRecord, Snapshot
from tonnage.testing import builders as make

LICENCES = "example.com/licences"
LICENSED = "example.com/licensed"
_USERS = Scope(
    None,
    LabelSelector(match_expressions=(LabelRequirement(key=LICENSED, operator="Exists"),)),
)


class Licences(Rule):
    name = "Licences"
    cures = (EventKind.NODE_ADDED, EventKind.NODE_LABELLED, EventKind.POD_DELETED)

    def pre_filter(self, ask: Ask) -> Outcome:
        return PreFilter(lambda: _results(*self.needs(ask))) if _wants(ask.pod) else SKIP

    def footprint(self, snapshot: Snapshot, footprint: Footprint) -> Mapping[str, int]:
        return {LICENCES: 1} if LICENSED in footprint.pod_class.labels else {}

    def room(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> Ints | None:
        if not self.footprint(snapshot, footprint):
            return None
        (measure,) = self.measures(snapshot, rows)
        return measure.capacity - measure.used

    def measures(self, snapshot: Snapshot, rows: Rows) -> Iterator[Measure]:
        users = snapshot.counters.counter((_USERS,), terminating=True)
        column = snapshot.columns.labels.find(LICENCES)
        capacity = np.array([0, *map(int, column.values.values)], dtype=np.int64)
        used = users.column.data[rows].astype(np.int64)
        yield Measure(LICENCES, used, capacity[column.data[rows]])

    def needs(self, ask: Ask) -> list[Need]:
        if not _wants(ask.pod):
            return []
        (measure,) = self.measures(ask.snapshot, slice(0, ask.size))
        return [Need(LICENCES, np.ones(ask.size, np.int64), measure.used, measure.capacity)]

    def helps(self, event: EventKind, subject: object, pod: PodRecord, snapshot: Snapshot) -> bool:
        return not isinstance(subject, PodRecord) or _wants(subject)


def _wants(pod: PodRecord) -> bool:
    return LICENSED in pod.pod_class.labels


def _results(need: Need) -> NodeResults:
    return NodeResults.passing(
        ~need.exceeded,
        Code.UNSCHEDULABLE,
        lambda row: (
            short_of(
                LICENCES,
                Cause.INSUFFICIENT_CAPACITY,
                resource=LICENCES,
                wanted=1,
                used=int(need.taken[row]),
                limit=int(need.limit[row]),
            ),
        ),
    )


RULES = (Licences(),)
FEATURES = Features(more_rules=RULES)


def a_pod(name: str, *, on: str = "") -> KubeObject:
    return make.pod(name, on=on, cpu="10m", labels={LICENSED: "yes"})


def a_node(name: str, licences: int) -> KubeObject:
    return make.node(name, labels={LICENCES: str(licences)})


def plan(*objects: KubeObject) -> Plan:
    return Cluster(objects, rules=RULES).plan(now=NOW)


def test_an_explanation_says_what_is_short() -> None:
    cluster = Cluster([a_node("n", 1), a_pod("there", on="n"), a_pod("new")], rules=RULES)
    (verdict,) = cluster.explain("default/new").verdicts
    assert verdict.plugin == "Licences"
    assert verdict.texts == [f"node(s) have too little left of {LICENCES}"]


def test_a_plan_buys_by_it_and_knows_the_least_that_could_be_bought() -> None:
    made = plan(group("g", labels={LICENCES: "2"}), *(a_pod(f"p{n}") for n in range(5)))
    assert bought(made) == {"g": 3}
    assert made.bounds.nodes == 3
    assert made.scale_ups[0].binding == LICENCES


def test_pods_without_it_share_the_nodes_freely() -> None:
    plain = (make.pod(f"p{n}", cpu="10m") for n in range(5))
    assert bought(plan(group("g", labels={LICENCES: "2"}), *plain)) == {"g": 1}


def test_the_nearest_group_is_told_by_it() -> None:
    (left,) = plan(group("g", labels={LICENCES: "0"}), a_pod("p")).not_helped
    assert left.never_fits
    assert left.nearest is not None
    assert (left.nearest.resource, left.nearest.wanted, left.nearest.available) == (LICENCES, 1, 0)


def test_pods_that_take_one_wake_those_who_wait_for_one() -> None:
    snapshot = Snapshot.of([a_pod("waits"), a_pod("taker"), make.pod("other")])
    waiting = snapshot.pods["default/waits"]
    assert "Licences" in queueing_hints.cured(EventKind.POD_DELETED, FEATURES)
    for name, helps in (("taker", True), ("other", False)):
        gone = ClusterEvent(EventKind.POD_DELETED, snapshot.pods[f"default/{name}"])
        assert (
            queueing_hints.worth_another_try(gone, "Licences", waiting, snapshot, FEATURES) is helps
        )


def test_the_extender_refuses_and_reserves_by_it() -> None:
    snapshot = Snapshot.of([a_node("full", 0), a_node("free", 1), a_pod("one"), a_pod("two")])
    reservations = Reservations()

    def judge(name: str) -> node_verdicts.Judgement:
        ask = Ask(snapshot, snapshot.pods[f"default/{name}"], FEATURES)
        return node_verdicts.judge(
            ask, ["full", "free"], reservations=reservations, registering={}, fresh_since=0.0
        )

    first = judge("one")
    assert first.passing == ["free"]
    assert first.failed == {
        "full": f"node(s) have too little left of {LICENCES} ({Cause.INSUFFICIENT_CAPACITY})"
    }
    reservations.hold(
        Reservation("default/one", Source.LET_THROUGH, since=0.0, shares=first.shares)
    )
    assert judge("two").passing == []
