"""`tonnage slots`."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.conftest import Written
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.testing import builders as make

A, B = "a.example.com", "b.example.com"
EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "two-databases")


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(program, ["slots", *arguments], input=stdin)


def rows(result: Result) -> list[list[str]]:
    """The cells of the first table, without headings."""
    first = result.stdout.partition("\n\n")[0]
    return [line.split() for line in first.splitlines()[1:]]


def totals(result: Result) -> list[list[str]]:
    second = result.stdout.split("\n\n")[1]
    return [line.split() for line in second.splitlines()[1:]]


def volume(name: str, driver: str) -> list[KubeObject]:
    claim = make.pvc(name, volume=f"pv-{name}")
    return [claim, make.pv(f"pv-{name}", driver=driver, claim=claim)]


def cluster(*, limit: int | None = 3) -> list[KubeObject]:
    """On n1 a pod uses v1 and v2 of A, and v3 is attached for nobody."""
    return [
        make.node("n1"),
        make.csinode("n1", {A: limit}),
        *volume("v1", A),
        *volume("v2", A),
        *volume("v3", A),
        make.pod("db", pvcs=["v1", "v2"], on="n1"),
        make.attachment("pv-v1", "n1", attacher=A),
        make.attachment("pv-v3", "n1", attacher=A),
        make.namespace("default"),
    ]


def test_used_held_and_free_add_up_to_the_limit(written: Written) -> None:
    assert rows(run("-f", written(*cluster(limit=5)))) == [["n1", A, "5", "2", "1", "2", "-"]]


def test_over_the_limit_is_marked_and_nothing_is_free(written: Written) -> None:
    assert rows(run("-f", written(*cluster(limit=1)))) == [["n1", A, "1", "2", "1", "0", "2", "!"]]


def test_a_limit_of_zero_is_a_limit(written: Written) -> None:
    assert rows(run("-f", written(*cluster(limit=0))))[0][2] == "0"


def test_a_listed_driver_without_a_limit_is_unlimited(written: Written) -> None:
    assert rows(run("-f", written(*cluster(limit=None)))) == [
        ["n1", A, "unlimited", "2", "1", "-", "-"]
    ]


def test_a_driver_in_use_that_is_not_listed_is_unknown(written: Written) -> None:
    objects = [one for one in cluster() if one != make.csinode("n1", {A: 3})]
    result = run("-f", written(*objects))
    assert rows(result) == [["n1", A, "unknown", "2", "1", "-", "-"]]
    assert "Without a CSINode: n1" in result.stdout


def test_a_driver_nobody_uses_is_listed_with_its_free_slots(written: Written) -> None:
    file = written(make.node("n1"), make.csinode("n1", {B: 7}))
    assert rows(run("-f", file)) == [["n1", B, "7", "0", "0", "7", "-"]]


def test_a_volume_shared_by_pods_of_one_node_takes_one_slot(written: Written) -> None:
    sharing = make.pod("other", pvcs=["v1"], on="n1")
    assert rows(run("-f", written(*cluster(), sharing)))[0][3] == "2"


def test_wide_names_the_volumes_that_are_held(written: Written) -> None:
    assert rows(run("-f", written(*cluster()), "-o", "wide"))[0][-1] == "pv-v3"


def several() -> list[KubeObject]:
    return [
        *cluster(limit=1),
        make.node("n2"),
        make.csinode("n2", {A: 4, B: None}),
        make.node("n3"),
        make.csinode("n3", {B: 2}),
    ]


def test_totals_are_by_driver(written: Written) -> None:
    assert totals(run("-f", written(*several()))) == [
        [A, "2", "5", "2", "1", "4", "2", "!"],
        [B, "2", "2", "+", "1", "unlimited", "0", "0", "2", "-"],
    ]


def test_nodes_and_drivers_narrow_down_rows_and_totals(written: Written) -> None:
    result = run("-f", written(*several()), "--node", "n2", "--driver", A)
    assert rows(result) == [["n2", A, "4", "0", "0", "4", "-"]]
    assert totals(result) == [[A, "1", "4", "0", "0", "4", "-"]]


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (("--node", "n11"), "no node 'n11' in the input; near matches: n1"),
        (
            ("--driver", "c"),
            "no driver 'c' in the input; there are 2: a.example.com, b.example.com",
        ),
    ],
)
def test_an_unknown_node_or_driver_is_code_2(
    written: Written, option: tuple[str, str], complaint: str
) -> None:
    result = run("-f", written(*several()), *option)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"tonnage: error: {complaint}\n")


def test_json_is_one_versioned_document(written: Written) -> None:
    result = run("-f", written(*cluster(limit=2)), "-o", "json")
    counts = {"limit": 2, "used": 2, "held": 1, "free": 0, "over": 1}
    assert json.loads(result.stdout) == {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "SlotReport",
        "slots": [
            {"node": "n1", "driver": A, "state": "limited", **counts, "heldVolumes": ["pv-v3"]}
        ],
        "totals": [{"driver": A, "nodes": 1, "unlimitedNodes": 0, "unknownNodes": 0, **counts}],
        "nodesWithoutCSINode": [],
        "warnings": [],
    }


def test_json_has_no_number_where_no_limit_is_known(written: Written) -> None:
    result = run("-f", written(*cluster(limit=None)), "-o", "json")
    (slots,) = json.loads(result.stdout)["slots"]
    assert (slots["state"], slots["limit"], slots["free"]) == ("unlimited", None, None)


def test_yaml_says_the_same_as_json(written: Written) -> None:
    file = written(*several())
    as_json = json.loads(run("-f", file, "-o", "json").stdout)
    assert yaml.safe_load(run("-f", file, "-o", "yaml").stdout) == as_json


def test_claims_that_are_not_in_the_input_are_warned_about(written: Written) -> None:
    result = run("-f", written(*cluster(), make.pod("more", pvcs=["gone"], on="n1")))
    assert "1 claim(s) of running pods are not in the input" in result.stderr
    assert "default/gone" in result.stderr


def test_a_pod_whose_volumes_cannot_be_resolved_is_warned_about(written: Written) -> None:
    foreign = make.pvc("more-scratch", owner=make.pod("another"))
    pod = make.pod("more", ephemeral=["scratch"], on="n1")
    result = run("-f", written(*cluster(), foreign, pod))
    assert "pod default/more on n1: claim more-scratch belongs to another pod" in result.stderr


def test_no_drivers_anywhere_is_said_so(written: Written) -> None:
    assert run("-f", written(make.node("n1"))).stdout.splitlines() == [
        "No node has a CSI driver.",
        "",
        "Without a CSINode: n1",
    ]


def test_many_nodes_without_a_csinode_are_counted(written: Written) -> None:
    result = run("-f", written(*(make.node(f"n{i}") for i in range(9))))
    assert "Without a CSINode: n0, n1, n2, n3, n4, ... (9 nodes)" in result.stdout


def test_legacy_limits_of_nodes_are_shown_when_asked_for(written: Written) -> None:
    file = written(make.node("n1", allocatable={"attachable-volumes-aws-ebs": 25}))
    assert rows(run("-f", file, "--legacy-attach-limits")) == [
        ["n1", "ebs.csi.aws.com", "25", "0", "0", "25", "-"]
    ]


def test_the_environment_tells_the_limit_of_in_tree_volumes(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBE_MAX_PD_VOLS", "7")
    claim = make.pvc("data", storage_class="old")
    old = make.storage_class("old", "kubernetes.io/aws-ebs")
    file = written(make.node("n1"), old, claim, make.pod("db", on="n1", pvcs=["data"]))
    assert ["n1", "kubernetes.io/aws-ebs", "7", "1", "0", "6", "-"] in rows(
        run("-f", file, "--legacy-attach-limits")
    )


def test_standard_input_is_read(written: Written) -> None:
    data = Path(written(*cluster())).read_bytes()
    assert rows(run("-f", "-", stdin=data)) == [["n1", A, "3", "2", "1", "0", "-"]]


def test_the_bundled_example_is_full_where_its_story_says() -> None:
    full = [row[0] for row in rows(run("-f", EXAMPLE)) if row[5] == "0"]
    assert full == ["aks-orders-1", "aks-orders-2"]


def test_help_has_examples() -> None:
    assert "Examples:\n    tonnage slots -f cluster/" in run("--help").stdout


def test_rows_may_be_sorted_by_a_column(written: Written) -> None:
    cluster = written(
        *(make.node(name) for name in ("a", "b", "c")),
        make.csinode("a", {"disk.example.com": None}),
        make.csinode("b", {"disk.example.com": 9}),
        make.csinode("c", {"disk.example.com": 3}),
    )
    lines = run("-f", cluster, "--sort-by", "limit").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["c", "b", "a"]


def test_labels_choose_nodes(written: Written) -> None:
    cluster = written(
        make.node("a", labels={"pool": "x"}),
        make.node("b"),
        make.csinode("a", {"disk.example.com": 1}),
        make.csinode("b", {"disk.example.com": 1}),
    )
    lines = run("-f", cluster, "-l", "pool=x").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:3] if line] == ["a"]
