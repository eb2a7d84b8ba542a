"""`tonnage batch verdicts`, and the pool of processes behind batches."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import manifest
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import PodAffinityTerm
from tonnage.objects.storage import OPT_IN_ANNOTATION
from tonnage.testing import builders as make

ORACLE = Path(__file__).parent.parent / "data" / "oracle"
SCENARIOS = ORACLE / "verdicts.scenarios.jsonl.gz"
MISSING_DRIVER = " CSI driver is not installed on the node"


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(program, ["batch", "verdicts", *arguments], input=stdin)


def scenario(name: str, *objects: KubeObject, **spec: Any) -> str:
    fields = {**spec, "objects": [manifest(one) for one in objects]}
    kind = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "Scenario"}
    return json.dumps({**kind, "metadata": {"name": name}, "spec": fields})


def small(name: str) -> str:
    return scenario(name, make.node("n1"), make.pod("web"))


BROKEN = small("broken").replace('"labels": {', '"labels": 7, "was": {', 1)


def batch(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "batch.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def answers(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def keyed(document: dict[str, Any]) -> dict[tuple[str, str], object]:
    """Verdicts by pod and node. Of several missing drivers any may be named, as upstream does."""
    return {
        (one["pod"], one["node"]): (
            one.get("phase") or "",
            one.get("plugin") or "",
            one["code"],
            sorted(
                MISSING_DRIVER if text.endswith(MISSING_DRIVER) else text for text in one["reasons"]
            ),
        )
        for one in document["verdicts"]
    }


def test_every_recorded_verdict_of_kube_scheduler_is_given() -> None:
    with gzip.open(ORACLE / "verdicts.expected.jsonl.gz") as lines:
        expected = [json.loads(line) for line in lines]
    got = answers(run(str(SCENARIOS)))
    assert [one["scenario"] for one in got] == [one["scenario"] for one in expected]
    for ours, theirs in zip(got, expected, strict=True):
        assert keyed(ours) == keyed(theirs), ours["scenario"]


def test_a_line_has_scenario_and_verdicts(tmp_path: Path) -> None:
    full = make.node("n1", cpu="1")
    line = scenario("s", full, make.node("n2"), make.pod("web", cpu="2"))
    assert answers(run(batch(tmp_path, line))) == [
        {
            "scenario": "s",
            "verdicts": [
                {
                    "pod": "default/web",
                    "node": "n1",
                    "phase": "Filter",
                    "plugin": "NodeResourcesFit",
                    "code": "UnschedulableAndUnresolvable",
                    "reasons": ["Insufficient cpu"],
                },
                {"pod": "default/web", "node": "n2", "code": "Success", "reasons": []},
            ],
        }
    ]


def test_a_gated_pod_is_refused_before_it_is_queued(tmp_path: Path) -> None:
    line = scenario("s", make.node("n1"), make.pod("web", gates=["quota", "data"]))
    (verdict,) = answers(run(batch(tmp_path, line)))[0]["verdicts"]
    assert (verdict["phase"], verdict["plugin"]) == ("PreEnqueue", "SchedulingGates")
    assert verdict["reasons"] == ["waiting for scheduling gates: [quota data]"]


def test_warnings_are_there_only_if_there_are_any(tmp_path: Path) -> None:
    pod = manifest(make.pod("gpu"))
    pod["spec"]["resourceClaims"] = [{"name": "gpu"}]  # type: ignore[index]
    line = json.loads(small("s"))
    line["spec"]["objects"].append(pod)
    web, gpu = answers(run(batch(tmp_path, json.dumps(line))))[0]["verdicts"]
    assert ("warnings" in web, len(gpu["warnings"])) == (False, 1)


def test_no_namespace_is_assumed(tmp_path: Path) -> None:
    term = PodAffinityTerm(
        topology_key=make.HOSTNAME,
        label_selector=make.selecting({"app": "db"}),
        namespace_selector=make.selecting({"kubernetes.io/metadata.name": "default"}),
    )
    there = make.pod("db", on="n1", labels={"app": "db"})
    line = scenario("s", make.node("n1"), there, make.pod("web", near=[term]))
    (verdict,) = answers(run(batch(tmp_path, line)))[0]["verdicts"]
    assert verdict["plugin"] == "InterPodAffinity"


@pytest.mark.parametrize(("version", "installed"), [("1.36", "Success"), ("1.37", "Unschedulable")])
def test_the_version_of_a_scenario_holds(tmp_path: Path, version: str, installed: str) -> None:
    line = scenario(
        "s",
        make.node("n1"),
        make.csinode("n1"),
        make.csidriver("x", opt_in=True),
        make.storage_class("disks", "x"),
        make.pvc("data", storage_class="disks"),
        make.pod("db", pvcs=["data"]),
        kubernetesVersion=version,
    )
    (verdict,) = answers(run(batch(tmp_path, line)))[0]["verdicts"]
    assert verdict["code"] == installed


@pytest.mark.parametrize("jobs", ["1", "2", "3"])
def test_answers_are_in_order_however_many_processes_work(tmp_path: Path, jobs: str) -> None:
    # Every seventh scenario takes far longer than the others.
    heavy = [make.node(f"n{i}") for i in range(100)]
    names = [f"s{i}" for i in range(70)]
    lines = [
        scenario(name, *(heavy if i % 7 == 0 else heavy[:1]), make.pod("web"))
        for i, name in enumerate(names)
    ]
    result = run(batch(tmp_path, *lines), "--jobs", jobs)
    assert [one["scenario"] for one in answers(result)] == names


def test_one_process_and_several_give_the_same_bytes() -> None:
    one, three = run(str(SCENARIOS), "-j", "1"), run(str(SCENARIOS), "-j", "3")
    assert one.stdout_bytes == three.stdout_bytes


def test_standard_input_may_be_plain_or_gzip(tmp_path: Path) -> None:
    plain = Path(batch(tmp_path, small("a"), small("b"))).read_bytes()
    assert run("-", stdin=plain).stdout == run("-", stdin=gzip.compress(plain)).stdout
    assert len(answers(run("-", stdin=plain))) == 2


def test_blank_lines_are_passed_over(tmp_path: Path) -> None:
    assert len(answers(run(batch(tmp_path, "", small("a"), "  ", small("b"))))) == 2


def test_an_empty_batch_has_no_answers() -> None:
    result = run("-", stdin=b"")
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("good", [2, 40])
def test_a_bad_line_ends_the_batch_after_the_lines_before_it(
    tmp_path: Path, good: int, jobs: str
) -> None:
    names = [f"s{i}" for i in range(good)]
    path = batch(tmp_path, *map(small, names), BROKEN, *(small("later") for _ in range(40)))
    result = run(path, "-j", jobs)
    assert (result.exit_code, [one["scenario"] for one in answers(result)]) == (2, names)
    assert result.stderr == (
        f"tonnage: error: {path}: line {good + 1}: scenario broken: spec.objects[0]: Node n1: "
        "metadata.labels: expected a mapping, found 7\n"
    )


def test_leniently_a_bad_line_is_answered_with_its_error(tmp_path: Path) -> None:
    result = run(batch(tmp_path, small("a"), BROKEN, "{", small("b")), "--lenient")
    a, broken, unreadable, b = answers(result)
    assert (result.exit_code, a["scenario"], b["scenario"]) == (0, "a", "b")
    assert (broken["scenario"], unreadable["scenario"]) == ("broken", None)
    assert broken["error"].startswith("line 2: spec.objects[0]: Node n1: metadata.labels: ")
    assert "could not be used: 2" in result.stderr


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        pytest.param("{", "line 1: not JSON", id="no JSON"),
        pytest.param("[]", "line 1: expected a Scenario", id="an empty list"),
        pytest.param(
            json.dumps(manifest(make.pod("web"))),
            "line 1: scenario web: expected a Scenario",
            id="a pod",
        ),
        pytest.param(
            scenario("s", kubernetesVersion="0.9"),
            "line 1: scenario s: Kubernetes version '0.9'",
            id="a version nobody knows",
        ),
    ],
)
def test_what_is_no_scenario_is_refused(tmp_path: Path, line: str, complaint: str) -> None:
    result = run(batch(tmp_path, line))
    assert (result.exit_code, result.stdout, complaint in result.stderr) == (2, "", True)


def test_a_file_that_is_not_there_is_code_2() -> None:
    result = run("no-such-file.jsonl")
    assert (result.exit_code, result.stderr) == (
        2,
        "tonnage: error: no-such-file.jsonl: no such file or directory\n",
    )


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_of_a_damaged_file_what_can_be_read_is_answered(tmp_path: Path, jobs: str) -> None:
    whole = SCENARIOS.read_bytes()
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    result = run(str(path), "-j", jobs)
    assert (result.exit_code, "damaged gzip data" in result.stderr) == (2, True)
    assert len(answers(result)) > 20


def test_jobs_is_at_least_one(tmp_path: Path) -> None:
    assert run(batch(tmp_path, small("a")), "--jobs", "0").exit_code == 2


def test_help_has_examples() -> None:
    assert "Examples:\n    tonnage batch verdicts " in run("--help").stdout


def test_help_of_the_group_names_the_command() -> None:
    result = CliRunner().invoke(program, ["batch", "--help"])
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert ["verdicts", "Say what becomes of every pending pod on every node."] in lines


def test_verdicts_are_those_of_kube_scheduler_whoever_else_enforces_the_opt_in(
    tmp_path: Path,
) -> None:
    driver = make.csidriver("disk.example.com")
    annotations = {OPT_IN_ANNOTATION: "true"}
    meta = msgspec.structs.replace(driver.metadata, annotations=annotations)
    line = scenario(
        "s",
        make.node("n1"),
        make.csinode("n1"),
        make.pod("x", on="n1", labels={"app.kubernetes.io/name": "tonnage-extender"}),
        msgspec.structs.replace(driver, metadata=meta),
        make.storage_class("disks", "disk.example.com"),
        make.pvc("data", storage_class="disks"),
        make.pod("db", pvcs=["data"]),
        options={"enforceOptIn": "always"},
    )
    (answer,) = answers(run(batch(tmp_path, line)))
    assert [one["code"] for one in answer["verdicts"]] == ["Success"]
