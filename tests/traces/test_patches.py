"""Differences of trees, and what becomes of those that nobody here has made."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.traces import patches

TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b/c", "~", "~1", "0", "-", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(before=TREES, after=TREES)
def test_a_difference_makes_the_one_out_of_the_other(before: Any, after: Any) -> None:
    made = patches.patched(before, patches.difference(before, after))
    assert repr(made) == repr(after) or made == after


@settings(max_examples=50, deadline=None)
@given(tree=TREES)
def test_equal_trees_have_no_difference(tree: Any) -> None:
    assert patches.difference(tree, tree) == []


def test_only_what_changed_is_in_it() -> None:
    before = {"spec": {"replicas": 1, "x": [1, 2]}, "status": {"ready": 0}}
    after = {"spec": {"replicas": 3, "x": [1, 2, 3]}, "status": {"ready": 0}}
    assert patches.difference(before, after) == [
        {"op": "replace", "path": "/spec/replicas", "value": 3},
        {"op": "add", "path": "/spec/x/-", "value": 3},
    ]


def test_the_old_tree_stays_as_it_was() -> None:
    before = {"a": [{"b": 1}]}
    patches.patched(before, [{"op": "replace", "path": "/a/0/b", "value": 2}])
    assert before == {"a": [{"b": 1}]}


@pytest.mark.parametrize(
    "operations",
    [
        "no list",
        [3],
        [{"op": "replace", "value": 1}],
        [{"op": "move", "path": "/a", "from": "/b"}],
        [{"op": "replace", "path": "/a"}],
        [{"op": "remove", "path": ""}],
        [{"op": "remove", "path": "/missing"}],
        [{"op": "replace", "path": "/a/0/b", "value": 1}],
        [{"op": "add", "path": "/list/9", "value": 1}],
        [{"op": "remove", "path": "/list/-"}],
        [{"op": "replace", "path": f"/list/{'9' * 400}", "value": 1}],
        [{"op": "replace", "path": "/list/²", "value": 1}],
    ],
)
def test_what_cannot_be_done_is_an_error(operations: Any) -> None:
    with pytest.raises(InputError):
        patches.patched({"a": 1, "list": [1]}, operations)
