import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.objects import selectors
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.objects.selectors import SelectorError, requirement_matches


def label_selector(*expressions, **labels):
    return LabelSelector(
        match_labels=labels,
        match_expressions=tuple(
            LabelRequirement(key=key, operator=operator, values=tuple(values))
            for key, operator, *values in expressions
        ),
    )


def requirements(given):
    return tuple(
        NodeSelectorRequirement(key=key, operator=operator, values=tuple(values))
        for key, operator, *values in given
    )


def term(*expressions, fields=()):
    return NodeSelectorTerm(
        match_expressions=requirements(expressions), match_fields=requirements(fields)
    )


def node_selector(*terms):
    return NodeSelector(node_selector_terms=terms)


@pytest.mark.parametrize(
    ("operator", "values", "absent", "equal", "different"),
    [
        ("In", ("a", "b"), False, True, False),
        ("=", ("a",), False, True, False),
        ("==", ("a",), False, True, False),
        ("NotIn", ("a", "b"), True, False, True),
        ("!=", ("a",), True, False, True),
        ("Exists", (), False, True, True),
        ("DoesNotExist", (), True, False, False),
        ("Near", ("a",), False, False, False),
    ],
)
def test_operators(operator, values, absent, equal, different):
    answers = [
        requirement_matches("k", operator, values, labels)
        for labels in ({}, {"k": "a"}, {"k": "z"})
    ]
    assert answers == [absent, equal, different]


@pytest.mark.parametrize(
    ("operator", "operand", "label", "expected"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Gt", "5", "10", True),
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        ("Lt", "5", "-4", True),
        ("Lt", "5", "+4", True),
        ("Lt", "05", "004", True),
        ("Gt", "5", "six", False),
        ("Gt", "five", "6", False),
        ("Gt", "5", "6.0", False),
        ("Gt", "5", "1_0", False),
        ("Gt", "5", " 6", False),
        ("Gt", "5", "9223372036854775807", True),
        ("Gt", "5", "9223372036854775808", False),
        ("Lt", "5", "-9223372036854775808", True),
        ("Lt", "5", "-9223372036854775809", False),
        ("Gt", "5", "", False),
    ],
)
def test_comparisons_are_of_64_bit_integers(operator, operand, label, expected):
    assert requirement_matches("k", operator, (operand,), {"k": label}) is expected


@pytest.mark.parametrize("values", [(), ("1", "2")])
def test_comparisons_take_one_operand(values):
    assert not requirement_matches("k", "Gt", values, {"k": "9"})


def test_comparisons_fail_without_the_label():
    assert not requirement_matches("k", "Lt", ("9",), {})


def test_no_selector_matches_nothing():
    assert not selectors.matches(None, {"a": "b"})


def test_an_empty_selector_matches_everything():
    assert selectors.matches(LabelSelector(), {})


def test_labels_and_expressions_must_all_hold():
    selector = label_selector(("tier", "In", "db", "cache"), ("legacy", "DoesNotExist"), app="x")
    assert selectors.matches(selector, {"app": "x", "tier": "db"})
    assert not selectors.matches(selector, {"app": "y", "tier": "db"})
    assert not selectors.matches(selector, {"app": "x", "tier": "web"})
    assert not selectors.matches(selector, {"app": "x", "tier": "db", "legacy": ""})


