"""`tonnage batch plan`."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import manifest
from tests.scaleup.groups import group
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.testing import builders as make


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(program, ["batch", "plan", *arguments], input=stdin)


def scenario(name: str, *objects: KubeObject, **spec: Any) -> str:
    fields = {**spec, "objects": [manifest(one) for one in objects]}
    kind = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "Scenario"}
    return json.dumps({**kind, "metadata": {"name": name}, "spec": fields})


def small(name: str, *, pods: int = 1, **spec: Any) -> str:
    """Pods that need a node each, and a group for them."""
    waiting = [make.pod(f"web-{number}", cpu="3") for number in range(pods)]
    return scenario(name, group("g", cpu="4"), *waiting, **spec)


def batch(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "batch.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def answers(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def bought(answer: dict[str, Any]) -> int:
    return sum(one["delta"] for one in answer["plan"]["scaleUps"])


def test_a_line_has_scenario_and_plan(tmp_path: Path) -> None:
    (answer,) = answers(run(batch(tmp_path, small("s"))))
    assert list(answer) == ["scenario", "plan"]
    assert (answer["scenario"], answer["plan"]["kind"]) == ("s", "Plan")
    assert answer["plan"]["scaleUps"] == [
        {
            "group": "g",
            "delta": 1,
            "nodes": [{"name": "g-new-1", "pods": ["default/web-0"]}],
            "binding": "cpu",
            "costPerHour": None,
        }
    ]


def test_a_plan_of_a_batch_is_that_of_the_command(tmp_path: Path) -> None:
    line = small("s", pods=3)
    path = tmp_path / "one.json"
    path.write_text(line)
    alone = CliRunner().invoke(program, ["plan", "-f", str(path), "-o", "json"])
    (answer,) = answers(run(batch(tmp_path, line)))
    assert answer["plan"] == json.loads(alone.stdout)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_answers_are_in_the_order_of_the_scenarios(tmp_path: Path, jobs: str) -> None:
    lines = [small(f"s{number}", pods=number % 3) for number in range(40)]
    got = answers(run(batch(tmp_path, *lines), "--jobs", jobs))
    assert [(one["scenario"], bought(one)) for one in got] == [
        (f"s{number}", number % 3) for number in range(40)
    ]


def test_gzip_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "batch.jsonl.gz"
    path.write_bytes(gzip.compress(small("s").encode()))
    assert [one["scenario"] for one in answers(run(str(path)))] == ["s"]


def test_standard_input_is_read() -> None:
    assert [one["scenario"] for one in answers(run("-", stdin=small("s").encode()))] == ["s"]


def test_each_scenario_has_its_own_options(tmp_path: Path) -> None:
    limited = small("limited", pods=3, options={"maxNodesTotal": 1})
    got = answers(run(batch(tmp_path, limited, small("free", pods=3))))
    assert [bought(one) for one in got] == [1, 3]


def test_flags_go_before_the_options_of_all_scenarios(tmp_path: Path) -> None:
    limited = small("limited", pods=3, options={"maxNodesTotal": 1})
    file = batch(tmp_path, limited, small("free", pods=3))
    assert [bought(one) for one in answers(run(file, "--max-nodes-total", "2"))] == [2, 2]


def test_a_scenario_without_groups_has_a_plan_that_buys_nothing(tmp_path: Path) -> None:
    (answer,) = answers(run(batch(tmp_path, scenario("s", make.pod("web")))))
    assert [one["pod"] for one in answer["plan"]["notHelped"]] == ["default/web"]


BAD_OPTION = small("bad", options={"maxNodesTotal": "many"})


def test_a_bad_scenario_ends_the_batch_after_what_came_before(tmp_path: Path) -> None:
    result = run(batch(tmp_path, small("good"), BAD_OPTION, small("late")))
    assert (result.exit_code, [one["scenario"] for one in answers(result)]) == (2, ["good"])
    assert "line 2: scenario bad: options.maxNodesTotal: expected a whole number" in result.stderr


def test_leniently_a_bad_scenario_is_answered_with_its_error(tmp_path: Path) -> None:
    result = run(batch(tmp_path, BAD_OPTION, small("late")), "--lenient")
    bad, late = answers(result)
    assert (result.exit_code, bad["scenario"], late["scenario"]) == (0, "bad", "late")
    assert bad["error"].startswith("line 1: options.maxNodesTotal: expected a whole number")
