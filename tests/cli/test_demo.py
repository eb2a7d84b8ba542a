"""`tonnage demo`, as far as it goes without playing it."""

from pathlib import Path

from click.testing import CliRunner

from tonnage.cli.app import program
from tonnage.simulation import demo_story


def test_a_report_that_could_not_be_written_is_said_before_the_play(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "demo.html"
    result = CliRunner().invoke(program, ["demo", "--html", str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--html {file}: no such folder" in result.stderr


def test_a_demo_that_is_kept_writes_its_status_and_keeps_what_decisions_came_from() -> None:
    kept = demo_story.endless(demo_story.acts()[0]).simulation.spec.options
    assert (kept["writeStatusConfigmap"], kept["decisionRecordingSize"] > 0) == (True, True)