def test_an_empty_value_is_not_an_absent_key():
    assert selectors.matches(label_selector(a=""), {"a": ""})
    assert not selectors.matches(label_selector(a=""), {})


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (label_selector(("k", "Gt", "1")), r'^"Gt" is not a valid label selector operator$'),
        (label_selector(("k", "=", "1")), r'^"=" is not a valid label selector operator$'),
        (label_selector(("k", "In")), r"^values: Invalid value: \[\]: In needs at least one value"),
        (label_selector(("k", "NotIn")), r"NotIn needs at least one value"),
        (label_selector(("k", "Exists", "x")), r'values: Invalid value: \["x"\]: Exists takes no'),
        (label_selector(("k", "DoesNotExist", "x")), r"DoesNotExist takes no values"),
        (label_selector(("a b", "Exists")), r'^key: Invalid value: "a b": a label key is'),
        (label_selector(("", "Exists")), r'^key: Invalid value: ""'),
        (label_selector(("UP/x", "Exists")), r'^key: Invalid value: "UP/x"'),
        (label_selector(("a/b/c", "Exists")), r'^key: Invalid value: "a/b/c"'),
        (label_selector(("k", "In", "ok", "-no")), r'^values\[1\]\[k\]: Invalid value: "-no"'),
        (label_selector(k="x" * 64), r"^values\[0\]\[k\]: Invalid value"),
        (label_selector(k="x\n"), r"^values\[0\]\[k\]: Invalid value"),
        (label_selector(("-", "In")), r"^key: .*; values: "),
    ],
)
def test_an_invalid_selector_is_an_error_whatever_the_labels(selector, message):
    with pytest.raises(SelectorError, match=message):
        selectors.matches(selector, {})


@pytest.mark.parametrize(
    "selector",
    [
        None,
        label_selector(),
        label_selector(("example.com/Some_key.x", "In", "", "a-b_c.D", "x" * 63)),
        label_selector(("x" * 63, "Exists")),
    ],
)
def test_a_valid_selector_passes_the_check(selector):
    selectors.check(selector)


def test_a_key_is_shared_by_selectors_in_another_order():
    one = label_selector(("a", "In", "1", "2"), ("b", "Exists"), c="3", d="4")
    other = label_selector(("b", "Exists"), ("a", "In", "2", "1", "2"), d="4", c="3")
    assert selectors.canonical(one) == selectors.canonical(other)
    assert hash(selectors.canonical(one)) == hash(selectors.canonical(other))


def test_a_label_and_the_expression_that_means_it_share_a_key():
    assert selectors.canonical(label_selector(a="1")) == selectors.canonical(
        label_selector(("a", "In", "1"))
    )


@pytest.mark.parametrize(
    "other",
    [None, label_selector(), label_selector(("a", "NotIn", "1")), label_selector(a="2")],
)
def test_different_selectors_have_different_keys(other):
    assert selectors.canonical(label_selector(a="1")) != selectors.canonical(other)


def test_no_selector_and_an_empty_one_have_different_keys():
    assert selectors.canonical(None) != selectors.canonical(LabelSelector())


ZONE_A = {"zone": "a", "cpus": "8"}


@pytest.mark.parametrize(
    ("why", "terms", "expected"),
    [
        ("no terms", [], False),
        ("an empty term", [term()], False),
        ("one term", [term(("zone", "In", "a"))], True),
        ("terms are alternatives", [term(("zone", "In", "b")), term(("cpus", "Gt", "4"))], True),
        ("expressions are not", [term(("zone", "In", "a"), ("cpus", "Gt", "8"))], False),
        ("empty beside a match", [term(), term(("zone", "Exists"))], True),
        ("invalid beside a match", [term(("zone", "In")), term(("zone", "Exists"))], True),
        ("invalid alone", [term(("zone", "NotIn"))], False),
        ("one invalid expression spoils all", [term(("zone", "Exists"), ("x", "NotIn"))], False),
        ("invalid key", [term(("a b", "DoesNotExist"))], False),
        ("invalid value", [term(("zone", "NotIn", "-b"))], False),
        ("unknown operator", [term(("zone", "Near", "a"))], False),
        ("equality is no operator of a term", [term(("zone", "=", "a"))], False),
        ("two operands", [term(("cpus", "Gt", "1", "2"))], False),
        ("operand of no integer", [term(("cpus", "Gt", "one"))], False),
        ("negative operand is no label value", [term(("cpus", "Gt", "-1"))], False),
    ],
)
def test_terms_of_a_node_selector(why, terms, expected):
    assert selectors.node_matches(node_selector(*terms), ZONE_A, "n1") is expected, why


