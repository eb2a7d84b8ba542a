"""Decisions of consolidation made again from what was recorded of them."""

import json
from functools import cache
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.simulation.scenarios import example
from tonnage.autoscaler.consolidation import recordings
from tonnage.autoscaler.consolidation.recordings import (
    RecordedConsolidation,
)
from tonnage.cli.app import program
from tonnage.simulation import runner


@cache
def decisions(size: int = 1_000_000) -> list[RecordedConsolidation]:
    """What was decided in the example until the smaller node is bought."""
    simulation = example("consolidation")
    options = {**simulation.spec.options, "decisionRecordingSize": size}
    spec = msgspec.structs.replace(simulation.spec, duration=800.0, options=options)
    ensemble = runner.played(msgspec.structs.replace(simulation, spec=spec))
    assert ensemble.autoscaler is not None
    return ensemble.autoscaler.recorded_consolidations()


def why(tmp_path: Path, told: list[RecordedConsolidation], *arguments: str) -> Result:
    (tmp_path / "recorded.json").write_bytes(msgspec.json.encode(told))
    file = str(tmp_path / "recorded.json")
    return CliRunner().invoke(program, ["why", *arguments, "--replay", "-f", file])


def going() -> RecordedConsolidation:
    return next(one for one in reversed(decisions()) if one.plan.moves)


def test_every_recorded_decision_gives_the_same_plan_again() -> None:
    told = decisions()
    assert {bool(one.plan.going) for one in told} == {True, False}
    assert [recordings.replayed(one.recording) == one.plan for one in told] == [True] * len(told)


def test_why_replays_the_newest_decision_about_a_node(tmp_path: Path) -> None:
    node = going().plan.going[0].node
    result = why(tmp_path, [going()], f"node/{node}")
    assert result.exit_code == 0, result.output
    assert f"{node}: consolidation: goes in wave" in result.output
    assert "the same plan" in result.output


def test_another_answer_is_told_with_what_differs(tmp_path: Path) -> None:
    node = going().plan.going[0].node
    other = msgspec.structs.replace(going().plan, saves_per_hour="7")
    told = [msgspec.structs.replace(going(), plan=other)]
    result = why(tmp_path, told, f"node/{node}", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)["replay"]["same"]) == (1, False)
    assert "differing: savesPerHour" in why(tmp_path, told, f"node/{node}").output


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ([], "consolidation has decided nothing yet"),
        (["small"], "can be replayed: decisionRecordingSize is 0"),
        (["unknown"], "no decision of consolidation knows it"),
    ],
)
def test_what_cannot_be_replayed_says_why(tmp_path: Path, told: list[str], text: str) -> None:
    small = msgspec.structs.replace(
        going(), recording=b"", not_recorded="decisionRecordingSize is 0"
    )
    node = "nobody" if told == ["unknown"] else going().plan.going[0].node
    result = why(tmp_path, [small] if told else [], f"node/{node}")
    assert (result.exit_code, text in result.output) == (2, True), result.output
