"""Labels of nodes as columns: selectors over all rows say what they say of each node."""

from hypothesis import given
from hypothesis import strategies as st

from tests.snapshot.histories import lean
from tonnage.objects import selectors
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.objects.storage import TopologyRequirement, TopologyTerm
from tonnage.snapshot.labels import NodeLabels
from tonnage.snapshot.rows import RowTable

KEYS = ("disk", "gen", "rack")
VALUES = ("", "1", "2", "30", "ssd", "v2")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
nodes = st.lists(labels, min_size=1, max_size=6)
requirements = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from(KEYS),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like"]),
    values=st.lists(st.sampled_from(VALUES), max_size=2).map(tuple),
)
fields = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from(["metadata.name", "metadata.name", "metadata.uid"]),
    operator=st.sampled_from(["In", "NotIn", "Exists"]),
    values=st.lists(st.sampled_from(["n0", "n1", ""]), max_size=2).map(tuple),
)
terms = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(requirements, max_size=2).map(tuple),
    match_fields=st.lists(fields, max_size=1).map(tuple),
)
node_selectors = st.builds(NodeSelector, node_selector_terms=st.lists(terms, max_size=3).map(tuple))
label_selectors = st.builds(
    LabelSelector,
    match_labels=labels,
    match_expressions=st.lists(
        st.builds(
            LabelRequirement,
            key=st.sampled_from(KEYS),
            operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
            values=st.lists(st.sampled_from(VALUES), max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)


def labelled(found: list[dict[str, str]]) -> NodeLabels:
    table = RowTable()
    columns = NodeLabels(table)
    for number, one in enumerate(found):
        columns.set(table.allocate(), f"n{number}", one)
    return columns


@given(nodes, node_selectors)
@lean(200)
def test_a_node_selector_picks_rows_as_it_picks_nodes(found, selector) -> None:
    assert labelled(found).matching_nodes(selector, by_name=True).tolist() == [
        selectors.node_matches(selector, one, f"n{number}") for number, one in enumerate(found)
    ]


@given(nodes, node_selectors)
@lean(200)
def test_without_names_field_terms_are_taken_as_true(found, selector) -> None:
    assert labelled(found).matching_nodes(selector, by_name=False).tolist() == [
        selectors.node_matches(selector, one, None) for one in found
    ]


@given(nodes, label_selectors)
@lean(200)
def test_a_label_selector_picks_rows_as_it_picks_labels(found, selector) -> None:
    valid = selectors.is_valid(selector)

    assert labelled(found).matching(selector).tolist() == [
        valid and selectors.matches(selector, one) for one in found
    ]


@given(nodes, labels)
@lean(100)
def test_equality_wants_every_label(found, wanted) -> None:
    assert labelled(found).equal(wanted).tolist() == [
        all(one.get(key) == value for key, value in wanted.items()) for one in found
    ]


@given(nodes, nodes, node_selectors)
@lean(150)
def test_answers_follow_labels_that_change(before, after, selector) -> None:
    columns = labelled(before)
    columns.matching_nodes(selector, by_name=True)
    for row, (old, new) in enumerate(zip(before, after, strict=False)):
        columns.clear(row, old)
        columns.set(row, f"n{row}", new)
    now = [*after[: len(before)], *before[len(after) :]]

    assert columns.matching_nodes(selector, by_name=True).tolist() == [
        selectors.node_matches(selector, one, f"n{number}") for number, one in enumerate(now)
    ]


def test_no_selector_picks_nothing() -> None:
    assert labelled([{}, {"disk": "ssd"}]).matching(None).tolist() == [False, False]


def test_allowed_topologies_are_one_of_terms_and_all_of_each() -> None:
    columns = labelled([{"rack": "1", "gen": "2"}, {"rack": "1"}, {"rack": "2"}])
    both = TopologyTerm(
        match_label_expressions=(
            TopologyRequirement(key="rack", values=("1",)),
            TopologyRequirement(key="gen", values=("1", "2")),
        )
    )
    second = TopologyTerm(match_label_expressions=(TopologyRequirement(key="rack", values=("2",)),))

    assert columns.allowed((both, second)).tolist() == [True, False, True]
    assert columns.allowed(()).tolist() == [True, True, True]
    assert columns.allowed((TopologyTerm(),)).tolist() == [False, False, False]
