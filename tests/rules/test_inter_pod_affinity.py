"""InterPodAffinity: required rules between pods, of the newcomer and of those already there."""

import pytest

from tests.rules.asking import FITS, NEWEST, SKIPPED, answer, version
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.pods import PodAffinityTerm
from tonnage.rules.inter_pod_affinity import InterPodAffinity
from tonnage.testing.builders import HOSTNAME, ZONE, namespace, node, pod, selecting

ALONE = "UU: node(s) didn't match pod affinity rules"
APART = "U: node(s) didn't match pod anti-affinity rules"
UNWELCOME = "U: node(s) didn't satisfy existing pods anti-affinity rules"
DB = {"app": "db"}
DBS = selecting(DB)
NODES = (node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b"), node("bare"))


def to_pods(key: str = ZONE, *, selector=DBS, **rest) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=selector, **rest)


def told(asking, *others, on: str = "a1", of=NEWEST) -> str:
    return answer(InterPodAffinity(), asking, [*NODES, *others], node=on, of=of)


def db(on: str = "a1", **rest):
    return pod("db", on=on, labels=DB, **rest)


def test_a_pod_without_rules_among_pods_without_rules_is_not_looked_at() -> None:
    assert told(pod("web"), db()) == SKIPPED


@pytest.mark.parametrize(
    ("on", "key", "expected"),
    [
        pytest.param("a1", ZONE, FITS, id="on the same node"),
        pytest.param("a2", ZONE, FITS, id="on another node of the zone"),
        pytest.param("b1", ZONE, ALONE, id="not in another zone"),
        pytest.param("a2", HOSTNAME, ALONE, id="not on another node, if nodes are meant"),
        pytest.param("bare", ZONE, ALONE, id="not on a node without the label"),
    ],
)
def test_affinity_wants_a_matching_pod_near(on, key, expected) -> None:
    assert told(pod("web", near=[to_pods(key)]), db(), on=on) == expected


def test_all_terms_must_be_met_by_one_and_the_same_pod() -> None:
    terms = [to_pods(), to_pods(selector=selecting({"tier": "1"}))]
    both = pod("both", on="a1", labels={**DB, "tier": "1"})
    separate = pod("tier", on="a1", labels={"tier": "1"})

    assert told(pod("web", near=terms), both) == FITS
    assert told(pod("web", near=terms), db(), separate) == ALONE


def test_terms_of_different_keys_are_met_each_in_its_own_domain() -> None:
    terms = [to_pods(ZONE), to_pods(HOSTNAME)]

    assert told(pod("web", near=terms), db(), on="a1") == FITS
    assert told(pod("web", near=terms), db(), on="a2") == ALONE


@pytest.mark.parametrize(
    ("labels", "others", "on", "expected"),
    [
        pytest.param(DB, (), "a1", FITS, id="the first of a group that wants itself starts it"),
        pytest.param(DB, (), "bare", ALONE, id="but not on a node without the label"),
        pytest.param({"app": "web"}, (), "a1", ALONE, id="one that wants others cannot start"),
        pytest.param(DB, (db("b1"),), "a1", ALONE, id="once the group is there it is joined"),
        pytest.param(DB, (db("b1"),), "b1", FITS, id="where it is"),
        pytest.param(
            DB, (db("bare"),), "a1", FITS, id="a member on a node without the label has no place"
        ),
        pytest.param(
            DB, (db("gone"),), "a1", FITS, id="a member on a node that is gone does not count"
        ),
    ],
)
def test_a_group_starts_with_its_first_member(labels, others, on, expected) -> None:
    assert told(pod("web", labels=labels, near=[to_pods()]), *others, on=on) == expected


@pytest.mark.parametrize(
    ("on", "key", "expected"),
    [
        pytest.param("a1", ZONE, APART, id="not on the same node"),
        pytest.param("a2", ZONE, APART, id="not in the same zone"),
        pytest.param("b1", ZONE, FITS, id="in another zone"),
        pytest.param("a2", HOSTNAME, FITS, id="on another node, if nodes are meant"),
        pytest.param("bare", ZONE, FITS, id="on a node without the label"),
    ],
)
def test_anti_affinity_wants_no_matching_pod_near(on, key, expected) -> None:
    assert told(pod("web", apart=[to_pods(key)]), db(), on=on) == expected


