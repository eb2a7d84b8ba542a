"""PodTopologySpread: how uneven matching pods may be spread over the values of a node label."""

import pytest

from tests.rules.asking import FITS, SKIPPED, answer, reasons
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import Toleration, TopologySpreadConstraint
from tonnage.rules.causes import Cause
from tonnage.rules.pod_topology_spread import PodTopologySpread
from tonnage.testing.builders import HOSTNAME, ZONE, node, nodes_with, pod, selecting

SKEWED = "U: node(s) didn't match pod topology spread constraints"
UNLABELLED = "UU: node(s) didn't match pod topology spread constraints (missing required label)"
DB = {"app": "db"}
DBS = selecting(DB)


def spread(key: str = ZONE, *, skew: int = 1, selector=DBS, **rest):
    return TopologySpreadConstraint(
        max_skew=skew, topology_key=key, label_selector=selector, **rest
    )


def wanting(*constraints: TopologySpreadConstraint, labels=DB, **rest):
    return pod("web", labels=labels, spread=constraints, **rest)


def running(counts: dict[str, int], *, labels=DB, **rest):
    return [
        pod(f"db-{name}-{number}", on=name, labels=labels, **rest)
        for name, count in counts.items()
        for number in range(count)
    ]


ZONES = (node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b"))


def test_a_pod_without_constraints_is_not_looked_at() -> None:
    assert answer(PodTopologySpread(), pod("web"), ZONES, node="a1") == SKIPPED


def test_a_soft_constraint_refuses_nobody() -> None:
    soft = spread(when_unsatisfiable="ScheduleAnyway")

    assert answer(PodTopologySpread(), wanting(soft), ZONES, node="a1") == SKIPPED


@pytest.mark.parametrize(
    ("counts", "skew", "on", "expected"),
    [
        pytest.param({}, 1, "a1", FITS, id="the first pod goes anywhere"),
        pytest.param({"a1": 1}, 1, "a2", SKEWED, id="the second does not go to the same zone"),
        pytest.param({"a1": 1}, 1, "b1", FITS, id="but to the other"),
        pytest.param({"a1": 1}, 2, "a2", FITS, id="with a skew of two it may go to the same"),
        pytest.param({"a1": 1, "a2": 1}, 2, "a1", SKEWED, id="nodes of a zone add up"),
        pytest.param({"a1": 2, "b1": 1}, 2, "a1", FITS, id="the emptiest zone is what counts"),
        pytest.param({"a1": 5, "b1": 5}, 1, "b1", FITS, id="even is even, however many"),
    ],
)
def test_zones_stay_within_the_skew(counts, skew, on, expected) -> None:
    asking = wanting(spread(skew=skew))

    assert answer(PodTopologySpread(), asking, [*ZONES, *running(counts)], node=on) == expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param(running({"a1": 1}), SKEWED, id="a matching pod"),
        pytest.param(
            running({"a1": 1}, labels={"app": "web"}), FITS, id="not one that does not match"
        ),
        pytest.param(
            running({"a1": 1}, namespace="other"), FITS, id="not one of another namespace"
        ),
        pytest.param(running({"a1": 1}, deleting=True), FITS, id="not one that is being deleted"),
        pytest.param(running({"a1": 1}, phase="Failed"), FITS, id="not one that is finished"),
        pytest.param(running({"gone": 1}), FITS, id="not one on a node that is gone"),
    ],
)
def test_some_pods_count(others, expected) -> None:
    assert answer(PodTopologySpread(), wanting(spread()), [*ZONES, *others], node="a1") == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(selecting(DB), SKEWED, id="one that matches"),
        pytest.param(
            LabelSelector(), FITS, id="an empty one counts nobody, though it matches everybody"
        ),
        pytest.param(None, FITS, id="none counts nobody"),
        pytest.param(
            selecting({}, LabelRequirement(key="app", operator="Exists")),
            SKEWED,
            id="an expression",
        ),
    ],
)
def test_a_selector_picks_the_pods(selector, expected) -> None:
    asking = wanting(spread(selector=selector))
    others = running({"a1": 1})

    assert answer(PodTopologySpread(), asking, [*ZONES, *others], node="a1") == expected


def test_a_pod_that_does_not_match_its_own_selector_adds_nothing() -> None:
    asking = wanting(spread(), labels={"app": "web"})

    assert answer(PodTopologySpread(), asking, [*ZONES, *running({"a1": 1})], node="a1") == FITS


def test_an_empty_selector_matches_the_pod_itself() -> None:
    """It counts no other pod, so only a skew below one can refuse; upstream has no such skew."""
    asking = wanting(spread(selector=LabelSelector(), skew=0))

    assert answer(PodTopologySpread(), asking, ZONES, node="a1") == SKEWED


def test_a_node_without_the_label_is_refused_for_good() -> None:
    assert answer(PodTopologySpread(), wanting(spread()), [*ZONES, node("bare")], node="bare") == (
        UNLABELLED
    )


def test_a_domain_without_pods_is_a_domain() -> None:
    objects = [*ZONES, node("c1", zone="c"), *running({"a1": 1, "b1": 1})]

    assert answer(PodTopologySpread(), wanting(spread()), objects, node="a1") == SKEWED


def test_a_node_must_have_the_labels_of_all_constraints_to_count() -> None:
    """The pod on the node without a rack is not seen by the constraint on zones either."""
    racks = [
        node("a1", zone="a", labels={"rack": "1"}),
        node("b1", zone="b", labels={"rack": "2"}),
        node("a2", zone="a"),
    ]
    asking = wanting(spread(), spread("rack"))

    assert answer(PodTopologySpread(), asking, [*racks, *running({"a2": 1})], node="a1") == FITS
    assert answer(
        PodTopologySpread(), wanting(spread()), [*racks, *running({"a2": 1})], node="a1"
    ) == (SKEWED)


