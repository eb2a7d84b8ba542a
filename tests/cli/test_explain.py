"""`tonnage explain`."""

import json
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.conftest import Written
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod, PodAffinityTerm, ResourceClaimReference
from tonnage.testing import builders as make

DRIVER = "disk.example.com"
EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "two-databases")


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(program, ["explain", *arguments], input=stdin)


def full_node() -> list[KubeObject]:
    """A node with one slot, taken by db-0; db-1 waits for another."""
    return [
        make.namespace("default"),
        make.node("n1"),
        make.csinode("n1", {DRIVER: 1}),
        make.storage_class("disks", DRIVER),
        make.pvc("data-0", storage_class="disks"),
        make.pvc("data-1", storage_class="disks"),
        make.pod("db-0", pvcs=["data-0"], on="n1"),
        make.pod("db-1", pvcs=["data-1"]),
    ]


FULL = "0/1 nodes are available: 1 node(s) exceed max volume count."


def test_the_first_line_is_what_kube_scheduler_would_report(written: Written) -> None:
    result = run("-f", written(*full_node()))
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, f"default/db-1: {FULL}")


def test_the_table_has_plugin_and_reason_by_node(written: Written) -> None:
    lines = run("-f", written(*full_node(), make.node("n2"))).stdout.splitlines()
    assert lines[2:] == [
        "NODE  PLUGIN            REASON",
        "n1    NodeVolumeLimits  node(s) exceed max volume count",
        "n2    -                 fits",
    ]


def test_wide_adds_code_phase_cause_and_facts(written: Written) -> None:
    line = run("-f", written(*full_node()), "-o", "wide").stdout.splitlines()[-1]
    assert [cell.strip() for cell in line.split("  ") if cell] == [
        "n1",
        "Filter",
        "NodeVolumeLimits",
        "Unschedulable",
        "node(s) exceed max volume count",
        "MaxVolumeCountExceeded",
        f"driver={DRIVER}, used=1, wanted=1, limit=1",
    ]


def test_json_is_one_versioned_document(written: Written) -> None:
    result = run("-f", written(*full_node()), "-o", "json")
    assert json.loads(result.stdout) == {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "Explanation",
        "pods": [
            {
                "pod": "default/db-1",
                "summary": FULL,
                "verdicts": [
                    {
                        "pod": "default/db-1",
                        "node": "n1",
                        "phase": "Filter",
                        "plugin": "NodeVolumeLimits",
                        "code": "Unschedulable",
                        "reasons": ["node(s) exceed max volume count"],
                        "causes": [
                            {
                                "cause": "MaxVolumeCountExceeded",
                                "facts": {"driver": DRIVER, "used": 1, "wanted": 1, "limit": 1},
                            }
                        ],
                    }
                ],
            }
        ],
    }


def test_a_node_that_fits_has_neither_phase_nor_plugin(written: Written) -> None:
    result = run("-f", written(make.node("n1"), make.pod("web")), "-o", "json")
    assert json.loads(result.stdout)["pods"][0]["verdicts"] == [
        {"pod": "default/web", "node": "n1", "code": "Success", "reasons": [], "causes": []}
    ]


def test_yaml_says_the_same_as_json(written: Written) -> None:
    file = written(*full_node())
    as_json = json.loads(run("-f", file, "-o", "json").stdout)
    assert yaml.safe_load(run("-f", file, "-o", "yaml").stdout) == as_json


def test_a_running_pod_is_asked_as_if_it_were_pending(written: Written) -> None:
    result = run("db-0", "-f", written(*full_node(), make.node("n2", unschedulable=True)))
    assert result.stdout.splitlines() == [
        "default/db-0 (runs on n1): 1/2 nodes are available",
        "",
        "NODE  PLUGIN             REASON",
        "n1 *  -                  fits",
        "n2    NodeUnschedulable  node(s) were unschedulable",
    ]


def test_json_of_a_running_pod_names_its_node(written: Written) -> None:
    result = run("db-0", "-f", written(*full_node()), "-o", "json")
    assert json.loads(result.stdout)["pods"][0]["node"] == "n1"


def test_asking_for_a_running_pod_does_not_change_the_answer_for_others(written: Written) -> None:
    result = run("db-0", "db-1", "-f", written(*full_node()))
    assert f"default/db-1: {FULL}" in result.stdout


