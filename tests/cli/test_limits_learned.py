"""`tonnage limits learned` and `tonnage limits forget`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import Written
from tests.cli.liveserver import LiveCluster, live_cluster
from tests.cluster.apiserver import answer, status
from tonnage.autoscaler.state import State
from tonnage.cli.app import program
from tonnage.groups.limit_lessons import Lesson
from tonnage.groups.memory import TemplateMemory
from tonnage.objects.storage import AttachError
from tonnage.testing import builders as make

EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
STATE = f"{CONFIG_MAPS}/tonnage-state"
LESSONS = (
    Lesson(instance_type="m5.large", driver=EBS, kind="limit", count=25, node="n1", seen=0.0),
    Lesson(instance_type="t4g.xlarge", driver=EBS, kind="ceiling", count=16, node="n2", seen=60.0),
    Lesson(instance_type="n2-standard-4", driver=GCE, kind="limit", count=9, node="n3", seen=0.0),
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path) as running:
        state = State(memory=TemplateMemory(lessons=LESSONS))
        running.server.put(
            CONFIG_MAPS,
            {
                "metadata": {"name": "tonnage-state", "namespace": "kube-system"},
                "data": {"state": msgspec.json.encode(state).decode(), "other": "kept"},
            },
        )
        yield running


def run(cluster: LiveCluster, *arguments: str) -> Result:
    command = ["limits", *arguments, "--kubeconfig", cluster.kubeconfig]
    return CliRunner().invoke(program, command)


def left(cluster: LiveCluster) -> list[str]:
    state: dict[str, Any] = json.loads(cluster.server.objects[STATE]["data"]["state"])
    return [one["instanceType"] for one in state["memory"].get("lessons", [])]


def test_what_was_learned_is_read_from_the_state_of_the_autoscaler(cluster: LiveCluster) -> None:
    lines = run(cluster, "learned").stdout.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["TYPE", "DRIVER", "KIND", "COUNT", "NODE", "LAST", "SEEN"],
        ["m5.large", EBS, "limit", "25", "n1", "1970-01-01T00:00:00Z"],
        ["t4g.xlarge", EBS, "ceiling", "16", "n2", "1970-01-01T00:01:00Z"],
    ]


def test_json_is_one_versioned_document(cluster: LiveCluster) -> None:
    document = json.loads(run(cluster, "learned", "-o", "json").stdout)
    assert (document["kind"], len(document["items"])) == ("LearnedLimitList", 3)
    assert document["items"][1] == {
        "instanceType": "t4g.xlarge",
        "driver": EBS,
        "kind": "ceiling",
        "count": 16,
        "node": "n2",
        "seen": "1970-01-01T00:01:00Z",
    }


def test_where_there_is_no_state_it_is_said_where_was_looked(cluster: LiveCluster) -> None:
    result = run(cluster, "learned", "--namespace", "elsewhere")
    assert result.exit_code == 1
    assert "no ConfigMap 'tonnage-state' in elsewhere: nothing says that" in result.stderr


def test_the_state_is_found_where_the_manifests_of_deploy_put_it(cluster: LiveCluster) -> None:
    state = State(memory=TemplateMemory(lessons=LESSONS[:1]))
    cluster.server.put(
        "/api/v1/namespaces/tonnage-system/configmaps",
        {
            "metadata": {"name": "tonnage-state", "namespace": "tonnage-system"},
            "data": {"state": msgspec.json.encode(state).decode()},
        },
    )
    assert len(json.loads(run(cluster, "learned", "-o", "json").stdout)["items"]) == 1


def test_without_a_namespace_all_usual_ones_are_looked_at(cluster: LiveCluster) -> None:
    cluster.server.objects.pop(STATE)
    result = run(cluster, "forget", "--all")
    assert "no ConfigMap 'tonnage-state' in tonnage-system or kube-system" in result.stderr


def test_files_are_learned_from(written: Written) -> None:
    refused = make.attachment("v9", "n1", attacher=EBS, attached=False)
    error = AttachError(time="2026-01-31T12:00:00Z", error_code=8)
    refusal = msgspec.structs.replace(refused.status, attach_error=error)
    file = written(
        make.node("n1", labels={"node.kubernetes.io/instance-type": "t4g.xlarge"}),
        make.csinode("n1", {EBS: 26}),
        *(make.attachment(f"v{i}", "n1", attacher=EBS) for i in range(4)),
        msgspec.structs.replace(refused, status=refusal),
    )
    result = CliRunner().invoke(program, ["limits", "learned", "-f", file, "-o", "json"])
    items = json.loads(result.stdout)["items"]
    assert [(one["kind"], one["count"]) for one in items] == [("ceiling", 4), ("limit", 26)]
    assert items[0]["seen"] == "2026-01-31T12:00:00Z"


@pytest.mark.parametrize(
    ("chosen", "told", "kept"),
    [
        (["--type", "m5.large"], "1 forgotten.", ["t4g.xlarge", "n2-standard-4"]),
        (["--driver", EBS], "2 forgotten.", ["n2-standard-4"]),
        (["--type", "m5.large", "--driver", GCE], "0 forgotten.", None),
        (["--all"], "3 forgotten.", []),
    ],
)
def test_lessons_are_dropped_from_the_state(
    cluster: LiveCluster, chosen: list[str], told: str, kept: list[str] | None
) -> None:
    before = left(cluster)
    assert run(cluster, "forget", *chosen).stdout == f"{told}\n"
    assert left(cluster) == (before if kept is None else kept)


def test_the_rest_of_the_config_map_stays(cluster: LiveCluster) -> None:
    run(cluster, "forget", "--all")
    assert cluster.server.objects[STATE]["data"]["other"] == "kept"


def test_forgetting_gives_way_to_an_autoscaler_that_writes_and_tries_again(
    cluster: LiveCluster,
) -> None:
    cluster.server.script("PUT", STATE, answer(lambda: status(409, "Conflict")))
    assert run(cluster, "forget", "--type", "m5.large").stdout == "1 forgotten.\n"
    assert left(cluster) == ["t4g.xlarge", "n2-standard-4"]


def test_an_endless_conflict_is_an_error(cluster: LiveCluster) -> None:
    cluster.server.script("PUT", STATE, *[answer(lambda: status(409, "Conflict"))] * 5)
    result = run(cluster, "forget", "--all")
    assert (result.exit_code, len(left(cluster))) == (1, 3)


@pytest.mark.parametrize("chosen", [[], ["--all", "--type", "m5.large"]])
def test_what_to_forget_has_to_be_said(cluster: LiveCluster, chosen: list[str]) -> None:
    result = run(cluster, "forget", *chosen)
    assert (result.exit_code, "say what to forget" in result.stderr) == (2, True)
    assert len(left(cluster)) == 3
