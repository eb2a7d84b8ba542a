"""Node groups recognised by labels of nodes."""

import pytest

from tonnage.groups import node_labels
from tonnage.objects.labels import INSTANCE_TYPE, ZONE
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node


def node(name: str, *, annotations: dict[str, str] | None = None, **labels: str) -> Node:
    plain = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return Node(metadata=ObjectMeta(name=name, labels=plain, annotations=annotations or {}))


def labelled(name: str, labels: dict[str, str]) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"eks.amazonaws.com/nodegroup": "db", ZONE: "a"}, "db"),
        ({"alpha.eksctl.io/nodegroup-name": "db"}, "db"),
        ({"cloud.google.com/gke-nodepool": "db", ZONE: "europe-west1-b"}, "db-europe-west1-b"),
        ({"kubernetes.azure.com/agentpool": "db"}, "db"),
        ({"kops.k8s.io/instancegroup": "nodes-a"}, "nodes-a"),
        (
            {"karpenter.sh/nodepool": "any", INSTANCE_TYPE: "m5.large", ZONE: "eu-1a"},
            "any-m5-large-eu-1a",
        ),
        ({INSTANCE_TYPE: "m5.large", ZONE: "eu-1a"}, "m5-large-eu-1a"),
    ],
)
def test_every_platform_names_its_groups(labels: dict[str, str], name: str) -> None:
    (found,) = node_labels.recognise([labelled("n1", labels)]).groups
    assert found.group.metadata.name == name


def test_a_selector_means_the_nodes_it_was_made_from() -> None:
    labels = {"cloud.google.com/gke-nodepool": "db", ZONE: "b", "other": "x"}
    (found,) = node_labels.recognise([labelled("n1", labels)]).groups
    assert found.group.spec.node_selector is not None
    assert found.group.spec.node_selector.match_labels == {
        "cloud.google.com/gke-nodepool": "db",
        ZONE: "b",
    }


def test_machines_of_cluster_api_say_their_owner_in_annotations() -> None:
    said = {node_labels.OWNER_KIND: "MachineSet", node_labels.OWNER_NAME: "db-x7k2p"}
    (found,) = node_labels.recognise([node("n1", annotations=said)]).groups
    assert (found.group.metadata.name, found.group.spec.nodes) == ("db", ("n1",))


def test_a_label_of_ones_own_goes_first() -> None:
    labels = {"pool": "search", "eks.amazonaws.com/nodegroup": "db"}
    (found,) = node_labels.recognise([labelled("n1", labels)], label="pool").groups
    assert found.group.metadata.name == "search"


def test_the_control_plane_is_in_no_group() -> None:
    control = labelled(
        "c", {"node-role.kubernetes.io/control-plane": "", INSTANCE_TYPE: "m5.large"}
    )
    assert node_labels.recognise([control]) == node_labels.Recognition((), ())


def test_a_node_that_says_nothing_is_named() -> None:
    assert node_labels.recognise([labelled("n1", {})]).others == ("n1",)


def test_a_group_of_several_zones_says_so() -> None:
    nodes = [
        labelled(f"n-{zone}", {"eks.amazonaws.com/nodegroup": "db", ZONE: zone}) for zone in "ab"
    ]
    (found,) = node_labels.recognise(nodes).groups
    assert any("2 zones (a, b)" in remark for remark in found.remarks)


def test_that_sizes_are_guesses_is_said() -> None:
    (found,) = node_labels.recognise([labelled("n1", {INSTANCE_TYPE: "m5.large"})]).groups
    assert (found.group.spec.max_size, "guesses" in found.remarks[0]) == (11, True)
