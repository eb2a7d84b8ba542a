"""`tonnage plan`."""

import io
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.conftest import Written, manifest
from tests.scaleup.groups import DRIVER, group, owned_by
from tonnage.cli import waiting
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.objects.scenarios import NodeGroupSpec
from tonnage.scaleup.options import Options
from tonnage.testing import builders as make


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(program, ["plan", *arguments], input=stdin)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def row(result: Result, first: str) -> list[str]:
    """The line of a table that begins with a cell."""
    found = [cells(line) for line in result.stdout.splitlines() if line]
    return next(line for line in found if line[0] == first)


def document(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def databases(count: int, *, name: str = "db", claims: int = 1) -> list[KubeObject]:
    """Pending pods of a StatefulSet, each with its own unbound claims."""
    found: list[KubeObject] = []
    for number in range(count):
        names = [f"data{claim}-{name}-{number}" for claim in range(claims)]
        found.append(make.pod(f"{name}-{number}", pvcs=names, owner=owned_by("StatefulSet", name)))
        found += [make.pvc(claim, storage_class="disks") for claim in names]
    return found


STORAGE: list[KubeObject] = [make.namespace("default"), make.storage_class("disks", DRIVER)]


def cluster(*more: KubeObject, pods: int = 12) -> list[KubeObject]:
    """Pods with a volume each, and a group whose nodes take five."""
    return [*STORAGE, *databases(pods), group("g", slots={DRIVER: 5}, price="0.5"), *more]


# What a person reads.


def test_the_first_line_sums_up(written: Written) -> None:
    result = run("-f", written(*cluster()))
    first = result.stdout.splitlines()[0]
    assert (result.exit_code, first) == (0, "12 pending pods: 12 pods on 3 new nodes.")


def test_a_purchase_has_nodes_pods_the_fullest_resource_and_the_price(written: Written) -> None:
    result = run("-f", written(*cluster()))
    assert row(result, "BUY")[:5] == ["BUY", "NODES", "PODS", "FULLEST", "PRICE/H"]
    assert row(result, "g")[:5] == ["g", "+3", "12", f"{DRIVER} 80%", "1.5"]


def test_without_prices_there_is_no_column_for_them(written: Written) -> None:
    objects = [*STORAGE, *databases(1), group("g", slots={DRIVER: 5})]
    assert "PRICE/H" not in run("-f", written(*objects)).stdout


def test_a_purchase_says_why_this_group(written: Written) -> None:
    assert len(row(run("-f", written(*cluster())), "g")) == 6


def test_limits_of_new_nodes_have_their_source(written: Written) -> None:
    assert f"g      {DRIVER}  5               provider" in run("-f", written(*cluster())).stdout


def test_the_lower_bound_is_told(written: Written) -> None:
    result = run("-f", written(*cluster()))
    assert "At least 3 nodes of these groups are needed; the plan buys 3, for 1.5 an hour" in (
        result.stdout
    )


def test_pods_that_fit_on_nodes_that_are_there_are_counted(written: Written) -> None:
    objects = [make.node("n1"), make.pod("web"), group("g")]
    first = run("-f", written(*objects)).stdout.splitlines()[0]
    assert first == "1 pending pod: 1 pod on nodes that are there."


def test_pods_that_fit_on_nodes_that_are_coming_up_are_counted(written: Written) -> None:
    objects = [make.pod("web"), group("g", target=1)]
    first = run("-f", written(*objects)).stdout.splitlines()[0]
    assert first == "1 pending pod: 1 pod on nodes that are coming up."


def test_wide_lists_who_goes_where(written: Written) -> None:
    there = make.pod("web", node_selector={make.HOSTNAME: "n1"})
    objects = [*cluster(pods=2), make.node("n1"), make.csinode("n1", {DRIVER: 0}), there]
    result = run("-f", written(*objects), "-o", "wide")
    assert row(result, "NODE") == ["NODE", "NEW IN", "PENDING PODS THAT GO THERE"]
    assert row(result, "n1") == ["n1", "-", "default/web"]
    assert row(result, "g-new-1") == ["g-new-1", "g", "default/db-0, db-1 (2 pods)"]


def test_without_pending_pods_there_is_nothing_to_do(written: Written) -> None:
    result = run("-f", written(group("g", slots={DRIVER: 5})))
    assert result.stdout.splitlines()[0] == "Nothing to do: no pod waits for a node."


def test_who_can_never_fit_is_told_what_the_nearest_group_lacks(written: Written) -> None:
    objects = [*STORAGE, *databases(1, claims=28), group("db-large", slots={DRIVER: 25})]
    result = run("-f", written(*objects))
    assert row(result, "default/db-0")[1] == (
        f"fits no group, ever: 28 volumes of {DRIVER} wanted, best group db-large has 25"
    )


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (make.pod("big", cpu="4500m"), "4.5 CPU wanted, best group g has 4"),
        (make.pod("big", memory="64Gi"), "64 GiB of memory wanted, best group g has 16 GiB"),
        (
            make.pod("big", requests={"example.com/gpu": 2}),
            "2 of example.com/gpu wanted, best group g has 0",
        ),
    ],
    ids=["cpu", "memory", "devices"],
)
def test_a_shortage_is_in_the_units_people_use(
    written: Written, pod: KubeObject, said: str
) -> None:
    result = run("-f", written(make.namespace("default"), group("g", cpu="4"), pod))
    assert row(result, "default/big")[1].endswith(said)


