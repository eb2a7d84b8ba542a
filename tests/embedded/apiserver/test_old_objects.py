"""Objects that nobody has touched for long are kept as JSON only, and nobody notices."""

import json

import pytest

from tests.embedded.apiserver.requests import CONFIG_MAPS, MERGE, Api

MANY = 4200


@pytest.fixture(scope="module")
def api() -> Api:
    """One config map, and thousands that came after it."""
    found = Api()
    found.create(CONFIG_MAPS, "old", metadata={"labels": {"age": "old"}}, data={"a": "1"})
    for number in range(MANY):
        found.create(CONFIG_MAPS, f"new-{number}")
    return found


def test_an_old_object_is_found_by_its_labels(api: Api) -> None:
    assert api.names(CONFIG_MAPS, labelSelector="age=old") == ["old"]


def test_an_old_object_is_found_by_its_fields(api: Api) -> None:
    assert api.names(CONFIG_MAPS, fieldSelector="metadata.name=old") == ["old"]


def test_a_change_of_an_old_object_leaves_the_rest_of_it_alone(api: Api) -> None:
    change = {"data": {"b": "2"}}
    found = api.good("PATCH", f"{CONFIG_MAPS}/old", change, content_type=MERGE)
    assert (found["data"], found["metadata"]["labels"]) == ({"a": "1", "b": "2"}, {"age": "old"})


def test_a_patch_of_an_old_object_that_changes_nothing_makes_no_version(api: Api) -> None:
    name = f"{CONFIG_MAPS}/new-0"
    before = api.ask("GET", name).body
    assert api.ask("PATCH", name, {"metadata": {}}, content_type=MERGE).body == before
    assert json.loads(before) == api.get(name)