def test_a_pod_asked_for_twice_is_explained_once(written: Written) -> None:
    result = run("db-1", "default/db-1", "-f", written(*full_node()))
    assert result.stdout.count("default/db-1:") == 1


def test_pods_that_are_pending_are_explained_in_the_order_they_came(written: Written) -> None:
    result = run("-f", written(make.node("n1"), make.pod("b"), make.pod("a")))
    assert [line for line in result.stdout.splitlines() if line.startswith("default/")] == [
        "default/b, default/a: 1/1 nodes are available",
    ]


def test_a_namespace_narrows_down_the_pending_pods(written: Written) -> None:
    pods = [make.pod("a", namespace="one"), make.pod("b", namespace="two")]
    result = run("-f", written(make.node("n1"), *pods), "-n", "two", "-o", "json")
    assert [one["pod"] for one in json.loads(result.stdout)["pods"]] == ["two/b"]


def test_no_pending_pods_is_said_so(written: Written) -> None:
    result = run("-f", written(make.node("n1")))
    assert (result.exit_code, result.stdout) == (0, "No pending pods.\n")


def test_no_nodes_is_said_as_kube_scheduler_does(written: Written) -> None:
    result = run("-f", written(make.pod("web")))
    assert result.stdout == "default/web: no nodes available to schedule pods\n"


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        pytest.param(
            "db-7",
            "no pod 'db-7' in the input; near matches: default/db-1, default/db-0",
            id="a name that comes near others",
        ),
        pytest.param(
            "defualt/db-1",
            "no pod 'defualt/db-1' in the input; near matches: default/db-1, default/db-0",
            id="a namespace that comes near",
        ),
        pytest.param(
            "kube-system-of-old/db-1",
            "no pod 'kube-system-of-old/db-1' in the input; near matches: default/db-1",
            id="the right name in a wrong namespace",
        ),
        pytest.param(
            "zzz",
            "no pod 'zzz' in the input; there are 2: default/db-0, default/db-1",
            id="nothing like it",
        ),
    ],
)
def test_an_unknown_pod_is_one_line_and_code_2(
    written: Written, asked: str, complaint: str
) -> None:
    result = run(asked, "-f", written(*full_node()))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"tonnage: error: {complaint}\n"


def test_a_name_in_several_namespaces_has_to_be_told_apart(written: Written) -> None:
    pods = [make.pod("db", namespace="one"), make.pod("db", namespace="two")]
    result = run("db", "-f", written(make.node("n1"), *pods))
    assert (result.exit_code, "which of one/db, two/db?" in result.stderr) == (2, True)


def test_a_namespace_tells_pods_of_one_name_apart(written: Written) -> None:
    pods = [make.pod("db", namespace="one"), make.pod("db", namespace="two")]
    result = run("db", "-n", "two", "-f", written(make.node("n1"), *pods))
    assert result.stdout.startswith("two/db: ")


def test_a_pod_of_another_namespace_than_asked_for_is_refused(written: Written) -> None:
    pods = [make.pod("db", namespace="one"), make.pod("db", namespace="two")]
    result = run("one/db", "-n", "two", "-f", written(make.node("n1"), *pods))
    assert (result.exit_code, "is not in namespace 'two'" in result.stderr) == (2, True)


def test_a_namespace_without_pods_is_refused(written: Written) -> None:
    result = run("-f", written(*full_node()), "-n", "shop")
    assert (result.exit_code, "there are pods in: default" in result.stderr) == (2, True)


def test_a_finished_pod_is_refused_with_its_phase(written: Written) -> None:
    result = run("job", "-f", written(make.pod("job", on="n1", phase="Succeeded")))
    assert result.exit_code == 2
    assert "default/job has finished (Succeeded)" in result.stderr


def test_namespaces_nobody_gave_are_assumed_and_noted(written: Written) -> None:
    near = make.pod("web", namespace="one", near=[_near_namespace("two")])
    there = make.pod("db", namespace="two", on="n1", labels={"app": "db"})
    result = run("-f", written(make.node("n1"), near, there))
    assert "1/1 nodes are available" in result.stdout
    assert "note: no Namespace object for one, two: assumed" in result.stderr