def test_who_is_left_out_otherwise_is_told_what_the_groups_say(written: Written) -> None:
    objects = [*STORAGE, *databases(7), group("g", slots={DRIVER: 5}, most=1)]
    result = run("-f", written(*objects))
    assert row(result, "default/db-5, db-6 (2 pods)")[1] == "g: max node group size reached"


def test_a_thousand_pods_of_one_set_are_one_line(written: Written) -> None:
    objects = [*STORAGE, *databases(1000, claims=2), group("g", slots={DRIVER: 1})]
    result = run("-f", written(*objects))
    assert row(result, "default/db-0 … db-999 (1,000 pods)")


def test_who_can_never_fit_comes_first(written: Written) -> None:
    objects = [
        *STORAGE,
        *databases(6),
        *databases(1, name="huge", claims=9),
        group("g", slots={DRIVER: 5}, most=1),
    ]
    lines = run("-f", written(*objects)).stdout.splitlines()
    left_out = lines[next(i for i, line in enumerate(lines) if line.startswith("LEFT OUT")) + 1 :]
    assert [cells(line)[0] for line in left_out[:2]] == ["default/huge-0", "default/db-5"]


def test_long_lists_of_those_left_out_are_cut_short_unless_wide(written: Written) -> None:
    many = [one for number in range(30) for one in databases(1, name=f"s{number}x", claims=9)]
    file = written(*STORAGE, *many, group("g", slots={DRIVER: 5}))
    assert "… and 10 more pods; -o wide has them all" in run("-f", file).stdout
    assert "more pods" not in run("-f", file, "-o", "wide").stdout


def test_wide_has_the_verdict_of_every_group(written: Written) -> None:
    objects = [*STORAGE, *databases(1, claims=9), group("g", slots={DRIVER: 5})]
    lines = run("-f", written(*objects), "-o", "wide").stdout.splitlines()
    assert ["default/db-0", "g", "NodeVolumeLimits", "Unschedulable"] in [
        cells(line)[:4] for line in lines
    ]


def test_warnings_are_on_standard_error(written: Written) -> None:
    objects = [*STORAGE, *databases(1), group("g")]
    result = run("-f", written(*objects))
    assert f"tonnage: warning: group g: nothing tells how many volumes of driver {DRIVER}" in (
        result.stderr
    )


# What a program reads.


def test_json_is_the_plan(written: Written) -> None:
    found = document(run("-f", written(*cluster()), "-o", "json"))
    assert (found["apiVersion"], found["kind"]) == ("tonnage.dev/v1alpha1", "Plan")
    assert [(one["group"], one["delta"]) for one in found["scaleUps"]] == [("g", 3)]
    assert found["limits"] == [{"group": "g", "driver": DRIVER, "count": 5, "source": "provider"}]


def test_yaml_says_the_same_as_json(written: Written) -> None:
    file = written(*cluster())
    as_json = document(run("-f", file, "-o", "json"))
    assert yaml.safe_load(run("-f", file, "-o", "yaml").stdout) == as_json