def test_one_anti_affinity_term_is_enough_to_refuse() -> None:
    terms = [to_pods(selector=selecting({"app": "none"})), to_pods()]

    assert told(pod("web", apart=terms), db()) == APART


@pytest.mark.parametrize(
    ("on", "key", "expected"),
    [
        pytest.param("a2", ZONE, UNWELCOME, id="not in their zone"),
        pytest.param("b1", ZONE, FITS, id="in another zone"),
        pytest.param("a2", HOSTNAME, FITS, id="on another node, if nodes are meant"),
        pytest.param("bare", ZONE, FITS, id="on a node without the label"),
    ],
)
def test_pods_that_are_there_may_want_to_stay_alone(on, key, expected) -> None:
    alone = pod("alone", on="a1", apart=[to_pods(key)])

    assert told(pod("web", labels=DB), alone, on=on) == expected


def test_what_pods_that_are_there_want_near_does_not_matter_to_others() -> None:
    wanting = pod("wanting", on="a1", near=[to_pods()])

    assert told(pod("web"), wanting, on="b1") == SKIPPED


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param([db(deleting=True)], APART, id="a pod that is being deleted"),
        pytest.param([db(phase="Succeeded")], FITS, id="not one that is finished"),
        pytest.param([pod("db", labels=DB)], FITS, id="not one that waits"),
    ],
)
def test_pods_count_until_they_are_gone(others, expected) -> None:
    assert told(pod("web", apart=[to_pods()]), *others) == expected


def test_affinity_is_named_before_anti_affinity_and_that_before_the_others() -> None:
    alone = pod("alone", on="a1", apart=[to_pods(selector=selecting({"app": "web"}))])
    labels = {"app": "web"}
    far = to_pods(selector=selecting({"app": "nobody"}))

    assert told(pod("web", labels=labels, near=[far], apart=[to_pods()]), db(), alone) == ALONE
    assert told(pod("web", labels=labels, apart=[to_pods()]), db(), alone) == APART
    assert told(pod("web", labels=labels), db(), alone) == UNWELCOME


NAMESPACES = (
    namespace("default", {"team": "blue"}),
    namespace("red", {"team": "red"}),
    namespace("plain"),
)
EVERYWHERE = LabelSelector()
RED = selecting({"team": "red"})
NOT_BLUE = selecting({}, LabelRequirement(key="team", operator="NotIn", values=("blue",)))


@pytest.mark.parametrize(
    ("where", "in_namespace", "expected"),
    [
        pytest.param({}, "default", APART, id="by default the pod's own"),
        pytest.param({}, "red", FITS, id="by default no other"),
        pytest.param({"namespaces": ("red",)}, "red", APART, id="one that is named"),
        pytest.param({"namespaces": ("red",)}, "default", FITS, id="its own only if named too"),
        pytest.param({"namespace_selector": RED}, "red", APART, id="one whose labels match"),
        pytest.param({"namespace_selector": RED}, "plain", FITS, id="not one whose labels do not"),
        pytest.param({"namespace_selector": RED}, "default", FITS, id="its own only if selected"),
        pytest.param({"namespace_selector": EVERYWHERE}, "plain", APART, id="all of them"),
        pytest.param(
            {"namespace_selector": EVERYWHERE},
            "unlisted",
            APART,
            id="all of them, also one without an object",
        ),
        pytest.param(
            {"namespaces": ("plain",), "namespace_selector": RED},
            "plain",
            APART,
            id="named or selected",
        ),
        pytest.param({"namespace_selector": NOT_BLUE}, "plain", APART, id="those without a label"),
        pytest.param({"namespace_selector": NOT_BLUE}, "default", FITS, id="but not those with it"),
        pytest.param(
            {"namespace_selector": NOT_BLUE},
            "unlisted",
            FITS,
            id="one without an object is selected by nothing but everything",
        ),
    ],
)
def test_a_term_speaks_of_namespaces(where, in_namespace, expected) -> None:
    other = pod("db", namespace=in_namespace, on="a1", labels=DB)

    assert told(pod("web", apart=[to_pods(**where)]), *NAMESPACES, other) == expected


