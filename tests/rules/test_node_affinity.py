"""NodeAffinity: node selectors, required terms, and names that narrow the search."""

import pytest

from tests.rules.asking import FITS, SKIPPED, answer, verdict, verdicts
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.rules.node_affinity import NodeAffinityRule
from tonnage.testing.builders import node, nodes_with, pod

REFUSED = "UU: node(s) didn't match Pod's node affinity/selector"
CONFLICT = "before any node, UU: pod affinity terms conflict"
LEFT_OUT = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


def needs(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def named(*names: str, operator: str = "In") -> NodeSelectorRequirement:
    return needs("metadata.name", operator, *names)


def term(*labels: NodeSelectorRequirement, fields=()) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=labels, match_fields=tuple(fields))


def selector(*terms: NodeSelectorTerm) -> NodeSelector:
    return NodeSelector(node_selector_terms=terms)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({"disk": "ssd"}, FITS, id="the label has the value"),
        pytest.param({"disk": "hdd"}, REFUSED, id="the label has another value"),
        pytest.param({}, REFUSED, id="the label is not there"),
    ],
)
def test_a_node_selector_wants_equal_labels(labels, expected) -> None:
    asking = pod("web", node_selector={"disk": "ssd"})

    assert answer(NodeAffinityRule(), asking, [node("n1", labels=labels)]) == expected


def test_every_pair_of_a_node_selector_must_hold() -> None:
    asking = pod("web", node_selector={"disk": "ssd", "gen": "5"})

    assert answer(NodeAffinityRule(), asking, [node("n1", labels={"disk": "ssd"})]) == REFUSED


def test_a_pod_without_selector_and_affinity_is_not_looked_at() -> None:
    assert answer(NodeAffinityRule(), pod("web"), [node("n1")]) == SKIPPED


@pytest.mark.parametrize(
    ("operator", "values", "label", "expected"),
    [
        pytest.param("In", ("a", "b"), "b", FITS, id="In: one of the values"),
        pytest.param("In", ("a", "b"), "c", REFUSED, id="In: another value"),
        pytest.param("In", ("a",), None, REFUSED, id="In: no label"),
        pytest.param("NotIn", ("a", "b"), "c", FITS, id="NotIn: another value"),
        pytest.param("NotIn", ("a", "b"), "a", REFUSED, id="NotIn: one of the values"),
        pytest.param("NotIn", ("a",), None, FITS, id="NotIn: no label is another value too"),
        pytest.param("Exists", (), "", FITS, id="Exists: an empty value is a value"),
        pytest.param("Exists", (), None, REFUSED, id="Exists: no label"),
        pytest.param("DoesNotExist", (), None, FITS, id="DoesNotExist: no label"),
        pytest.param("DoesNotExist", (), "a", REFUSED, id="DoesNotExist: a label"),
        pytest.param("Gt", ("4",), "5", FITS, id="Gt: 5 is greater than 4"),
        pytest.param("Gt", ("5",), "5", REFUSED, id="Gt: 5 is not greater than 5"),
        pytest.param("Lt", ("6",), "5", FITS, id="Lt: 5 is less than 6"),
        pytest.param("Lt", ("5",), "5", REFUSED, id="Lt: 5 is not less than 5"),
        pytest.param("Gt", ("4",), "v5", REFUSED, id="Gt: a label that is no number"),
        pytest.param("Gt", ("four",), "5", REFUSED, id="Gt: an operand that is no number"),
        pytest.param("Gt", ("4",), None, REFUSED, id="Gt: no label"),
        pytest.param("Gt", ("1", "2"), "5", REFUSED, id="Gt: two operands are one too many"),
        pytest.param("Like", ("a",), "a", REFUSED, id="an operator nobody knows matches nothing"),
        pytest.param("In", (), "a", REFUSED, id="In: no values match nothing"),
        pytest.param("Exists", ("a",), "a", REFUSED, id="Exists: a value is one too many"),
    ],
)
def test_an_operator_compares_a_label(operator, values, label, expected) -> None:
    asking = pod("web", node_affinity=selector(term(needs("x", operator, *values))))
    labels = {} if label is None else {"x": label}

    assert answer(NodeAffinityRule(), asking, [node("n1", labels=labels)]) == expected