@pytest.mark.parametrize(
    ("why", "fields", "named", "nameless"),
    [
        ("this node", [("metadata.name", "In", "n1")], True, True),
        ("another node", [("metadata.name", "In", "n2")], False, True),
        ("not this node", [("metadata.name", "NotIn", "n1")], False, True),
        ("not another node", [("metadata.name", "NotIn", "n2")], True, True),
        ("both", [("metadata.name", "In", "n1"), ("metadata.name", "In", "n2")], False, True),
        ("two names", [("metadata.name", "In", "n1", "n2")], False, False),
        ("no name", [("metadata.name", "NotIn")], False, False),
        ("other operator", [("metadata.name", "Exists")], False, False),
        ("no such field", [("spec.x", "In", "n1")], False, True),
        ("no such field, negated", [("spec.x", "NotIn", "n1")], True, True),
    ],
)
def test_fields_are_ignored_for_a_nameless_node_unless_invalid(why, fields, named, nameless):
    selector = node_selector(term(fields=fields))
    assert selectors.node_matches(selector, {}, "n1") is named, why
    assert selectors.node_matches(selector, {}, None) is nameless, why
    assert selectors.node_matches(selector, {}, "") is nameless, why


def test_fields_and_expressions_of_a_term_must_both_hold():
    selector = node_selector(term(("zone", "In", "a"), fields=[("metadata.name", "In", "n1")]))
    assert selectors.node_matches(selector, ZONE_A, "n1")
    assert not selectors.node_matches(selector, {}, "n1")
    assert not selectors.node_matches(selector, ZONE_A, "n2")


KEYS = st.sampled_from(["a", "b", "example.com/c", "bad key"])
VALUES = st.sampled_from(["", "1", "2", "x", "-bad"])
LABELS = st.dictionaries(KEYS, VALUES)
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
EXPRESSIONS = st.lists(
    st.builds(lambda k, o, v: (k, o, *v), KEYS, OPERATORS, st.lists(VALUES, max_size=2)),
    max_size=3,
)
TERMS = st.lists(EXPRESSIONS.map(lambda e: term(*e)), max_size=3)


@given(VALUES, st.lists(VALUES, min_size=1))
def test_not_in_negates_in_where_the_key_exists(label, values):
    answers = {
        requirement_matches("k", operator, tuple(values), {"k": label})
        for operator in ("In", "NotIn")
    }
    assert answers == {True, False}


@given(LABELS, KEYS)
def test_does_not_exist_negates_exists(labels, key):
    assert requirement_matches(key, "Exists", (), labels) != requirement_matches(
        key, "DoesNotExist", (), labels
    )


@given(EXPRESSIONS, EXPRESSIONS, LABELS)
def test_selectors_that_share_a_key_match_alike(one, other, labels):
    def answer(expressions):
        try:
            return selectors.matches(label_selector(*expressions), labels)
        except SelectorError:
            return None

    shuffled = [(key, operator, *reversed(values)) for key, operator, *values in reversed(one)]
    if selectors.canonical(label_selector(*one)) == selectors.canonical(label_selector(*shuffled)):
        assert answer(one) == answer(shuffled)
    if selectors.canonical(label_selector(*one)) == selectors.canonical(label_selector(*other)):
        assert answer(one) == answer(other)


@given(TERMS, LABELS)
def test_a_node_selector_matches_when_one_of_its_terms_does(terms, labels):
    whole = selectors.node_matches(node_selector(*terms), labels, "n")
    assert whole == any(selectors.node_matches(node_selector(t), labels, "n") for t in terms)


@given(TERMS, st.randoms(use_true_random=False), LABELS)
def test_the_order_of_terms_changes_no_answer(terms, random, labels):
    shuffled = random.sample(terms, k=len(terms))
    one, other = node_selector(*terms), node_selector(*shuffled)
    assert selectors.node_matches(one, labels, "n") == selectors.node_matches(other, labels, "n")


def test_what_large_selectors_hold_is_not_kept_for_ever():
    def check(number):
        values = [f"value-{number}-{index}" for index in range(2000)]
        selectors.check(label_selector(("key", "In", *values)))
        assert selectors.valid_term(term(("key", "In", *values)))

    for number in range(20):
        check(number)
    tracemalloc.start()
    try:
        for number in range(20, 60):
            check(number)
        assert tracemalloc.get_traced_memory()[0] < 4 << 20
    finally:
        tracemalloc.stop()