def test_a_warning_of_a_verdict_is_printed_with_the_table(written: Written) -> None:
    pod = make.pod("gpu")
    claims = (ResourceClaimReference(name="gpu"),)
    wanting = msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, resource_claims=claims)
    )
    lines = run("-f", written(make.node("n1"), wanting)).stdout.splitlines()
    assert lines[1].startswith("warning: the pod has resource claims")
    assert lines[-1].endswith("fits, but see the warning")


def test_several_reasons_stand_in_one_line(written: Written) -> None:
    big = make.pod("big", cpu="99", memory="999Gi")
    line = run("-f", written(make.node("n1"), big)).stdout.splitlines()[-1]
    assert line == "n1    NodeResourcesFit  Insufficient cpu, Insufficient memory"


@pytest.mark.parametrize(
    "options",
    [
        ("--feature-gates", "VolumeLimitScaling"),
        ("--feature-gates", "=true"),
        ("--feature-gates", "A=maybe"),
        ("--kubernetes-version", "1.2"),
        ("--kubernetes-version", "new"),
        ("-o", "xml"),
    ],
)
def test_a_wrong_option_is_code_2(written: Written, options: tuple[str, str]) -> None:
    result = run("-f", written(*full_node()), *options)
    assert (result.exit_code, result.stdout, options[1] in result.stderr) == (2, "", True)


def test_without_files_and_without_a_kubeconfig_files_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (run().exit_code, "give files with -f FILE" in run().stderr) == (2, True)


def test_legacy_limits_come_from_the_node(written: Written) -> None:
    file = written(
        make.node("n1", allocatable={f"attachable-volumes-csi-{DRIVER}": 0}),
        make.csinode("n1", {DRIVER: None}),
        make.storage_class("disks", DRIVER),
        make.pvc("data", storage_class="disks"),
        make.pod("db", pvcs=["data"]),
    )
    assert "1/1 nodes are available" in run("-f", file).stdout
    assert "exceed max volume count" in run("-f", file, "--legacy-attach-limits").stdout
    off = ("--legacy-attach-limits", "--feature-gates", "AttachVolumeLimit=false")
    assert "1/1 nodes are available" in run("-f", file, *off).stdout


def on_a_full_node(pod: Pod) -> tuple[KubeObject, ...]:
    """A pod and its volume, which takes the only slot of the node."""
    claim = make.pvc("data", storage_class="disks", volume="pv")
    return (
        make.node("n1"),
        make.csinode("n1", {DRIVER: 1}),
        make.storage_class("disks", DRIVER),
        claim,
        make.pv("pv", driver=DRIVER, storage_class="disks", claim=claim),
        make.attachment("pv", "n1", attacher=DRIVER),
        pod,
    )


def test_a_returning_volume_is_counted_twice_unless_asked(written: Written) -> None:
    file = written(*on_a_full_node(make.pod("db", pvcs=["data"])))
    assert "exceed max volume count" in run("-f", file).stdout
    assert "1/1 nodes" in run("-f", file, "--count-returning-volumes-once").stdout


def test_the_volumes_of_a_running_pod_leave_its_node_with_it(written: Written) -> None:
    file = written(*on_a_full_node(make.pod("db", pvcs=["data"], on="n1")))
    assert "n1 *  -       fits" in run("db", "-f", file).stdout


def _near_namespace(name: str) -> PodAffinityTerm:
    """Next to a pod of a namespace that is found by the label every namespace has."""
    return PodAffinityTerm(
        topology_key=make.HOSTNAME,
        label_selector=make.selecting({"app": "db"}),
        namespace_selector=make.selecting({"kubernetes.io/metadata.name": name}),
    )


BAD = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": 7}}'


