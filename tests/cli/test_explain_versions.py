"""`tonnage explain`: versions, gates, and who enforces the opt-in of drivers."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import Written, manifest
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.testing import builders as make

DRIVER = "disk.example.com"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["explain", *arguments])


def opted_in() -> list[KubeObject]:
    """A driver that asks to be waited for, and a node without it."""
    return [
        make.namespace("default"),
        make.node("n1"),
        make.csinode("n1"),
        make.csidriver(DRIVER, opt_in=True),
        make.storage_class("disks", DRIVER),
        make.pvc("data", storage_class="disks"),
        make.pod("db", pvcs=["data"]),
    ]


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        pytest.param((), False, id="by default as 1.37, where the gate is on"),
        pytest.param(("--kubernetes-version", "1.36"), True, id="as 1.36, where it is off"),
        pytest.param(("--feature-gates", "VolumeLimitScaling=false"), True, id="switched off"),
        pytest.param(
            (
                "--kubernetes-version",
                "v1.36.2",
                "--feature-gates",
                "X=false,VolumeLimitScaling=true",
            ),
            False,
            id="switched on in 1.36",
        ),
        pytest.param(
            ("--feature-gates", "VolumeLimitScaling=true", "--feature-gates", "X=true"),
            False,
            id="given in several options",
        ),
    ],
)
def test_version_and_gates_decide(written: Written, options: tuple[str, ...], fits: bool) -> None:
    result = run("-f", written(*opted_in()), *options)
    assert ("1/1 nodes are available" in result.stdout) is fits


def extender() -> KubeObject:
    return make.pod("x", on="n1", labels={"app.kubernetes.io/name": "tonnage-extender"})


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        pytest.param((), False, id="auto: it is seen"),
        pytest.param(("--enforce-opt-in", "auto"), False, id="auto, said aloud"),
        pytest.param(("--enforce-opt-in", "as-server"), True, id="as 1.36 does"),
    ],
)
def test_beside_our_extender_the_opt_in_holds_on_every_version(
    written: Written, options: tuple[str, ...], fits: bool
) -> None:
    file = written(*opted_in(), extender())
    result = run("db", "-f", file, "--kubernetes-version", "1.36", *options)
    assert ("1/1 nodes are available" in result.stdout) is fits
    assert ("pod default/x is tonnage extender" in result.stderr) is not fits


def test_whoever_knows_better_says_that_the_opt_in_holds(written: Written) -> None:
    options = ("--kubernetes-version", "1.36", "--enforce-opt-in", "always")
    assert "not installed on the node" in run("-f", written(*opted_in()), *options).stdout


def test_a_scenario_may_say_who_enforces_the_opt_in(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    spec = {
        "kubernetesVersion": "1.36",
        "options": {"enforceOptIn": "always"},
        "objects": [manifest(one) for one in opted_in()],
    }
    kind = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "Scenario"}
    path.write_text(json.dumps({**kind, "metadata": {"name": "s"}, "spec": spec}))
    assert "not installed on the node" in run("-f", str(path)).stdout
    overruled = run("-f", str(path), "--enforce-opt-in", "as-server")
    assert "1/1 nodes are available" in overruled.stdout


def test_a_gate_of_no_effect_is_a_warning(written: Written) -> None:
    result = run("-f", written(*opted_in()), "--feature-gates", "WatchList=true")
    assert result.exit_code == 0
    assert "warning: feature gate WatchList: of no effect here; those that have one" in (
        result.stderr
    )


def test_a_gate_of_a_scenario_without_effect_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(
        "{apiVersion: tonnage.dev/v1alpha1, kind: Scenario, metadata: {name: s},"
        " spec: {featureGates: {WatchList: true}}}"
    )
    assert "warning: feature gate WatchList: of no effect here" in run("-f", str(path)).stderr


def test_a_misspelt_gate_of_a_scenario_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(
        "apiVersion: tonnage.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\n"
        "spec:\n  featureGates:\n    VolumeLimitScalin: true\n"
    )
    result = run("-f", str(path))
    assert result.exit_code == 2
    assert "line 6: spec.featureGates.VolumeLimitScalin: expected VolumeLimitScaling" in (
        result.stderr
    )


def test_version_and_gates_of_a_scenario_hold_unless_given(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    spec = {
        "kubernetesVersion": "1.36",
        "featureGates": {"VolumeLimitScaling": True},
        "objects": [manifest(one) for one in opted_in()],
    }
    kind = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "Scenario"}
    path.write_text(json.dumps({**kind, "metadata": {"name": "s"}, "spec": spec}))
    assert "not installed on the node" in run("-f", str(path)).stdout
    overruled = run("-f", str(path), "--feature-gates", "VolumeLimitScaling=false")
    assert "1/1 nodes are available" in overruled.stdout
