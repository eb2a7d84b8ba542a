"""`tonnage schema`: every document that is printed is as its schema says."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.cli.test_why import BOUGHT, LEFT_OUT, decided
from tonnage.cli import output_types, schema
from tonnage.cli.app import program
from tonnage.objects import strictness

REPOSITORY = Path(__file__).parent.parent.parent
EXAMPLE = str(REPOSITORY / "examples" / "two-databases")
SIMULATION = str(REPOSITORY / "examples" / "simulations" / "scale-from-zero.yaml")
MIGRATED = str(REPOSITORY / "tests" / "migration" / "golden" / "eks-discovery" / "input.yaml")

PRINTING: dict[str, list[str]] = {
    "Plan": ["plan", "-f", EXAMPLE],
    "Explanation": ["explain", "-f", EXAMPLE],
    "SlotReport": ["slots", "-f", EXAMPLE],
    "StrandingReport": ["slots", "-f", EXAMPLE, "--by", "group"],
    "FindingList": ["doctor", "-f", EXAMPLE],
    "FindingCodeList": ["doctor", "explain"],
    "OptInPreview": ["doctor", "-f", EXAMPLE, "--preview", "opt-in=disk.csi.azure.com"],
    "StuckPodList": ["rescue", "-f", EXAMPLE],
    "LimitList": ["limits", "show", "m5.large"],
    "LimitKeyList": ["limits", "key", "ebs.csi.aws.com"],
    "LearnedLimitList": ["limits", "learned", "-f", EXAMPLE],
    "NodeGroupList": ["groups", "discover", "-f", EXAMPLE, "--group-label", "pool"],
    "Timeline": ["simulate", SIMULATION, "--duration", "2m"],
    "TimelineComparison": [
        "simulate",
        SIMULATION,
        "--duration",
        "2m",
        "--compare",
        "csiAware=false",
    ],
    "Migration": ["migrate", "-f", MIGRATED],
    "SweepSummary": ["sweep", "-f", EXAMPLE, "--vary=max-size=orders-1:1,2", "-j1"],
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, list(arguments))


def check(document: dict[str, Any], kind: str) -> None:
    _, type_ = output_types.PRINTED[kind]
    assert document["kind"] == kind
    assert strictness.first_unknown(document, type_) is None
    msgspec.convert(document, type_)


@pytest.mark.parametrize("kind", PRINTING)
def test_what_is_printed_is_as_the_schema_says(kind: str) -> None:
    check(json.loads(run(*PRINTING[kind], "-o", "json").stdout), kind)


def test_decisions_about_a_pod_are_as_the_schema_says(tmp_path: Path) -> None:
    lines = [msgspec.json.encode(decided(plan)) for plan in (LEFT_OUT, BOUGHT)]
    (tmp_path / "decisions.jsonl").write_bytes(b"\n".join(lines))
    result = run("why", "shop/db-0", "-f", str(tmp_path / "decisions.jsonl"), "-o", "json")
    check(json.loads(result.stdout), "Why")


def test_a_difference_of_plans_is_as_the_schema_says(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(run("plan", "-f", EXAMPLE, "-o", "json").stdout)
    other = run("plan", "-f", EXAMPLE, "--what-if", "remove-node=aks-orders-1", "-o", "json")
    (tmp_path / "b.json").write_text(other.stdout)
    result = run("diff", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "-o", "json")
    check(json.loads(result.stdout), "PlanDiff")


@pytest.mark.parametrize("kind", [*output_types.PRINTED, *output_types.READ, "AutoscalerConfig"])
def test_every_kind_has_a_schema(kind: str) -> None:
    assert "$defs" in json.loads(run("schema", kind).stdout)


def test_kinds_are_listed_with_who_prints_them() -> None:
    assert ["Plan", "tonnage", "plan", "-o", "json"] in [
        line.split() for line in run("schema").stdout.splitlines()
    ]


def test_an_unknown_kind_is_one_error_with_near_ones() -> None:
    result = run("schema", "Plam")
    assert (result.exit_code, "near matches: Plan" in result.stderr) == (2, True)


def test_the_documentation_has_all_fields() -> None:
    written = (REPOSITORY / "docs" / "json.md").read_text()
    assert written == schema.page(), "tonnage schema --markdown > docs/json.md"


def test_a_plan_has_its_cost() -> None:
    plan = json.loads(run("plan", "-f", EXAMPLE, "-o", "json").stdout)
    assert [one["costPerHour"] for one in plan["scaleUps"]] == [0.114, 0.114]
    assert plan["costPerHour"] == 0.228


def test_a_plan_without_prices_has_no_cost(tmp_path: Path) -> None:
    for file in Path(EXAMPLE).iterdir():
        text = re.sub(r",? *pricePerHour: \"[0-9.]+\"", "", file.read_text())
        (tmp_path / file.name).write_text(text)
    plan = json.loads(run("plan", "-f", str(tmp_path), "-o", "json").stdout)
    assert plan["costPerHour"] is None


def test_a_plan_in_markdown_has_tables_and_the_cost() -> None:
    text = run("plan", "-f", EXAMPLE, "-o", "markdown").stdout
    assert "| `orders-2` | +1 | 1 | 0.114 |" in text
    assert "Cost per hour: **0.228**" in text