def test_a_bad_object_is_one_line_and_code_2(written: Written, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(BAD)
    result = run("-f", written(*full_node()), "-f", str(tmp_path / "bad.json"))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "bad.json: Pod default/x: spec.containers: expected a list, found 7" in result.stderr


def test_leniently_a_bad_object_is_left_out_and_named(written: Written, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(BAD)
    result = run("--lenient", "-f", written(*full_node()), "-f", str(tmp_path / "bad.json"))
    assert (result.exit_code, f"default/db-1: {FULL}" in result.stdout) == (0, True)
    assert result.stderr.startswith("tonnage: warning: left out: ")


def test_standard_input_is_read(written: Written) -> None:
    data = Path(written(*full_node())).read_bytes()
    assert f"default/db-1: {FULL}" in run("-f", "-", stdin=data).stdout


def test_the_bundled_example_tells_its_story() -> None:
    lines = run("-f", EXAMPLE).stdout.splitlines()
    elsewhere = "2 node(s) didn't match Pod's node affinity/selector"
    zone = "2 node(s) didn't match PersistentVolume's node affinity"
    missing = "2 file.csi.azure.com CSI driver is not installed on the node"
    assert [line for line in lines if line.startswith("shop/")] == [
        f"shop/orders-3: 0/4 nodes are available: {elsewhere}, 2 node(s) exceed max volume count.",
        f"shop/orders-export-29384: 0/4 nodes are available: {missing}, {elsewhere}.",
        f"shop/search-2: 0/4 nodes are available: {zone}, {elsewhere}.",
    ]


def test_the_bundled_example_needs_no_notes() -> None:
    assert run("-f", EXAMPLE).stderr == ""


def test_help_has_examples() -> None:
    assert "Examples:\n    tonnage explain -f cluster/" in run("--help").stdout


def many(written: Written, *, nodes: int, pods: int) -> str:
    """Full nodes, and pods of a set that wait for a slot."""
    return written(
        make.namespace("default"),
        make.storage_class("disks", DRIVER),
        *(make.node(f"n{number}") for number in range(nodes)),
        *(make.csinode(f"n{number}", {DRIVER: 0}) for number in range(nodes)),
        *(make.pvc(f"data-{number}", storage_class="disks") for number in range(pods)),
        *(make.pod(f"db-{number}", pvcs=[f"data-{number}"]) for number in range(pods)),
    )


def test_many_pods_on_many_nodes_are_a_few_lines(written: Written) -> None:
    result = run("-f", many(written, nodes=500, pods=1000))
    assert result.stdout.splitlines() == [
        f"default/db-0 … db-999 (1,000 pods): {FULL.replace('1', '500')}",
        "",
        "NODES  PLUGIN            REASON                           WHICH",
        "500    NodeVolumeLimits  node(s) exceed max volume count  n0, n1, n2 and 497 more",
    ]


def test_wide_has_every_pod_and_every_node(written: Written) -> None:
    result = run("-f", many(written, nodes=12, pods=3), "-o", "wide")
    assert result.stdout.count("MaxVolumeCountExceeded") == 36


def test_alike_pods_on_few_nodes_are_answered_once(written: Written) -> None:
    result = run("-f", many(written, nodes=2, pods=4))
    assert result.stdout.startswith("default/db-0 … db-3 (4 pods): 0/2 nodes")
    assert result.stdout.count("NODE ") == 1


def test_a_pod_may_be_named_as_for_kubectl(written: Written) -> None:
    assert run("pod/db-1", "-f", written(*full_node())).stdout.startswith("default/db-1: ")


@pytest.mark.parametrize(
    ("selector", "explained"),
    [
        ("app=a", ["a"]),
        ("app!=a", ["b", "c"]),
        ("app in (a, b)", ["a", "b"]),
        ("!app", ["c"]),
        ("app", ["a", "b"]),
        ("app,app notin (a)", ["b"]),
    ],
)
def test_labels_choose_pods(written: Written, selector: str, explained: list[str]) -> None:
    pods = [make.pod("a", labels={"app": "a"}), make.pod("b", labels={"app": "b"}), make.pod("c")]
    cluster = written(make.namespace("default"), make.node("n1"), *pods)
    result = run("-f", cluster, "-l", selector, "-o", "json")
    assert [one["pod"] for one in json.loads(result.stdout)["pods"]] == [
        f"default/{name}" for name in explained
    ]


def test_labels_that_cannot_be_read_are_refused(written: Written) -> None:
    result = run("-f", written(make.node("n1")), "-l", "a in b")
    assert (result.exit_code, "expected KEY=VALUE" in result.stderr) == (2, True)


def test_all_namespaces_and_one_contradict_each_other(written: Written) -> None:
    assert run("-f", written(*full_node()), "-A", "-n", "default").exit_code == 2
    assert run("-f", written(*full_node()), "-A").exit_code == 0