def test_pods_left_out_do_not_change_the_exit_code(written: Written) -> None:
    assert run("-f", written(*cluster(pods=99))).exit_code == 0


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--fail-on", "not-helped"], 1),
        (["--fail-on", "warnings"], 0),
        (["--fail-on", "warnings", "--fail-on", "not-helped"], 1),
    ],
)
def test_pods_left_out_change_it_if_asked(written: Written, flags: list[str], code: int) -> None:
    assert run("-f", written(*cluster(pods=99)), *flags).exit_code == code


def test_warnings_change_the_exit_code_if_asked(written: Written) -> None:
    objects = [*STORAGE, *databases(1), group("g")]
    result = run("-f", written(*objects), "--fail-on", "warnings", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)["kind"]) == (1, "Plan")
    assert "ends with code 1: 1 warning" in result.stderr


# What is asked.


def test_groups_may_come_from_a_file_of_their_own(written: Written) -> None:
    pods = written(*STORAGE, *databases(1), name="pods.json")
    groups = written(group("g", slots={DRIVER: 5}), name="groups.json")
    assert "1 pod on 1 new node" in run("-f", pods, "--node-groups", groups).stdout


def test_without_groups_it_says_how_to_give_one(written: Written) -> None:
    result = run("-f", written(*STORAGE, *databases(1)))
    assert result.exit_code == 2
    assert "no NodeGroup in the input" in result.stderr
    assert "--node-groups FILE" in result.stderr


def scenario(tmp_path: Path, *objects: KubeObject, **spec: object) -> str:
    path = tmp_path / "scenario.json"
    fields = {**spec, "objects": [manifest(one) for one in objects]}
    path.write_bytes(
        msgspec.json.encode(
            {
                "apiVersion": "tonnage.dev/v1alpha1",
                "kind": "Scenario",
                "metadata": {"name": "s"},
                "spec": fields,
            }
        )
    )
    return str(path)


def bought(result: Result) -> dict[str, int]:
    return {one["group"]: one["delta"] for one in document(result)["scaleUps"]}


def test_options_of_a_scenario_are_used(tmp_path: Path) -> None:
    file = scenario(tmp_path, *cluster(), options={"maxNodesTotal": 1})
    assert bought(run("-f", file, "-o", "json")) == {"g": 1}


def test_flags_go_before_the_options_of_a_scenario(tmp_path: Path) -> None:
    file = scenario(tmp_path, *cluster(), options={"maxNodesTotal": 1})
    assert bought(run("-f", file, "-o", "json", "--max-nodes-total", "2")) == {"g": 2}


def test_flags_leave_the_other_options_of_a_scenario_alone(tmp_path: Path) -> None:
    file = scenario(tmp_path, *cluster(), options={"maxNodesTotal": 1})
    assert bought(run("-f", file, "-o", "json", "--expander", "most-pods")) == {"g": 1}


@pytest.mark.parametrize(
    ("flags", "group_bought"),
    [
        ([], "small"),
        (["--expander", "least-nodes"], "large"),
        (["--option", "expander=least-nodes"], "large"),
        (["--expander", "price"], "small"),
        (["--expander", "least-nodes", "--option", "expander=least-waste"], "large"),
    ],
)
def test_the_expander_decides_between_groups(
    written: Written, flags: list[str], group_bought: str
) -> None:
    small = group("small", cpu="4", price="0.1")
    large = group("large", cpu="16", price="9")
    pods = [make.pod(f"web-{number}", cpu="2") for number in range(4)]
    file = written(make.namespace("default"), small, large, *pods)
    assert list(bought(run("-f", file, "-o", "json", *flags))) == [group_bought]


