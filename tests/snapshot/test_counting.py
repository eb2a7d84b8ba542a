"""Counters of pods: kept while pods come and go, always equal to a count from scratch."""

import numpy as np
import pytest
from hypothesis import given

from tests.snapshot.dumping import miscounted
from tests.snapshot.histories import lean, lived_through, seeds
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.snapshot import pod_counters
from tonnage.snapshot.pod_counters import Scope
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing.builders import node, pod, selecting

DB = selecting({"app": "db"})
HERE = frozenset(("default",))


def count(snapshot: Snapshot, *scopes: Scope, terminating: bool = True) -> list[int]:
    counter = snapshot.counters.counter(scopes, terminating=terminating)
    return counter.column.data[: snapshot.table.size].tolist()


def cluster() -> Snapshot:
    return Snapshot.of(
        [
            node("n1"),
            node("n2"),
            pod("a", on="n1", labels={"app": "db"}),
            pod("b", on="n1", labels={"app": "db"}, deleting=True),
            pod("c", on="n2", labels={"app": "web"}),
            pod("d", on="n2", labels={"app": "db"}, namespace="other"),
            pod("e", labels={"app": "db"}),
        ]
    )


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        pytest.param(Scope(HERE, DB), [2, 0], id="matching pods of a namespace"),
        pytest.param(Scope(None, DB), [2, 1], id="matching pods of all namespaces"),
        pytest.param(Scope(frozenset(), DB), [0, 0], id="of no namespace"),
        pytest.param(Scope(HERE, LabelSelector()), [2, 1], id="all pods of a namespace"),
        pytest.param(Scope(HERE, None), [0, 0], id="no selector, no pods"),
    ],
)
def test_a_scope_says_which_pods_count(scope, expected) -> None:
    assert count(cluster(), scope) == expected


def test_pods_being_deleted_may_be_left_out() -> None:
    assert count(cluster(), Scope(HERE, DB), terminating=False) == [1, 0]


def test_pods_must_be_in_all_scopes() -> None:
    named = Scope(None, selecting({}, LabelRequirement(key="app", operator="Exists")))

    assert count(cluster(), named, Scope(frozenset(("other",)), DB)) == [0, 1]


def test_a_counter_is_kept_up_to_date() -> None:
    snapshot = cluster()
    before = count(snapshot, Scope(HERE, DB))
    snapshot.put_pod(pod("f", on="n2", labels={"app": "db"}))
    snapshot.drop_pod("default", "a")

    assert (before, count(snapshot, Scope(HERE, DB))) == ([2, 0], [1, 1])


def test_a_counter_knows_classes_that_come_later() -> None:
    snapshot = cluster()
    count(snapshot, Scope(HERE, DB))
    snapshot.put_pod(pod("f", on="n2", cpu=1, labels={"app": "db", "tier": "1"}))

    assert count(snapshot, Scope(HERE, DB)) == [2, 1]


def test_a_pod_that_begins_to_be_deleted_leaves_counters_of_those_who_stay() -> None:
    snapshot = cluster()
    count(snapshot, Scope(HERE, DB), terminating=False)
    snapshot.put_pod(pod("a", on="n1", labels={"app": "db"}, deleting=True))

    assert count(snapshot, Scope(HERE, DB), terminating=False) == [0, 0]
    assert count(snapshot, Scope(HERE, DB), terminating=True) == [2, 0]


def test_many_pods_are_added_at_once() -> None:
    snapshot = cluster()
    counter = snapshot.counters.counter((Scope(HERE, DB),), terminating=True)
    pod_class = snapshot.pods["default/a"].pod_class
    snapshot.counters.added_many(pod_class, np.array([0, 1]), np.array([3, 4]))

    assert (counter.column.data[:2].tolist(), counter.total) == ([5, 4], 9)


def test_counters_that_are_forgotten_count_again(monkeypatch) -> None:
    """Only so many questions are kept; one more and all are asked anew."""
    monkeypatch.setattr(pod_counters, "_COUNTERS_LIMIT", 2)
    snapshot = cluster()
    for app in ("db", "web", "none", "db", "web"):
        scope = Scope(HERE, selecting({"app": app}))
        snapshot.put_pod(pod(f"{app}-more", on="n2", labels={"app": app}))
        assert count(snapshot, scope)[1] >= 1

    assert miscounted(snapshot) == []


@given(seeds)
@lean(60)
def test_counters_equal_a_count_from_scratch(seed) -> None:
    snapshot, _ = lived_through(seed, changes=200)

    assert miscounted(snapshot) == []
