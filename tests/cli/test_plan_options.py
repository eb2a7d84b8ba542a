"""`tonnage plan`: what it is asked, by flags, files and Scenarios."""

import json
import re
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.cli.conftest import Written, manifest
from tests.cli.planning import STORAGE, bought, cluster, databases, run
from tests.scaleup.groups import DRIVER, group
from tonnage.groups.options import Options
from tonnage.groups.scale_down_options import ScaleDownOptions
from tonnage.objects.kinds import KubeObject
from tonnage.objects.scenarios import NodeGroupSpec
from tonnage.scaleup import expanders
from tonnage.testing import builders as make


def test_help_names_every_expander() -> None:
    told = "".join(run("--help-all").stdout.split())
    assert [name for name in expanders.NAMES if name not in told] == []


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
        ("maxNodesTotal=many", 'options.maxNodesTotal: expected a whole number, found "many"'),
        ("nonsense=1", "options: there is no nonsense; expected one of expander, csiAware, "),
        ("maxNodeTotal=1", "options: there is no maxNodeTotal; expected one of maxNodesTotal"),
        (
            "compatibility=1.37",
            "options.compatibility: expected none or cluster-autoscaler",
        ),
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
    assert (result.exit_code, "no expander 'cheapest'; expected" in result.stderr) == (2, True)


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


def test_every_option_of_scale_up_is_documented_with_its_default() -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "planning.md").read_text()
    documented = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.MULTILINE))
    encoded = {
        field.encode_name: msgspec.json.encode(field.default).decode().strip('"') or '""'
        for field in msgspec.structs.fields(Options)
        if field.default is not msgspec.NODEFAULT
    }
    # Mutable defaults are made anew for each record; the only ones are empty mappings.
    others = {field.name for field in msgspec.structs.fields(ScaleDownOptions)}
    names = [
        field.encode_name for field in msgspec.structs.fields(Options) if field.name not in others
    ]
    assert documented == {name: encoded.get(name, "{}") for name in names}


@pytest.mark.parametrize(
    "field", [field.encode_name for field in msgspec.structs.fields(NodeGroupSpec)]
)
def test_every_field_of_a_node_group_is_documented(field: str) -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "planning.md").read_text()
    section = text.partition("## Node groups\n")[2].partition("\n## ")[0]
    assert re.search(rf"^\| .*`{field}[`.]", section, re.MULTILINE)


def lacking(*more: KubeObject) -> list[KubeObject]:
    """A node with room and without the driver, which opted in, and a group whose nodes have it."""
    driver = make.csidriver(DRIVER, opt_in=True)
    return [*cluster(pods=5), make.node("n1"), make.csinode("n1"), driver, *more]


EXTENDER = make.pod("x", on="n1", labels={"app.kubernetes.io/name": "tonnage-extender"})


@pytest.mark.parametrize(
    ("more", "flags", "expected"),
    [
        pytest.param([], [], {}, id="1.36 does not look at the opt-in"),
        pytest.param([EXTENDER], [], {"g": 1}, id="our extender does"),
        pytest.param([EXTENDER], ["--enforce-opt-in", "as-server"], {}, id="it is not asked"),
        pytest.param([], ["--enforce-opt-in", "always"], {"g": 1}, id="somebody does"),
        pytest.param([], ["--option", "enforceOptIn=always"], {"g": 1}, id="as an option"),
        pytest.param(
            [EXTENDER],
            ["--enforce-opt-in", "always", "--option", "compatibility=cluster-autoscaler-1.37"],
            {},
            id="upstream knows of nobody but kube-scheduler",
        ),
    ],
)
def test_a_node_is_bought_for_pods_that_whoever_enforces_the_opt_in_keeps_off(
    written: Written, more: list[KubeObject], flags: list[str], expected: dict[str, int]
) -> None:
    file = written(*lacking(*more))
    result = run("-f", file, "--kubernetes-version", "1.36", "-o", "json", *flags)
    assert bought(result) == expected


def test_it_is_said_why_the_opt_in_counts(written: Written) -> None:
    result = run("-f", written(*lacking(EXTENDER)), "--kubernetes-version", "1.36")
    assert f"note: pods are kept off nodes without {DRIVER}" in result.stderr
    assert "pod default/x is tonnage extender" in result.stderr


def test_an_unknown_answer_to_who_enforces_is_refused(tmp_path: Path) -> None:
    result = run("-f", scenario(tmp_path, *cluster(), options={"enforceOptIn": "sometimes"}))
    assert result.exit_code == 2
    assert "options.enforceOptIn" in result.stderr
    assert 'expected auto or always or as-server, found "sometimes"' in result.stderr
