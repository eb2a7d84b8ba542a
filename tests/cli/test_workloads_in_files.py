"""What a Git repository holds: workloads, not pods."""

from pathlib import Path

from click.testing import CliRunner, Result

from tonnage.cli.app import program

EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "two-databases")
WORKLOADS = """
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3, template: {spec: {containers: [{name: c}]}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {replicas: 2, template: {spec: {containers: [{name: c}]}}}}
"""  # noqa: E501


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, list(arguments))


def test_add_pods_takes_workloads(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKLOADS)
    result = run("plan", "-f", EXAMPLE, "--what-if", f"add-pods={tmp_path}/w.yaml")
    assert "5 pods new and helped" in result.stdout
    assert "3 of Deployment default/web, 2 of StatefulSet default/db" in result.stderr


def test_files_may_hold_workloads(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKLOADS)
    result = run("explain", "-f", EXAMPLE, "-f", str(tmp_path))
    assert "db-1 (2 pods)" in result.stdout


def test_add_pods_that_adds_none_says_why(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
    )
    result = run("plan", "-f", EXAMPLE, "--what-if", f"add-pods={tmp_path}/w.yaml")
    assert result.exit_code == 2
    assert "nothing in it adds a pod: 1 object, and no pod or workload" in result.stderr


def test_a_workload_of_a_scenario_that_has_no_pods_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "{apiVersion: tonnage.dev/v1alpha1, kind: Scenario, metadata: {name: s}, spec: {objects: ["
        "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {replicas: 2}}]}}"
    )
    result = run("slots", "-f", str(tmp_path / "s.yaml"))
    assert "no pods are made for StatefulSet default/db" in result.stderr
