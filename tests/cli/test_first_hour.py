"""What a new user tries first: nothing is silent, and every error says what to do next."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import Written
from tests.docs.blocks import REPOSITORY
from tonnage.cli.app import COMMANDS, program
from tonnage.testing import builders as make

EXAMPLE = REPOSITORY / "examples" / "two-databases"
WITHOUT_GROUPS = [
    word
    for path in sorted(EXAMPLE.glob("*.yaml"))
    if path.name != "groups.yaml"
    for word in ("-f", str(path))
]


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(program, list(arguments), env=environment)


def test_groups_of_our_own_example_are_found() -> None:
    result = run("groups", "discover", *WITHOUT_GROUPS, "-o", "table")
    found = [line.split()[0] for line in result.stdout.splitlines()[1:]]
    assert found == [f"{pool}-westeurope-{n}" for pool in ("orders", "search") for n in (1, 2)]
    assert "1 pod on 1 new node" in run("plan", *WITHOUT_GROUPS, "--discover").stdout


def test_written_groups_that_have_all_nodes_leave_none_to_discover() -> None:
    result = run("plan", "-f", str(EXAMPLE), "--discover")
    assert "NodeGroups of the input have all nodes" in result.stderr
    assert result.stdout == run("plan", "-f", str(EXAMPLE)).stdout


def test_a_label_that_may_name_groups_is_proposed(written: Written) -> None:
    own = [make.node(f"n{n}", labels={"team": "a", "rack": f"r{n}"}) for n in range(2)]
    result = run("groups", "discover", "-f", written(*own))
    assert "add --group-label team, or --provider" in result.stderr
    assert run("groups", "discover", "-f", written(*own), "--group-label", "team").exit_code == 0


@pytest.mark.parametrize("command", ["explain", "plan"])
def test_a_class_that_is_missing_is_named_beside_the_schedulers_words(
    command: str, written: Written
) -> None:
    objects = [
        make.node("n1", labels={"pool": "a"}),
        make.storage_class("there", "disk.example.com"),
        make.pvc("data-db-0", storage_class="gone"),
        make.pvc("data-db-1", storage_class="gone"),
        make.pvc("logs", storage_class="there"),
        *(make.pod(f"db-{n}", pvcs=[f"data-db-{n}", "logs"]) for n in range(2)),
    ]
    more = ["--discover"] if command == "plan" else []
    result = run(command, "-f", written(*objects), *more)
    assert "unbound immediate PersistentVolumeClaims" in result.stdout
    assert "there is no StorageClass gone, so claims stay unbound:" in result.stderr
    assert "default/data-db-0, data-db-1 (2 claims)" in result.stderr
    assert "StorageClass there" not in result.stderr


def test_a_workload_of_an_unknown_kind_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "rollout.yaml").write_text(
        "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web},"
        " spec: {replicas: 3, template: {spec: {containers: [{name: c}]}}}}\n---\n"
        "{apiVersion: v1, kind: Service, metadata: {name: web}}"
    )
    result = run("explain", "-f", str(EXAMPLE), "-f", str(tmp_path / "rollout.yaml"))
    assert "1 object of Rollout.argoproj.io not read: it has a pod template" in result.stderr
    assert "Service" not in result.stderr


def test_an_input_without_pods_and_nodes_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("{apiVersion: v1, kind: Service, metadata: {name: web}}")
    result = run("explain", "-f", str(tmp_path / "s.yaml"))
    assert result.stdout == "No pending pods: the input has no pod and no node.\n"


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (["slots"], "files with -f FILE or a cluster with --kubeconfig FILE"),
        (["limits", "learned"], "files with -f FILE or a cluster with --kubeconfig FILE"),
        (["limits", "forget", "--all"], "give a cluster with --kubeconfig FILE"),
        (["migrate"], "files with -f FILE or a cluster with --kubeconfig FILE"),
        (["why", "db-0"], "address with --url URL or a cluster with --kubeconfig FILE"),
        (["run"], "give a cluster with --kubeconfig FILE; tonnage embedded serves one to try"),
        (["scheduler"], "give a cluster with --kubeconfig FILE"),
        (["capacity-templates"], "give a cluster with --kubeconfig FILE"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_a_command_without_a_cluster_says_what_else_to_give(
    arguments: list[str], instead: str, tmp_path: Path
) -> None:
    result = run(*arguments, HOME=str(tmp_path), KUBECONFIG="", KUBERNETES_SERVICE_HOST="")
    assert (result.exit_code, result.stdout) == (2, "")
    assert instead in result.stderr


@pytest.mark.parametrize("group", ["limits", "groups", "batch"])
def test_a_group_of_commands_alone_shows_its_help(group: str) -> None:
    result = run(group)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0].startswith(f"Usage: tonnage {group} ")
    assert len(result.stderr.splitlines()) > 10


def test_limits_of_an_instance_type_need_no_other_word() -> None:
    assert run("limits", "m5.large").stdout == run("limits", "show", "m5.large").stdout
    assert "near matches: " in run("limits", "m5.larg").stderr
    assert "Did you mean learned?" in run("limits", "lerned").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["completion"],
        ["plan", "--request-timeout", "soon"],
        ["slots", "--by", "zone"],
        ["plan", "--expandr", "price"],
        ["plann"],
        ["diff"],
    ],
    ids=" ".join,
)
def test_errors_have_one_style(arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(r"tonnage: error: .+[.?!)] See tonnage[a-z -]* --help\n", result.stderr)


def test_the_help_of_plan_is_short_first_and_whole_on_request() -> None:
    short, whole = run("plan", "--help").stdout, run("plan", "--help-all").stdout
    headings = re.findall(r"^(\w[\w -]*):$", short, re.MULTILINE)
    assert headings == ["Cluster", "Node groups", "Question", "Output", "Other options"]
    assert len(short.splitlines()) < 80 < len(whole.splitlines())
    for param in COMMANDS["plan"].load().params:
        assert param.opts[-1] in whole
        assert param.opts[-1] in re.sub(r"-\n\s*", "-", short)