ON_SSD = node("n1", labels={"disk": "ssd"})


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        pytest.param(
            selector(term(needs("disk", "In", "hdd")), term(needs("disk", "In", "ssd"))),
            FITS,
            id="one term that matches is enough",
        ),
        pytest.param(
            selector(term(needs("disk", "In", "ssd"), needs("gen", "Exists"))),
            REFUSED,
            id="all requirements of a term must hold",
        ),
        pytest.param(selector(), REFUSED, id="no terms match nothing"),
        pytest.param(selector(term()), REFUSED, id="an empty term matches nothing"),
        pytest.param(
            selector(term(), term(needs("disk", "Exists"))),
            FITS,
            id="an empty term does not stand in the way of another",
        ),
        pytest.param(
            selector(term(needs("disk", "Like", "ssd")), term(needs("disk", "In", "ssd"))),
            FITS,
            id="a term that does not parse does not stand in the way of another",
        ),
        pytest.param(
            selector(term(needs("disk", "In", "ssd"), fields=[named("n2", operator="NotIn")])),
            FITS,
            id="a name that is not excluded",
        ),
        pytest.param(
            selector(term(needs("disk", "In", "ssd"), fields=[named("n1", operator="NotIn")])),
            REFUSED,
            id="a name that is excluded",
        ),
        pytest.param(
            selector(term(fields=[named("n1", "n2")])),
            REFUSED,
            id="two names in one field are one too many",
        ),
        pytest.param(
            selector(term(fields=[needs("metadata.uid", "In", "x")])),
            REFUSED,
            id="there is no other field than the name",
        ),
        pytest.param(
            selector(term(fields=[named("n1"), named("n2")])),
            CONFLICT,
            id="a term that names two nodes at once names none",
        ),
        pytest.param(
            selector(term(fields=[named("n1"), named("n2")]), term(fields=[named("n1")])),
            FITS,
            id="a term without names left does not matter beside one with names",
        ),
    ],
)
def test_required_terms_pick_nodes(affinity, expected) -> None:
    asking = pod("web", node_affinity=affinity)

    assert answer(NodeAffinityRule(), asking, [ON_SSD, node("n2")]) == expected


def test_selector_and_affinity_must_both_hold() -> None:
    asking = pod("web", node_selector={"gen": "5"}, node_affinity=nodes_with("disk", "ssd"))

    assert answer(NodeAffinityRule(), asking, [ON_SSD]) == REFUSED


def test_nodes_outside_the_named_ones_are_left_out_before_filtering() -> None:
    asking = pod("web", node_affinity=selector(term(fields=[named("n2")])))
    left_out = verdict(asking, [node("n1", unschedulable=True), node("n2")])

    assert (left_out.phase, left_out.plugin) == ("PreFilter", "NodeAffinity")
    assert left_out.texts == [LEFT_OUT]


def test_the_named_node_is_filtered_like_any_other() -> None:
    asking = pod("web", node_affinity=selector(term(fields=[named("n2")])))
    refused = verdict(asking, [node("n1"), node("n2", unschedulable=True)], node="n2")

    assert (refused.phase, refused.plugin) == ("Filter", "NodeUnschedulable")


def test_the_named_node_must_still_have_the_labels_of_its_term() -> None:
    asking = pod("web", node_affinity=selector(term(needs("gen", "Exists"), fields=[named("n1")])))

    assert verdict(asking, [ON_SSD]).texts == ["node(s) didn't match Pod's node affinity/selector"]


def test_names_of_several_terms_add_up() -> None:
    affinity = selector(term(fields=[named("n1")]), term(fields=[named("n2")]))
    found = verdicts(pod("web", node_affinity=affinity), [node("n1"), node("n2"), node("n3")])

    assert [(one.node, str(one.code)) for one in found] == [
        ("n1", "Success"),
        ("n2", "Success"),
        ("n3", "UnschedulableAndUnresolvable"),
    ]


def test_a_term_without_a_name_undoes_the_narrowing() -> None:
    affinity = selector(term(fields=[named("n1")]), term(needs("disk", "In", "hdd")))
    refused = verdict(pod("web", node_affinity=affinity), [ON_SSD, node("n2")], node="n2")

    assert refused.phase == "Filter"


def test_a_name_that_no_node_has_leaves_out_all_nodes() -> None:
    asking = pod("web", node_affinity=selector(term(fields=[named("gone")])))

    assert [one.texts for one in verdicts(asking, [node("n1"), node("n2")])] == [[LEFT_OUT]] * 2


def test_pods_pinned_to_different_nodes_are_told_apart_though_of_one_class() -> None:
    nodes = [node("n1"), node("n2")]
    pinned = [
        pod(f"daemon-{name}", node_affinity=selector(term(fields=[named(name)])))
        for name in ("n1", "n2")
    ]
    fitting = [[one.node for one in verdicts(one, nodes) if not one.reasons] for one in pinned]

    assert fitting == [["n1"], ["n2"]]


def test_names_of_node_and_affinity_must_agree() -> None:
    asking = pod("web", on="n1", node_affinity=selector(term(fields=[named("n2")])))
    refused = verdict(asking, [node("n1"), node("n2")])

    assert (refused.phase, refused.texts) == (
        "PreFilter",
        ["node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously"],
    )