def test_every_constraint_must_hold() -> None:
    asking = wanting(spread(skew=5), spread(HOSTNAME))

    assert answer(PodTopologySpread(), asking, [*ZONES, *running({"a1": 1})], node="a1") == SKEWED
    assert answer(PodTopologySpread(), asking, [*ZONES, *running({"a1": 1})], node="a2") == FITS


def test_constraints_are_asked_in_order() -> None:
    asking = wanting(spread("rack"), spread())
    objects = [*ZONES, *running({"a1": 1})]

    assert answer(PodTopologySpread(), asking, objects, node="a1") == UNLABELLED
    (reason,) = reasons(PodTopologySpread(), asking, objects, node="a1")
    assert (reason.cause, reason.facts) == (Cause.SPREAD_LABEL_MISSING, {"key": "rack"})


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        pytest.param(2, FITS, id="as many domains as wanted"),
        pytest.param(3, SKEWED, id="fewer domains than wanted: the emptiest is as if empty"),
    ],
)
def test_too_few_domains_count_as_an_empty_one(least, expected) -> None:
    asking = wanting(spread(min_domains=least))
    objects = [*ZONES, *running({"a1": 1, "b1": 1})]

    assert answer(PodTopologySpread(), asking, objects, node="a1") == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(None, FITS, id="by default they are not domains"),
        pytest.param("Honor", FITS, id="Honor: they are not domains"),
        pytest.param("Ignore", SKEWED, id="Ignore: they are, and empty"),
    ],
)
def test_nodes_the_pod_has_no_affinity_for(policy, expected) -> None:
    asking = wanting(spread(node_affinity_policy=policy), node_affinity=nodes_with(ZONE, "a"))
    objects = [*ZONES, *running({"a1": 1})]

    assert answer(PodTopologySpread(), asking, objects, node="a1") == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(None, FITS, id="by default they are not domains"),
        pytest.param("Ignore", SKEWED, id="Ignore: they are, and empty"),
    ],
)
def test_nodes_the_pod_does_not_select(policy, expected) -> None:
    asking = wanting(spread(node_affinity_policy=policy), node_selector={ZONE: "a"})
    objects = [*ZONES, *running({"a1": 1})]

    assert answer(PodTopologySpread(), asking, objects, node="a1") == expected


TAINTED = (
    node("a1", zone="a"),
    node("b1", zone="b", taints=[Taint(key="dedicated", effect="NoSchedule")]),
)
TOLERATING = Toleration(key="dedicated", operator="Exists")


@pytest.mark.parametrize(
    ("policy", "tolerations", "expected"),
    [
        pytest.param(None, (), SKEWED, id="by default they are domains, and empty"),
        pytest.param("Ignore", (), SKEWED, id="Ignore: they are domains"),
        pytest.param("Honor", (), FITS, id="Honor: they are not"),
        pytest.param(
            "Honor", (TOLERATING,), SKEWED, id="Honor: they are if their taints are tolerated"
        ),
    ],
)
def test_nodes_with_taints(policy, tolerations, expected) -> None:
    asking = wanting(spread(node_taints_policy=policy), tolerations=tolerations)
    objects = [*TAINTED, *running({"a1": 1})]

    assert answer(PodTopologySpread(), asking, objects, node="a1") == expected


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        pytest.param({"rev": "2"}, {"rev": "1"}, FITS, id="pods with another value do not count"),
        pytest.param({"rev": "2"}, {"rev": "2"}, SKEWED, id="pods with the same value do"),
        pytest.param({}, {"rev": "1"}, SKEWED, id="a key the pod does not have is passed over"),
    ],
)
def test_match_label_keys_narrow_the_selector_to_the_pods_own_values(own, others, expected) -> None:
    asking = wanting(spread(match_label_keys=("rev",)), labels={**DB, **own})
    objects = [*ZONES, *running({"a1": 1}, labels={**DB, **others})]

    assert answer(PodTopologySpread(), asking, objects, node="a1") == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("apps.kubernetes.io/pod-index", FITS, id="by a selector that names the label"),
        pytest.param("other", SKEWED, id="not by one that does not"),
    ],
)
def test_replicas_are_told_apart_by_their_own_labels_when_asked(key, expected) -> None:
    label = "apps.kubernetes.io/pod-index"
    selector = selecting(DB, LabelRequirement(key=key, operator="NotIn", values=("1",)))
    asking = wanting(spread(selector=selector))
    objects = [*ZONES, *running({"a1": 1}, labels={**DB, label: "1"})]

    assert answer(PodTopologySpread(), asking, objects, node="a1") == expected


def test_a_selector_that_does_not_parse_is_an_error() -> None:
    invalid = selecting({}, LabelRequirement(key="app", operator="Like", values=("db",)))
    found = answer(PodTopologySpread(), wanting(spread(selector=invalid)), ZONES, node="a1")

    assert found == (
        "before any node, E: get constraints from pod: obtaining pod's hard topology spread"
        ' constraints: "Like" is not a valid label selector operator'
    )


def test_a_skew_comes_with_its_numbers() -> None:
    objects = [*ZONES, *running({"a1": 2, "b1": 1})]
    (reason,) = reasons(PodTopologySpread(), wanting(spread()), objects, node="a2")

    assert reason.cause is Cause.SPREAD_SKEW
    assert reason.facts == {"key": ZONE, "count": 2, "smallest": 1, "limit": 1}
