"""What the commands that run as services share, asked of every one of them."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tonnage.cli import services
from tonnage.cli.app import COMMANDS, program
from tonnage.cli.services import ServiceOptions

SERVICES = ("run", "scheduler", "extender", "capacity-templates", "node-agent")
ELECTED = ("run", "scheduler", "capacity-templates")
CONFIGURED = ("run", "scheduler", "extender")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, arguments)


def options(command: str) -> set[str]:
    return {name for param in COMMANDS[command].load().params for name in param.opts}


@pytest.mark.parametrize("command", SERVICES)
def test_every_service_has_the_shared_options(command: str) -> None:
    shared = {"--kubeconfig", "--context", "--address", "--logging-format", "--log-level"}
    assert shared <= options(command)


@pytest.mark.parametrize("command", SERVICES)
def test_every_service_has_examples(command: str) -> None:
    assert f"tonnage {command} --" in run(command, "--help").stdout


@pytest.mark.parametrize("command", SERVICES)
@pytest.mark.parametrize("address", ["8085", "host:", "host:many", "host:70000", ""])
def test_a_wrong_address_is_refused_before_anything_is_started(command: str, address: str) -> None:
    result = run(command, "--address", address, "--kubeconfig", "/nonexistent")
    assert result.exit_code == 2
    assert f"'--address': '{address}': expected HOST:PORT or :PORT" in result.stderr


@pytest.mark.parametrize("command", CONFIGURED)
def test_the_schema_of_the_settings_is_printed(command: str) -> None:
    assert "$defs" in json.loads(run(command, "--config-schema").stdout)


@pytest.mark.parametrize("command", ["scheduler", "capacity-templates"])
def test_a_kubeconfig_that_is_not_there_is_one_line_and_code_2(command: str) -> None:
    result = run(command, "--kubeconfig", "/nonexistent")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "/nonexistent" in result.stderr


def told(*arguments: str) -> ServiceOptions:
    """What a command with all shared options is told by these."""
    found: list[ServiceOptions] = []

    @click.command()
    @services.config_option("docs")
    @services.cluster_options
    @services.namespace_option("Here.")
    @services.address_option(":1")
    @services.leader_options("a-lease")
    @services.logging_options
    @services.pass_service
    def command(service: ServiceOptions) -> None:
        found.append(service)

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return found[0]


@pytest.mark.parametrize(
    ("flags", "elects"),
    [
        ([], True),
        (["--leader-elect"], True),
        (["--leader-elect=true"], True),
        (["--leader-elect=false"], False),
        (["--no-leader-elect"], False),
        (["--leader-elect", "--address", ":2"], True),
    ],
)
def test_a_leader_is_elected_unless_switched_off(flags: list[str], elects: bool) -> None:
    assert told(*flags).leader_elect is elects


@pytest.mark.parametrize("command", ELECTED)
def test_both_ways_to_switch_it_off_are_taken_by_every_elected_service(command: str) -> None:
    assert {"--leader-elect", "--no-leader-elect"} <= options(command)


def test_defaults_are_those_of_the_command() -> None:
    service = told()
    assert (service.address, service.lease_name, service.namespace) == (
        ":1",
        "a-lease",
        "kube-system",
    )
    assert (service.kubeconfig, service.context, service.config_file) == (None, None, None)
    assert (service.log_form, service.log_level) == ("json", "info")


def test_what_is_given_goes_before_the_defaults() -> None:
    service = told("--context", "c", "--address", "[::1]:2", "--log-level", "debug")
    assert (service.context, service.address, service.log_level) == ("c", "[::1]:2", "debug")


def test_two_processes_never_share_an_identity() -> None:
    assert ServiceOptions().identity != ServiceOptions().identity


# Gates


def test_a_misspelt_gate_is_refused_with_the_nearest_first() -> None:
    result = run("run", "--feature-gates", "VolumeLimitScalin=true")
    assert result.exit_code == 2
    assert "no feature gate VolumeLimitScalin; expected VolumeLimitScaling, " in result.stderr


def test_a_misspelt_gate_in_the_file_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("expander: random\nfeatureGates: {volumelimitscaling: true}\n")
    result = run("run", "--config", str(file))
    assert result.exit_code == 2
    assert f"{file}:2: `featureGates`: there is no feature gate volumelimitscaling" in result.stderr


def test_gates_of_no_effect_are_one_warning(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("featureGates: {InPlacePodVerticalScaling: true, WatchList: false}\n")
    result = run("run", "--config", str(file), "--kubeconfig", "/nonexistent")
    warning, _error = result.stderr.splitlines()
    assert warning.startswith(
        "tonnage: warning: featureGates: feature gates InPlacePodVerticalScaling, WatchList:"
        " of no effect here"
    )


# Times


def test_a_wrong_time_is_told_what_one_looks_like() -> None:
    result = run("run", "--scan-interval", "x")
    said = 'flags: scanInterval: expected a duration such as 10s or 1m30s, found "x"'
    assert (result.exit_code, result.stderr) == (2, f"tonnage: error: {said}\n")