@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "in a ConfigMap"])
def test_priorities_come_from_a_file(written: Written, tmp_path: Path, wrapped: bool) -> None:
    text = "10:\n  - second\n5:\n  - .*\n"
    config = {"kind": "ConfigMap", "apiVersion": "v1", "data": {"priorities": text}}
    path = tmp_path / "priorities.yaml"
    path.write_text(yaml.safe_dump(config) if wrapped else text)
    file = written(make.namespace("default"), group("first"), group("second"), make.pod("web"))
    flags = ["--expander", "priority", "--priorities", str(path)]
    assert list(bought(run("-f", file, "-o", "json", *flags))) == ["second"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("ten: [a]\n", "priorities: 'ten': expected a whole number"),
        ("kind: ConfigMap\ndata: {}\n", "a ConfigMap without data.priorities"),
        ("10: ['[']\n", "priorities[10]: '['"),
    ],
)
def test_bad_priorities_are_refused_by_file(
    written: Written, tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "priorities.yaml"
    path.write_text(content)
    result = run("-f", written(*cluster()), "--priorities", str(path))
    assert (result.exit_code, f"{path}: {said}" in result.stderr) == (2, True)


def test_without_csi_awareness_slots_of_new_nodes_are_not_counted(written: Written) -> None:
    file = written(*cluster())
    assert bought(run("-f", file, "-o", "json", "--no-csi-aware")) == {"g": 1}


def test_balance_splits_between_groups_that_are_alike(written: Written) -> None:
    objects = [
        *STORAGE,
        *databases(20),
        group("a", slots={DRIVER: 5}),
        group("b", slots={DRIVER: 5}),
    ]
    assert bought(run("-f", written(*objects), "-o", "json", "--balance")) == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("maxNodesTotal=many", "options.maxNodesTotal: Expected `int`, got `str`"),
        ("nonsense=1", "options: there is no nonsense; expected one of expander, csiAware, "),
        ("maxNodeTotal=1", "options: there is no maxNodeTotal; expected one of maxNodesTotal"),
        ("compatibility=1.37", "options.compatibility: '1.37': expected none or"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(written: Written, option: str, said: str) -> None:
    result = run("-f", written(*cluster()), "--option", option)
    assert (result.exit_code, said in result.stderr) == (2, True)


def test_an_option_without_value_is_wrong_usage(written: Written) -> None:
    result = run("-f", written(*cluster()), "--option", "maxNodesTotal")
    assert (result.exit_code, "expected KEY=VALUE" in result.stderr) == (2, True)


def test_a_list_may_be_written_with_commas(written: Written) -> None:
    flags = ["--option", "startupTaints=a,b", "--option", 'statusTaints=["c"]']
    assert run("-f", written(*cluster()), *flags).exit_code == 0


def test_an_unknown_expander_is_refused(written: Written) -> None:
    result = run("-f", written(*cluster()), "--expander", "cheapest")
    assert (result.exit_code, "'cheapest' is none; expected" in result.stderr) == (2, True)


def test_a_plan_that_ran_out_of_time_says_so(written: Written) -> None:
    result = run("-f", written(*cluster()), "--time-budget", "0.000001")
    assert "The plan is partial" in result.stdout


def test_the_time_of_the_manifests_decides_what_is_young(written: Written) -> None:
    pod = make.pod("web")
    young = msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=make.A_WHILE_AGO)
    )
    file = written(make.namespace("default"), group("g"), young)
    flags = ["-o", "json", "--option", "newPodScaleUpDelay=60"]
    assert bought(run("-f", file, *flags, "--now", make.A_WHILE_AGO)) == {}
    assert bought(run("-f", file, *flags)) == {"g": 1}


def test_a_wrong_time_is_wrong_usage(written: Written) -> None:
    result = run("-f", written(*cluster()), "--now", "noon")
    assert (result.exit_code, "RFC 3339" in result.stderr) == (2, True)


def test_an_older_kubernetes_does_not_know_the_opt_in(written: Written) -> None:
    objects = [*STORAGE, *databases(1), make.csidriver(DRIVER, opt_in=True), group("g")]
    file = written(*objects)
    assert bought(run("-f", file, "-o", "json")) == {}
    assert bought(run("-f", file, "-o", "json", "--kubernetes-version", "1.36")) == {"g": 1}


def test_a_bad_object_is_left_out_leniently(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    broken = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}}
    items = [broken, *(manifest(one) for one in cluster())]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run("-f", str(path)).exit_code == 2
    assert run("-f", str(path), "--lenient").exit_code == 0


def test_every_option_is_documented_with_its_default() -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "planning.md").read_text()
    documented = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.MULTILINE))
    encoded = {
        field.encode_name: msgspec.json.encode(field.default).decode().strip('"') or '""'
        for field in msgspec.structs.fields(Options)
        if field.default is not msgspec.NODEFAULT
    }
    # Mutable defaults are made anew for each record; the only ones are empty mappings.
    names = [field.encode_name for field in msgspec.structs.fields(Options)]
    assert documented == {name: encoded.get(name, "{}") for name in names}


@pytest.mark.parametrize(
    "field", [field.encode_name for field in msgspec.structs.fields(NodeGroupSpec)]
)
def test_every_field_of_a_node_group_is_documented(field: str) -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "planning.md").read_text()
    section = text.partition("## Node groups\n")[2].partition("\n## ")[0]
    assert re.search(rf"^\| .*`{field}[`.]", section, re.MULTILINE)


