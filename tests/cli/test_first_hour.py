"""What a new user tries first: nothing is silent, and every error says what to do next."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import Written
from tests.docs.blocks import REPOSITORY
from tonnage.cli.app import COMMANDS, program
from tonnage.embedded.apiserver import kubeconfig
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
        (["run"], "give a cluster with --kubeconfig FILE"),
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
    # Short lines: what is wrong, what to give, and what to try.
    assert [len(line) <= 100 for line in result.stderr.splitlines()] == [True] * 3
    assert result.stderr.endswith("\n  tonnage embedded serves one to try\n")


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


@pytest.mark.parametrize("command", ["slots", "plan", "doctor", "export -", "top", "rescue"])
def test_the_token_of_an_embedded_cluster_is_in_no_error(command: str, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    kubeconfig.write(file, "http://127.0.0.1:1/very-secret-token")
    result = run(*command.split(), "--kubeconfig", str(file), "--request-timeout", "100ms")
    assert result.exit_code == 1
    assert "server http://127.0.0.1:1/***: " in result.stderr
    assert "very-secret-token" not in result.output


@pytest.mark.parametrize("word", ["--color=always", "--color always"])
def test_colours_may_be_asked_for_after_the_command(word: str) -> None:
    slots = ["slots", "-f", str(EXAMPLE)]
    coloured = run("--color", "always", *slots).stdout
    assert "\x1b[" in coloured
    assert run("slots", *word.split(), "-f", str(EXAMPLE)).stdout == coloured
    assert run(*slots, *word.split()).stdout == coloured


def test_a_colour_that_is_none_is_refused_after_the_command_too() -> None:
    result = run("slots", "-f", str(EXAMPLE), "--color", "blue")
    assert result.exit_code == 2
    assert "Invalid value for '--color': 'blue' is not one of" in result.stderr


def test_what_follows_two_dashes_is_not_an_option_of_ours() -> None:
    assert "no pod '--color'" in run("explain", "-f", str(EXAMPLE), "--", "--color").stderr


@pytest.mark.parametrize("more", [[], ["--scale-down"], ["--consolidate"]], ids=" ".join)
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("zzz", "; there are 4: aks-orders-1, aks-orders-2, aks-search-1 and 1 more"),
        ("aks-orders-11", "; near matches: aks-orders-1, "),
    ],
)
def test_a_node_that_is_not_there_is_answered_with_those_there_are(
    name: str, hint: str, more: list[str]
) -> None:
    result = run("plan", "-f", str(EXAMPLE), "--what-if", f"remove-node={name}", *more)
    assert result.exit_code == 2
    assert hint in result.stderr


def test_the_doctor_says_when_there_is_nothing_to_look_at(written: Written) -> None:
    empty = written(make.namespace("default"))
    assert run("doctor", "-f", empty).stdout == (
        "Nothing to look at: no node, no pod, no volume and no CSI driver.\n"
    )
    document = run("doctor", "-f", empty, "-o", "json")
    assert json.loads(document.stdout)["findings"] == []
    assert "note: Nothing to look at" in document.stderr


@pytest.mark.parametrize("option", ["--scale-down", "--consolidate"])
def test_nodes_that_nobody_can_remove_are_called_so(option: str) -> None:
    result = run("plan", *WITHOUT_GROUPS, option)
    assert result.exit_code == 2
    assert "no NodeGroup in the input, so no node can be removed: give --discover" in result.stderr
    assert "buy" not in result.stderr


def test_a_file_without_its_option_is_answered_with_the_option() -> None:
    folder = str(EXAMPLE)
    for command in ("slots", "plan", "doctor"):
        assert (
            f"Did you mean -f {folder}? See tonnage {command} --help" in run(command, folder).stderr
        )
    assert "Did you mean" not in run("slots", "/nonexistent").stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["version"], "Did you mean --version?"),
        (["help"], "Did you mean --help"),
        (["plan", "-f"], "Option '-f' requires an argument. See tonnage plan --help"),
        (["plan", "-f", str(EXAMPLE), "--expander", "x"], "error: expander: no expander 'x'; "),
        (["doctor", "explain", "TON30"], "; near matches: TON30"),
        (["why", "p", "--url", "http://127.0.0.1:1"], "/debug/decisions: Connection refused; "),
        (
            ["diff", str(EXAMPLE / "groups.yaml"), "-"],
            "such as `tonnage plan -o json` prints, found",
        ),
        (["advise", "-f", str(EXAMPLE), "--prices", "x"], "error: x: no such file or directory"),
    ],
    ids=lambda one: " ".join(one[:2]) if isinstance(one, list) else "",
)
def test_an_error_leads_on(arguments: list[str], told: str) -> None:
    assert told in run(*arguments).stderr


def test_a_cluster_without_nodes_has_no_slots(written: Written) -> None:
    for by in ("node", "driver"):
        empty = written(make.namespace("default"))
        assert run("slots", "-f", empty, "--by", by).stdout == "There are no nodes.\n"
