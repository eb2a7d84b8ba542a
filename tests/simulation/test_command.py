"""`tonnage simulate` on the command line."""

import csv
import importlib.metadata
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.simulation.scenarios import EXAMPLES
from tonnage.cli.app import program
from tonnage.simulation import explorer

SCENARIO = str(EXAMPLES / "scale-from-zero.yaml")
SHORT = ["--duration", "3m"]


def run(*args: str) -> str:
    result = CliRunner().invoke(program, ["simulate", *args])
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args: str) -> str:
    result = CliRunner().invoke(program, ["simulate", *args])
    assert result.exit_code == 2
    return result.stderr


def test_a_table_is_the_default() -> None:
    assert "nodes bought                 3" in run(SCENARIO, *SHORT)


def test_json_is_a_timeline() -> None:
    document = json.loads(run(SCENARIO, *SHORT, "-o", "json"))
    assert (document["kind"], document["summary"]["nodesBought"]) == ("Timeline", 3)


def test_json_of_a_comparison_has_both_runs() -> None:
    document = json.loads(run(SCENARIO, *SHORT, "-o", "json", "--compare", "csiAware=false"))
    assert [one["options"].get("csiAware") for one in document["runs"]] == [None, False]


def test_csv_has_samples() -> None:
    rows = list(csv.DictReader(io.StringIO(run(SCENARIO, *SHORT, "-o", "csv"))))
    assert rows[-1]["seconds"] == "180"


def test_a_page_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["tonnage", "simulate", "of mine.yaml"])
    run(SCENARIO, *SHORT, "--html", str(tmp_path / "r.html"))
    text = (tmp_path / "r.html").read_text()
    assert "</html>" in text
    assert f"Made by Tonnage {importlib.metadata.version('tonnage')} on 20" in text
    assert " UTC with: tonnage simulate &#x27;of mine.yaml&#x27;</p>" in text


def test_options_may_be_set() -> None:
    document = json.loads(run(SCENARIO, *SHORT, "-o", "json", "--set", "maxNodesTotal=1"))
    assert document["summary"]["nodesBought"] == 1


def test_an_option_that_is_text_may_look_like_a_number() -> None:
    document = json.loads(run(SCENARIO, *SHORT, "-o", "json", "--set", "kubernetesVersion=1.37"))
    assert document["options"]["kubernetesVersion"] == "1.37"


def test_who_enforces_the_opt_in_is_an_option_of_its_own() -> None:
    document = json.loads(run(SCENARIO, *SHORT, "-o", "json", "--enforce-opt-in", "always"))
    assert document["options"]["enforceOptIn"] == "always"


def test_a_seed_is_explored_and_what_was_excused_is_told() -> None:
    excused = explorer.explored(1).excused
    assert excused
    assert run("--explore-seed", "1").splitlines() == [
        "seeds played: 1; with violations: 0",
        *(f"excused: {times:6} {reason}" for reason, times in excused.most_common()),
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "expected a file with a Simulation, or --explore"),
        (["nowhere.yaml"], "nowhere.yaml: no such file or directory"),
        ([SCENARIO, "--set", "speed=3"], "speed: expected a known field"),
        ([SCENARIO, "--compare", "csiAware"], "expected NAME=VALUE"),
        ([SCENARIO, "--duration", "soon"], "--duration 'soon': expected a duration such as 90m"),
        ([SCENARIO, "--explore", "3"], "expected no file beside it"),
    ],
)
def test_wrong_arguments_are_named(args: list[str], message: str) -> None:
    assert message in refused(*args)