# What if.


def test_another_limit_changes_what_is_bought(written: Written) -> None:
    result = run("-f", written(*cluster()), "--what-if", f"limit={DRIVER}:12", "-o", "json")
    assert bought(result) == {"g": 1}


def test_the_table_ends_with_the_difference_in_one_line(written: Written) -> None:
    result = run("-f", written(*cluster()), "--what-if", f"limit={DRIVER}:12")
    assert result.stdout.splitlines()[-1] == (
        "Against the cluster as it is: 2 nodes less (g -2), 1 limit changed."
    )


def test_more_pods_need_more_nodes(written: Written) -> None:
    file = written(*cluster())
    more = written(*databases(5, name="new"), name="more.json")
    result = run("-f", file, "--what-if", f"add-pods={more}")
    assert result.stdout.splitlines()[-1].startswith(
        "Against the cluster as it is: 1 node more (g +1)"
    )
    assert "5 pods new and helped" in result.stdout


def test_a_node_less_makes_its_pods_wait(written: Written) -> None:
    node = [make.node("n1"), make.csinode("n1", {DRIVER: 5})]
    pod = make.pod("db-0", pvcs=["data"], on="n1", owner=owned_by("StatefulSet"))
    claim = make.pvc("data", storage_class="disks")
    objects = [*STORAGE, *node, pod, claim, group("g", nodes=["n1"], template=False)]
    result = run("-f", written(*objects), "--what-if", "remove-node=n1", "-o", "json")
    assert bought(result) == {"g": 1}


@pytest.mark.parametrize("reverse", [False, True], ids=["before it goes", "after it went"])
def test_a_limit_holds_for_a_group_whose_last_node_is_removed(
    written: Written, reverse: bool
) -> None:
    node = [make.node("n1"), make.csinode("n1", {DRIVER: 5})]
    objects = [*STORAGE, *node, *databases(12), group("g", nodes=["n1"], template=False)]
    changes = [f"--what-if=limit={DRIVER}:12", "--what-if=remove-node=n1"]
    result = run("-f", written(*objects), "-o", "json", *(changes[::-1] if reverse else changes))
    assert [(one["group"], one["count"]) for one in document(result)["limits"]] == [("g", 12)]


def test_the_last_node_of_a_group_is_remembered(written: Written) -> None:
    node = [make.node("n1"), make.csinode("n1", {DRIVER: 5})]
    objects = [*STORAGE, *node, *databases(1), group("g", nodes=["n1"], template=False)]
    result = run("-f", written(*objects), "-o", "json", "--what-if", "remove-node=n1")
    assert [one["source"] for one in document(result)["limits"]] == ["remembered"]


def test_opting_in_keeps_pods_off_groups_without_the_driver(written: Written) -> None:
    file = written(*STORAGE, *databases(1), group("g"))
    result = run("-f", file, "--what-if", f"opt-in={DRIVER}")
    assert "1 pod no longer helped" in result.stdout.splitlines()[-1]
    assert "no CSIDriver object of this name in the input; one is assumed" in result.stderr


def test_opting_in_with_the_gate_off_is_noted(written: Written) -> None:
    flags = ["--what-if", f"opt-in={DRIVER}", "--feature-gates", "VolumeLimitScaling=false"]
    result = run("-f", written(*cluster()), *flags)
    assert "of no effect while the gate VolumeLimitScaling is off" in result.stderr


@pytest.mark.parametrize(
    "change", ["nonsense", "limit=x", "remove-node=n9", "add-pods=absent.yaml", "limit=y:3"]
)
def test_a_change_that_cannot_be_made_is_one_line_and_code_2(written: Written, change: str) -> None:
    result = run("-f", written(*cluster()), "--what-if", change)
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)


# A sign of life.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_work_shows_a_line_on_a_terminal_and_takes_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with waiting.shown("deciding", patience=0.001):
        deadline = time.monotonic() + 5
        while "deciding" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.001)
    assert terminal.getvalue() == f"\rdeciding, 0 s\r{' ' * 13}\r"


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with waiting.shown("deciding"):
        pass
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with waiting.shown("deciding", patience=0.0):
        time.sleep(0.01)
    assert file.getvalue() == ""
