"""`tonnage slots --by`."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import Written
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.testing import builders as make

EBS = "ebs.csi.aws.com"
M5 = "m5.large"


def machine(name: str, kind: str = M5) -> Node:
    return make.node(name, cpu="2", memory="8Gi", labels={"node.kubernetes.io/instance-type": kind})


def using(name: str, node: str, driver: str = EBS) -> list[KubeObject]:
    """A pod on a node with half a CPU, one GiB and a volume."""
    claim = make.pvc(f"{name}-data", volume=f"{name}-pv")
    return [
        claim,
        make.pv(f"{name}-pv", driver=driver, claim=claim),
        make.pod(name, pvcs=[f"{name}-data"], cpu="500m", memory="1Gi", on=node),
    ]


def cluster() -> list[KubeObject]:
    """Two nodes of a group, one full with 1.5 CPU and 7 GiB free; one elsewhere; an empty group."""
    return [
        make.namespace("default"),
        machine("n1"),
        machine("n2"),
        machine("n3", "m7i.large"),
        make.csinode("n1", {EBS: 1}),
        make.csinode("n2", {EBS: 3}),
        make.csinode("n3", {EBS: 31}),
        *using("a", "n1"),
        *using("b", "n2"),
        make.attachment("c-pv", "n2", attacher=EBS),
        make.pv("c-pv", driver=EBS),
        NodeGroup(
            metadata=ObjectMeta(name="dbs"),
            spec=NodeGroupSpec(max_size=5, nodes=("n1", "n2"), limits={EBS: 20}),
        ),
        NodeGroup(
            metadata=ObjectMeta(name="empty"),
            spec=NodeGroupSpec(max_size=5, template=GroupTemplate(node=machine("t", "m6i.large"))),
        ),
    ]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["slots", *arguments])


def shares(file: str, by: str, *arguments: str) -> list[dict[str, Any]]:
    document = json.loads(run("-f", file, "--by", by, "-o", "json", *arguments).stdout)
    assert (document["kind"], document["by"]) == ("StrandingReport", by)
    found: list[dict[str, Any]] = document["shares"]
    return found


def test_by_node_is_what_slots_prints_anyway(written: Written) -> None:
    file = written(*cluster())
    assert run("-f", file, "--by", "node").stdout == run("-f", file).stdout


def test_by_driver_adds_up_everything(written: Written) -> None:
    (found,) = shares(written(*cluster()), "driver")
    numbers = [found[name] for name in ("nodes", "limit", "used", "held", "free", "over")]
    assert numbers == [3, 35, 2, 1, 32, 0]


def test_by_type_has_a_share_for_each_instance_type(written: Written) -> None:
    found = shares(written(*cluster()), "type")
    assert [(one["type"], one["nodes"], one["limit"]) for one in found] == [
        (M5, 2, 4),
        ("m7i.large", 1, 31),
    ]


def test_by_group_has_nodes_of_no_group_and_groups_of_no_node(written: Written) -> None:
    found = shares(written(*cluster()), "group")
    assert [(one["group"], one["nodes"]) for one in found] == [
        ("(no group)", 1),
        ("dbs", 2),
        ("empty", 0),
    ]


def test_a_group_says_what_its_next_node_has_and_who_says_so(written: Written) -> None:
    _, dbs, empty = shares(written(*cluster()), "group")
    assert dbs["newNode"] == {"count": 20, "source": "override"}
    assert empty["newNode"] == {"count": 26, "source": "catalogue"}


def test_what_is_free_on_a_node_without_a_slot_is_stranded(written: Written) -> None:
    (found,) = shares(written(*cluster()), "driver")
    assert found["fullNodes"] == ["n1"]
    assert (found["strandedCPU"], found["strandedMemory"]) == ("1500m", 7 * 2**30)


def test_types_that_would_strand_less_are_named_with_their_slots(written: Written) -> None:
    found, _ = shares(written(*cluster()), "type")
    assert [(one["instanceType"], one["count"]) for one in found["denserTypes"]] == [
        ("m7a.large", 31),
        ("m7i.large", 31),
        ("m8a.large", 31),
    ]


def test_where_nothing_is_stranded_no_other_type_is_named(written: Written) -> None:
    _, other = shares(written(*cluster()), "type")
    assert (other["fullNodes"], other["denserTypes"]) == ([], [])


def test_a_node_with_a_limit_of_zero_and_no_volume_strands_nothing(written: Written) -> None:
    (found,) = shares(written(machine("n1"), make.csinode("n1", {EBS: 0})), "driver")
    assert found["fullNodes"] == []


def test_the_source_of_a_limit_is_what_the_agent_of_the_node_says(written: Written) -> None:
    published = '{"ebs.csi.aws.com": {"key": "k", "count": 16, "source": "measured"}}'
    node = machine("n1")
    node.metadata.annotations["tonnage.dev/attach-limits"] = published
    (found,) = shares(written(node, make.csinode("n1", {EBS: 16})), "driver")
    assert found["sources"] == ["measured"]


def test_a_driver_in_use_that_its_node_does_not_list_is_of_unknown_source(written: Written) -> None:
    objects = [make.namespace("default"), machine("n1"), make.csinode("n1"), *using("a", "n1")]
    (found,) = shares(written(*objects), "type")
    assert (found["sources"], found["unknownNodes"]) == (["unknown"], 1)


def test_the_table_names_types_with_their_slots(written: Written) -> None:
    line = run("-f", written(*cluster()), "--by", "type").stdout.splitlines()[1]
    assert "1.5" in line.split()
    assert "7.0Gi" in line.split()
    assert line.endswith("m7a.large (31 slots), m7i.large (31 slots), m8a.large (31 slots)")


def test_drivers_narrow_it_down(written: Written) -> None:
    extra = make.csinode("n3", {EBS: 31, "other.example": None})
    objects = [one for one in cluster() if one != make.csinode("n3", {EBS: 31})]
    found = shares(written(*objects, extra), "driver", "--driver", "other.example")
    assert [one["driver"] for one in found] == ["other.example"]


def test_groups_may_come_from_a_file_of_their_own(written: Written) -> None:
    objects = cluster()
    groups = written(*objects[-2:], name="groups.json")
    nodes = written(*objects[:-2])
    result = run("-f", nodes, "--by", "group", "--node-groups", groups)
    assert [line.split()[0] for line in result.stdout.splitlines()[2:]] == ["dbs", "empty"]


def test_no_group_in_the_input_is_warned_about(written: Written) -> None:
    result = run("-f", written(*cluster()[:-2]), "--by", "group")
    assert "there is no NodeGroup in the input" in result.stderr


@pytest.mark.parametrize("by", ["group", "type", "driver"])
def test_nodes_cannot_be_named_where_nodes_are_added_up(written: Written, by: str) -> None:
    result = run("-f", written(*cluster()), "--by", by, "--node", "n1")
    assert (result.exit_code, "--node narrows down --by node" in result.stderr) == (2, True)


def test_no_driver_anywhere_is_said_so(written: Written) -> None:
    assert run("-f", written(make.node("n1")), "--by", "type").stdout == (
        "No node has a CSI driver.\n"
    )
