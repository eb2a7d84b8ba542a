"""Objects that outlive the process."""

from pathlib import Path

import pytest

from tests.embedded.apiserver.requests import BUDGETS, CONFIG_MAPS, CORE, MERGE, PODS, Api, owner
from tonnage.embedded.apiserver import journal
from tonnage.errors import InputError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cluster.jsonl"


def restarted(api: Api, path: Path) -> Api:
    """As after a crash: nothing is written at the end that was not written before."""
    api.server.close()
    return Api(data=path, seed=2)


def test_objects_are_there_after_a_restart_as_they_were(path: Path) -> None:
    api = Api(data=path)
    api.create(CONFIG_MAPS, "kept", data={"a": "1"})
    api.create(CONFIG_MAPS, "deleted")
    api.good("PATCH", f"{CONFIG_MAPS}/kept", {"data": {"a": "2"}}, content_type=MERGE)
    api.good("DELETE", f"{CONFIG_MAPS}/deleted")
    before = api.get(f"{CONFIG_MAPS}/kept")
    again = restarted(api, path)
    assert again.names(CONFIG_MAPS) == ["kept"]
    assert again.get(f"{CONFIG_MAPS}/kept") == before


def test_versions_go_on_where_they_were(path: Path) -> None:
    api = Api(data=path)
    api.create(CONFIG_MAPS, "one")
    api.good("DELETE", f"{CONFIG_MAPS}/one")
    last = int(api.get(CONFIG_MAPS)["metadata"]["resourceVersion"])
    again = restarted(api, path)
    made = again.create(CONFIG_MAPS, "two")
    assert int(made["metadata"]["resourceVersion"]) == last + 1


def test_owners_and_budgets_are_known_after_a_restart(path: Path) -> None:
    api = Api(data=path)
    boss = api.create(CONFIG_MAPS, "boss")
    api.create(CONFIG_MAPS, "owned", metadata={"ownerReferences": [owner(boss)]})
    api.pod("p", ready=True, metadata={"labels": {"app": "db"}})
    selector = {"matchLabels": {"app": "db"}}
    api.create(BUDGETS, "guard", spec={"minAvailable": 1, "selector": selector})
    again = restarted(api, path)
    again.good("DELETE", f"{CONFIG_MAPS}/boss")
    assert again.names(CONFIG_MAPS) == []
    assert again.refused("POST", f"{PODS}/p/eviction", {}) == (429, "TooManyRequests")


def test_kinds_of_ones_own_are_served_after_a_restart(path: Path) -> None:
    api = Api(data=path)
    spec = {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.create(definitions, "widgets.example.com", spec=spec)
    api.create("/apis/example.com/v1/widgets", "one", spec={"size": 1})
    again = restarted(api, path)
    assert again.get("/apis/example.com/v1/widgets/one")["spec"] == {"size": 1}


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_line_that_a_crash_cut_short_is_as_if_never_written(path: Path, cut: int) -> None:
    api = Api(data=path)
    api.create(CONFIG_MAPS, "one")
    api.create(CONFIG_MAPS, "two")
    api.server.close()
    path.write_bytes(path.read_bytes()[:-cut])
    assert Api(data=path).names(CONFIG_MAPS) == ["one"]


def test_a_damaged_line_is_set_apart_and_named(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Api(data=path).server.close()
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"garbage", *lines[1:]]))
    Api(data=path).server.close()
    assert path.with_name(f"{path.name}.left-out").read_text() == "garbage\n"
    assert [record.__dict__["why"].partition(":")[0] for record in caplog.records] == ["line 2"]


def test_a_file_of_something_else_is_not_touched(path: Path) -> None:
    path.write_text("{}\n")
    with pytest.raises(InputError, match="not the data of an embedded cluster"):
        Api(data=path)
    assert path.read_text() == "{}\n"


def test_one_process_at_a_time_keeps_a_file(path: Path) -> None:
    api = Api(data=path)
    with pytest.raises(InputError, match="another embedded cluster is using this file"):
        Api(data=path)
    api.server.close()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        Api(data=tmp_path / "nowhere" / "cluster.jsonl")


def test_a_file_does_not_grow_with_what_is_past(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_SLACK", 10)
    api = Api(data=path)
    api.create(CONFIG_MAPS, "one")
    for number in range(100):
        change = {"data": {"n": str(number)}}
        api.good("PATCH", f"{CONFIG_MAPS}/one", change, content_type=MERGE)
    assert len(path.read_bytes().splitlines()) < 40
    again = restarted(api, path)
    assert again.get(f"{CONFIG_MAPS}/one")["data"] == {"n": "99"}


def test_the_namespaces_of_every_cluster_are_made_once(path: Path) -> None:
    api = Api(data=path)
    before = api.get(f"{CORE}/namespaces/default")
    assert restarted(api, path).get(f"{CORE}/namespaces/default") == before


def test_what_is_restored_is_kept_as_json_alone(path: Path) -> None:
    """Trees take ten times the room; they are made for those that are looked at."""
    api = Api(data=path)
    for number in range(5):
        api.create(CONFIG_MAPS, f"one-{number}")
    again = restarted(api, path)
    kept = list(again.server.store.built_in("configmaps").within())
    assert len(kept) == 5
    assert len(again.names(CONFIG_MAPS, fieldSelector="metadata.name!=one-3")) == 4
    assert all(obj._tree is None for obj in kept)
    assert again.get(f"{CONFIG_MAPS}/one-3")["metadata"]["name"] == "one-3"
