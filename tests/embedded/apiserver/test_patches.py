"""The algebra of patches, and the rules of the strategic one."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.embedded.apiserver import patches
from tonnage.embedded.apiserver.refusals import ApiRefusal

KEYS = st.sampled_from(["a", "b", "c"])
SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.text("xy", max_size=2)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=3)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return value


@given(DOCUMENTS, DOCUMENTS)
def test_a_merge_done_twice_is_a_merge_done_once(target: Any, patch: Any) -> None:
    once = patches.merged(target, patch)
    assert patches.merged(once, patch) == once


@given(DOCUMENTS, DOCUMENTS)
def test_a_merge_leaves_alone_what_it_was_given(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    patches.merged(target, patch)
    patches.strategically_merged(target, patch)
    patches.applied(target, patch)
    assert (target, patch) == before


@given(DOCUMENTS)
def test_a_merge_into_nothing_is_the_patch_without_its_nulls(patch: Any) -> None:
    assert patches.merged({}, patch) == without_nulls(patch)


@given(DOCUMENTS, DOCUMENTS)
def test_without_known_lists_a_strategic_merge_of_existing_objects_is_a_merge(
    target: Any, patch: Any
) -> None:
    assert patches.strategically_merged(target, patch) == patches.merged(target, patch)


@given(DOCUMENTS, KEYS, VALUES)
def test_what_a_json_patch_adds_it_can_remove(target: Any, key: str, value: Any) -> None:
    bare = {name: one for name, one in target.items() if name != key}
    added = patches.json_patched(bare, [{"op": "add", "path": f"/{key}", "value": value}])
    assert added == {**bare, key: value}
    assert patches.json_patched(added, [{"op": "remove", "path": f"/{key}"}]) == bare


PRESENT = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ([{"name": "b", "image": "2"}], [("a", "1"), ("b", "2")]),
        ([{"name": "c", "image": "3"}], [("a", "1"), ("b", "1"), ("c", "3")]),
        ([{"$patch": "delete", "name": "a"}], [("b", "1")]),
        ([{"$patch": "replace"}, {"name": "z", "image": "9"}], [("z", "9")]),
    ],
)
def test_items_of_known_lists_are_merged_by_name(
    patch: list[Any], expected: list[tuple[str, str]]
) -> None:
    result = patches.strategically_merged(PRESENT, {"containers": patch})
    assert [(one["name"], one["image"]) for one in result["containers"]] == expected


def test_an_order_puts_items_where_it_names_them() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
        "containers": [{"name": "c", "image": "3"}],
    }
    result = patches.strategically_merged(PRESENT, patch)
    assert [one["name"] for one in result["containers"]] == ["c", "a", "b"]


def test_texts_are_deleted_from_lists_of_texts() -> None:
    target = {"finalizers": ["a", "b"]}
    patch = {"$deleteFromPrimitiveList/finalizers": ["a"]}
    assert patches.strategically_merged(target, patch) == {"finalizers": ["b"]}


def test_only_the_keys_to_retain_are_left() -> None:
    target: dict[str, Any] = {"source": {"hostPath": {}, "csi": {}}}
    patch = {"source": {"$retainKeys": ["csi"], "csi": {"driver": "d"}}}
    assert patches.strategically_merged(target, patch) == {"source": {"csi": {"driver": "d"}}}


@pytest.mark.parametrize(
    ("present", "change", "key"),
    [
        ([{"containerPort": 80}], {"containerPort": 80, "name": "web"}, "containerPort"),
        ([{"port": 80}], {"port": 80, "name": "web"}, "port"),
    ],
)
def test_ports_of_containers_and_services_have_keys_of_their_own(
    present: list[Any], change: Any, key: str
) -> None:
    result = patches.strategically_merged({"ports": present}, {"ports": [change]})
    assert result["ports"] == [{key: 80, "name": "web"}]


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "remove", "path": "/absent"}],
        [{"op": "replace", "path": "/absent", "value": 1}],
        [{"op": "add", "path": "/absent/deeper", "value": 1}],
        [{"op": "add", "path": "/list/9", "value": 1}],
        [{"op": "test", "path": "/list/0", "value": 2}],
        [{"op": "move", "from": "/absent", "path": "/list"}],
        [{"op": "jump", "path": "/list"}],
        [{"op": "add", "path": "list", "value": 1}],
        [{"op": "add", "path": "/list"}],
        [{"op": "replace", "path": "", "value": 1}],
        {"op": "remove", "path": "/list"},
        ["remove"],
    ],
)
def test_a_json_patch_that_does_not_apply_is_refused(operations: Any) -> None:
    with pytest.raises(ApiRefusal):
        patches.json_patched({"list": [1]}, operations)


def test_a_json_patch_inserts_into_lists_and_appends_to_them() -> None:
    operations = [
        {"op": "add", "path": "/list/0", "value": 0},
        {"op": "add", "path": "/list/-", "value": 2},
    ]
    assert patches.json_patched({"list": [1]}, operations) == {"list": [0, 1, 2]}
