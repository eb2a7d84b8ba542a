"""`tonnage doctor` and `tonnage rescue` on files."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from tests.cli.conftest import Written
from tests.doctor import broken_clusters
from tests.doctor.broken_clusters import EBS
from tonnage.cli.app import program
from tonnage.doctor import codes
from tonnage.testing import builders

REPOSITORY = Path(__file__).parent.parent.parent


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, arguments)


def crowded(written: Written) -> str:
    pods = broken_clusters.users("n1", 2, phase="Pending")
    return written(broken_clusters.typed("n1"), builders.csinode("n1", {EBS: 1}), *pods)


def test_a_cluster_with_nothing_wrong_ends_well(written: Written) -> None:
    result = run(
        "doctor", "-f", written(broken_clusters.typed("n1"), builders.csinode("n1", {EBS: 25}))
    )
    assert (result.exit_code, result.stdout) == (0, "No findings.\n")


def test_an_error_in_the_cluster_is_exit_code_1(written: Written) -> None:
    result = run("doctor", "-f", crowded(written))
    assert result.exit_code == 1
    assert "TON304" in result.stdout


def test_nothing_fails_if_it_is_not_to(written: Written) -> None:
    assert run("doctor", "-f", crowded(written), "--fail-on", "never").exit_code == 0


def test_findings_are_one_document(written: Written) -> None:
    document = json.loads(run("doctor", "-f", crowded(written), "-o", "json").stdout)
    assert document["kind"] == "FindingList"
    assert {one["code"] for one in document["findings"]} >= {"TON304"}


def test_a_deployment_in_the_files_is_looked_at(written: Written, tmp_path: Path) -> None:
    beside = tmp_path / "autoscaler.json"
    beside.write_text(json.dumps(broken_clusters.upstream()))
    cluster = written(builders.csidriver(EBS, opt_in=True))
    assert "TON101" in run("doctor", "-f", cluster, "-f", str(beside)).stdout


def test_a_preview_changes_nothing_and_ends_well(written: Written) -> None:
    cluster = written(broken_clusters.typed("n1"), builders.csidriver(EBS))
    result = run("doctor", "-f", cluster, "--preview", f"opt-in={EBS}")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"1 of 1 nodes lack {EBS}")


def test_a_preview_of_something_else_is_refused() -> None:
    result = run("doctor", "-f", "x", "--preview", "opt-out=x")
    assert (result.exit_code, "expected opt-in=DRIVER" in result.stderr) == (2, True)


def test_an_unknown_code_is_refused_with_those_there_are() -> None:
    result = run("doctor", "explain", "TON999")
    assert (result.exit_code, "there are TON101" in result.stderr or "near" in result.stderr) == (
        2,
        True,
    )


def test_the_documentation_has_every_code() -> None:
    text = (REPOSITORY / "docs" / "doctor.md").read_text()
    assert [code for code in codes.ALL if f"| {code} |" not in text] == []


def test_rescue_shows_who_hangs(written: Written) -> None:
    result = run("rescue", "-f", crowded(written), "-o", "json")
    pods = json.loads(result.stdout)["pods"]
    assert [one["surplus"] for one in pods] == [True, False]


def test_nobody_is_evicted_from_a_file(written: Written) -> None:
    result = run("rescue", "-f", crowded(written), "--evict")
    assert (result.exit_code, "live cluster" in result.stderr) == (2, True)