@pytest.mark.parametrize(
    ("kubernetes", "expected"),
    [
        pytest.param("1.34", APART, id="1.34"),
        pytest.param("1.35", APART, id="1.35"),
        pytest.param("1.36", APART, id="1.36"),
        pytest.param("1.37", FITS, id="1.37 has mended it"),
    ],
)
def test_selectors_of_what_is_absent_leak_into_every_namespace(kubernetes, expected) -> None:
    asking = pod("web", apart=[to_pods(namespace_selector=NOT_BLUE)])

    assert told(asking, *NAMESPACES, db(), of=version(kubernetes)) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        pytest.param({"namespaces": ("default",)}, UNWELCOME, id="by name"),
        pytest.param(
            {"namespace_selector": selecting({"team": "blue"})}, UNWELCOME, id="by labels"
        ),
        pytest.param({"namespace_selector": RED}, SKIPPED, id="not by other labels"),
        pytest.param({}, SKIPPED, id="not by default: that is their own namespace"),
    ],
)
def test_pods_of_other_namespaces_may_refuse_a_pod(where, expected) -> None:
    alone = pod("alone", namespace="red", on="a1", apart=[to_pods(**where)])

    assert told(pod("web", labels=DB), *NAMESPACES, alone) == expected


def test_a_namespace_without_an_object_has_no_labels_for_those_who_refuse() -> None:
    nothing_to_see = selecting({}, LabelRequirement(key="team", operator="DoesNotExist"))
    alone = pod("alone", on="a1", apart=[to_pods(namespace_selector=nothing_to_see)])

    assert told(pod("web", namespace="unlisted", labels=DB), *NAMESPACES, alone) == UNWELCOME


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, FITS, id="no selector matches nobody"),
        pytest.param(LabelSelector(), APART, id="an empty selector matches everybody"),
    ],
)
def test_selectors_at_their_limits(selector, expected) -> None:
    assert told(pod("web", apart=[to_pods(selector=selector)]), db()) == expected


INVALID = selecting({}, LabelRequirement(key="app", operator="Like", values=("db",)))
PROBLEM = '"Like" is not a valid label selector operator'


UNPARSABLE = (to_pods(selector=INVALID),)


@pytest.mark.parametrize(
    ("near", "apart", "detail"),
    [
        pytest.param(UNPARSABLE, (), f"requiredAffinityTerms: {PROBLEM}", id="affinity"),
        pytest.param((), UNPARSABLE, f"requiredAntiAffinityTerms: {PROBLEM}", id="anti-affinity"),
        pytest.param(
            UNPARSABLE,
            UNPARSABLE,
            f"[requiredAffinityTerms: {PROBLEM}, requiredAntiAffinityTerms: {PROBLEM}]",
            id="both",
        ),
    ],
)
def test_a_selector_that_does_not_parse_refuses_the_pod(near, apart, detail) -> None:
    asking = pod("web", near=near, apart=apart)

    assert told(asking) == f"before any node, UU: parsing pod: {detail}"


def test_a_pod_that_is_there_and_does_not_parse_refuses_nobody() -> None:
    alone = pod("alone", on="a1", apart=[to_pods(selector=INVALID), to_pods()])

    assert told(pod("web", labels=DB), alone) == SKIPPED


def test_replicas_are_told_apart_by_their_own_labels_when_a_rule_names_them() -> None:
    index = "apps.kubernetes.io/pod-index"
    first = pod("db-0", on="a1", labels={**DB, index: "0"})
    second = pod("db-1", on="b1", labels={**DB, index: "1"})
    asking = pod("web", apart=[to_pods(selector=selecting({index: "1"}))])

    assert told(asking, first, second, on="a1") == FITS
    assert told(asking, first, second, on="b1") == APART
