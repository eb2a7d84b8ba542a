"""cluster-autoscaler's flags start `tonnage run`."""

import shlex
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.cli import upstream_flags
from tonnage.cli.app import program
from tonnage.cli.run import run as command
from tonnage.cli.services import ServiceOptions
from tonnage.migration import flags
from tonnage.migration.flags import FLAGS, Flag

PAGE = Path(__file__).parent.parent.parent / "docs" / "cluster-autoscaler-flags.md"
EXAMPLES = {
    "cloud-provider": "none",
    "nodes": "",
    "feature-gates": "VolumeLimitScaling=true",
    "v": "2",
    "drain-priority-config": "1000:60",
    "cloud-config": "",
    "kubeconfig": "",
    "node-group-auto-discovery": "",
}
"""Values for flags whose default is not a value, and for those that need another provider."""

USUAL = shlex.split("""
--v=4 --stderrthreshold=info --logtostderr=true --cloud-provider=none --expander=least-waste
--skip-nodes-with-local-storage=false --skip-nodes-with-system-pods=false --namespace=kube-system
--balance-similar-node-groups --scale-down-enabled=true --scale-down-delay-after-add=10m
--scale-down-delay-after-delete=0s --scale-down-delay-after-failure=3m --max-node-provision-time=15m
--scale-down-unneeded-time=10m --scale-down-unready-time=20m --scale-down-utilization-threshold=0.5
--scan-interval=10s --max-nodes-total=0 --cores-total=0:320000 --memory-total=0:6400000
--max-graceful-termination-sec=600 --max-empty-bulk-delete=10 --ok-total-unready-count=3
--max-total-unready-percentage=45 --estimator=binpacking --write-status-configmap=true
--ignore-daemonsets-utilization=true --cordon-node-before-terminating=true --leader-elect=true
--new-pod-scale-up-delay=0s --max-bulk-soft-taint-count=10 --expendable-pods-priority-cutoff=-10
""")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["run", "--kubeconfig", "/nonexistent", *arguments])


def started(result: Result) -> bool:
    """Whether all arguments were taken: the next thing that is wrong is the cluster."""
    return result.exit_code == 2 and "/nonexistent" in result.stderr.splitlines()[-1]


def value_of(flag: Flag) -> str:
    given = {"bool": "false", "int": "1", "float": "1", "duration": "1m", "range": "0:1"}
    return EXAMPLES.get(flag.name) or flag.default or given.get(flag.value, "x")


@pytest.mark.parametrize(
    "flag",
    [one for one in FLAGS.values() if EXAMPLES.get(one.name) != ""],
    ids=lambda one: one.name,
)
def test_every_flag_of_upstream_is_taken(flag: Flag) -> None:
    result = run(f"--{flag.name}={value_of(flag)}")
    assert started(result), result.stderr
    assert len(result.stderr.splitlines()) <= 2


def test_a_usual_command_line_starts() -> None:
    assert started(run(*USUAL))


def test_a_flag_without_effect_says_why_in_one_line() -> None:
    note = "tonnage: note: --estimator=binpacking has no effect here: there is one estimator"
    assert note in run("--estimator=binpacking").stderr


def test_a_flag_that_is_not_supported_warns_unless_it_has_its_default() -> None:
    assert "warning: --gpu-total=a:0:1 is not supported" in run("--gpu-total=a:0:1").stderr
    assert "not supported" not in run("--capacity-quotas-enabled=false").stderr


@pytest.mark.parametrize("words", [["-v=4"], ["--v", "4"], ["--v=10"]])
def test_verbosity_is_a_level(words: list[str]) -> None:
    assert level(*words) == "debug"


def test_little_verbosity_changes_nothing() -> None:
    assert level("--v=2") == "info"


@pytest.mark.parametrize("given", ["abc", "-1", ""])
def test_a_verbosity_that_is_no_number_is_refused(given: str) -> None:
    result = run(f"--v={given}")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"'--v': '{given}': expected a number. See tonnage run --help" in result.stderr


def level(*words: str) -> str:
    with command.make_context("run", list(words)) as context:
        return context.ensure_object(ServiceOptions).log_level


@pytest.mark.parametrize(
    "words",
    [
        ["--max_node_provision_time=20m"],
        ["-max-node-provision-time", "20m"],
        ["--max-node-provision-time=20m"],
    ],
)
def test_spelling_is_as_upstream_takes_it(words: list[str]) -> None:
    with command.make_context("run", words) as context:
        assert upstream_flags.settings(context) == {"maxNodeProvisionTime": "20m"}


@pytest.mark.parametrize(
    ("word", "settings"),
    [
        ("--v=4", {}),
        ("--scale-down-enabled", {"scaleDownEnabled": True}),
        ("--scale-down-enabled=false", {"scaleDownEnabled": False}),
    ],
)
def test_nodes_are_given_back_only_if_a_flag_says_so(
    word: str, settings: dict[str, object]
) -> None:
    with command.make_context("run", [word]) as context:
        assert upstream_flags.settings(context) == settings


def test_a_switch_does_not_take_the_next_word() -> None:
    assert started(run("--enforce-node-group-min-size", "--scan-interval", "10s"))


def test_a_flag_that_nobody_knows_names_the_nearest() -> None:
    result = run("--scale-down-uneeded-time=10m")
    assert result.exit_code == 2
    assert "--scale-down-unneeded-time" in result.stderr


def test_a_flag_that_both_have_is_proposed_once() -> None:
    assert run("--clod-provider=aws").stderr.count("'--cloud-provider'") == 1


def row(flag: Flag) -> str:
    fields = {field.encode_name for field in msgspec.structs.fields(AutoscalerConfig)}
    outcome = flag.outcome_with(fields)
    what = {
        flags.SETTING: f"followed: `{flag.target}`",
        flags.ARGUMENT: f"followed: `{flag.target}`",
        flags.NOT_NEEDED: f"no effect: {flag.reason}",
        flags.NOT_SUPPORTED: f"not supported: {flag.reason}",
    }[outcome]
    if flag.name == "v":
        what = "followed: `--log-level=debug` from 4 on"
    return f"| `--{flag.name}` | {f'`{flag.default}`' if flag.default else ''} | {what} |"


def test_the_documentation_lists_them_all() -> None:
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| `--")]
    assert shown == [row(FLAGS[name]) for name in sorted(FLAGS)]
