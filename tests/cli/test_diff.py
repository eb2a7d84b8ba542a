"""`tonnage diff`."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from tonnage.cli.app import program
from tonnage.scaleup.plan import (
    Bounds,
    GroupLimit,
    NewNode,
    NotHelped,
    Placement,
    Plan,
    ScaleUp,
)


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(program, ["diff", *arguments], input=stdin)


def buying(group: str, *nodes: list[str], **fields: Any) -> Plan:
    new = tuple(
        NewNode(name=f"{group}-new-{number}", pods=tuple(pods)) for number, pods in enumerate(nodes)
    )
    return Plan(scale_ups=(ScaleUp(group=group, delta=len(new), nodes=new),), **fields)


@pytest.fixture
def saved(tmp_path: Path):
    """Writes plans into files and gives their names."""

    def save(*plans: Plan, as_yaml: bool = False) -> list[str]:
        names = []
        for number, plan in enumerate(plans):
            path = tmp_path / f"plan-{number}"
            text = msgspec.json.encode(plan)
            path.write_bytes(yaml.safe_dump(json.loads(text)).encode() if as_yaml else text)
            names.append(str(path))
        return names

    return save


REPLICAS = [f"shop/db-{number}" for number in range(10)]
SMALL = buying("g", REPLICAS[:5], not_helped=tuple(NotHelped(pod=pod) for pod in REPLICAS[5:]))
LARGE = buying("g", REPLICAS[:5], REPLICAS[5:])


def test_equal_plans_end_with_code_0(saved) -> None:
    result = run(*saved(SMALL, SMALL))
    assert (result.exit_code, result.stdout) == (0, "The plans are the same.\n")


def test_other_plans_end_with_code_1(saved) -> None:
    assert run(*saved(SMALL, LARGE)).exit_code == 1


def test_groups_and_pods_are_listed(saved) -> None:
    assert run(*saved(SMALL, LARGE)).stdout.splitlines() == [
        "1 node more (g +1), 5 pods more helped.",
        "",
        "GROUP  NODES BEFORE  AFTER  CHANGE",
        "g      1             2      +1",
        "",
        "PODS                       CHANGE",
        "shop/db-5 … db-9 (5 pods)  newly helped",
    ]


def test_the_other_way_round_they_are_lost(saved) -> None:
    result = run(*saved(LARGE, SMALL))
    assert result.stdout.startswith("1 node less (g -1), 5 pods no longer helped.\n")
    assert "shop/db-5 … db-9 (5 pods)  no longer helped" in result.stdout


def test_moves_say_from_where_to_where(saved) -> None:
    there = Plan(fit_on_existing=(Placement(pod="shop/db-0", node="n1"),))
    result = run(*saved(there, buying("g", ["shop/db-0"])))
    assert "shop/db-0   n1    new node of g" in result.stdout


def test_limits_say_number_and_source(saved) -> None:
    before = Plan(limits=(GroupLimit(group="g", driver="d", count=5, source="catalogue"),))
    after = Plan(limits=(GroupLimit(group="g", driver="d", count=None, source="live"),))
    lines = run(*saved(before, after)).stdout.splitlines()
    assert lines[-1] == "g               d       5 (catalogue)  unlimited (live)"


def test_bounds_are_compared(saved) -> None:
    before = Plan(bounds=Bounds(nodes=1, cost_per_hour=0.5, gap=0.0))
    after = Plan(bounds=Bounds(nodes=2, cost_per_hour=None, gap=0.5))
    lines = run(*saved(before, after)).stdout.splitlines()
    assert [line.split() for line in lines[-3:]] == [
        ["nodes", "1", "2"],
        ["cost", "an", "hour", "0.5", "-"],
        ["above", "it", "0%", "50%"],
    ]


def test_a_plan_that_became_partial_is_told(saved) -> None:
    result = run(*saved(Plan(), Plan(partial=True)))
    assert "Only the second plan is partial" in result.stdout


def test_warnings_are_new_or_gone(saved) -> None:
    result = run(*saved(Plan(warnings=("old one",)), Plan(warnings=("new one",))))
    assert "new      new one\ngone     old one\n" in result.stdout


def test_json_is_one_versioned_document(saved) -> None:
    result = run(*saved(SMALL, LARGE), "-o", "json")
    found = json.loads(result.stdout)
    assert (found["apiVersion"], found["kind"]) == ("tonnage.dev/v1alpha1", "PlanDiff")
    assert (found["equal"], found["newlyHelped"]) == (False, REPLICAS[5:])
    assert found["groups"] == [{"group": "g", "before": 1, "after": 2}]


def test_equal_plans_are_equal_in_json_too(saved) -> None:
    result = run(*saved(SMALL, SMALL), "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)["equal"]) == (0, True)


def test_yaml_says_the_same_as_json(saved) -> None:
    files = saved(SMALL, LARGE)
    as_json = json.loads(run(*files, "-o", "json").stdout)
    assert yaml.safe_load(run(*files, "-o", "yaml").stdout) == as_json


def test_plans_may_be_yaml(saved) -> None:
    assert run(*saved(SMALL, LARGE, as_yaml=True)).exit_code == 1


def test_one_plan_may_be_standard_input(saved) -> None:
    (file,) = saved(SMALL)
    assert run(file, "-", stdin=msgspec.json.encode(SMALL)).exit_code == 0


def test_both_cannot_be() -> None:
    result = run("-", "-", stdin=msgspec.json.encode(SMALL))
    assert (result.exit_code, "only one of them can be" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"kind": "Scenario"}', "expected a document of kind Plan, such as `tonnage plan"),
        ('{"kind": "Plan", "steps": [{}]}', "Object missing required field `chosen`"),
        ("[1]", "expected a document of kind Plan"),
        ('{"kind": ', "truncated"),
        ("a: b: c", "not YAML"),
        (
            "kind: Plan\n---\nkind: Plan\n",
            "expected one document of kind Plan, such as `tonnage plan -o json` prints, found 2",
        ),
        ("", "empty"),
    ],
)
def test_what_is_no_plan_is_code_2_and_names_the_file(
    saved, tmp_path: Path, content: str, said: str
) -> None:
    (good,) = saved(SMALL)
    bad = tmp_path / "bad"
    bad.write_text(content)
    result = run(good, str(bad))
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert f"{bad}: " in result.stderr
    assert said in result.stderr


def test_a_file_that_is_not_there_is_code_2(saved) -> None:
    (good,) = saved(SMALL)
    result = run(good, "absent.json")
    assert (result.exit_code, result.stderr) == (
        2,
        "tonnage: error: absent.json: no such file or directory\n",
    )


@pytest.mark.parametrize(
    ("before", "after", "fail_on", "code"),
    [
        (SMALL, LARGE, "difference", 1),
        (SMALL, LARGE, "purchase", 1),
        (SMALL, LARGE, "unhelped", 0),
        (LARGE, SMALL, "unhelped", 1),
        (LARGE, SMALL, "purchase", 1),
        (LARGE, SMALL, "never", 0),
        (SMALL, SMALL, "purchase", 0),
    ],
)
def test_a_gate_fails_on_what_it_is_told_to(
    saved, before: Plan, after: Plan, fail_on: str, code: int
) -> None:
    assert run(*saved(before, after), "--fail-on", fail_on).exit_code == code
