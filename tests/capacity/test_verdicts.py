"""By kube-scheduler's rules: what an imagined node is refused for, and what the object changes."""

from tests.capacity.capacity_objects import DRIVER, a_class, a_node, driver, its_disk, published
from tests.rules.asking import answer
from tonnage.groups import node_sanitiser
from tonnage.groups.policy import GroupPolicy
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSIStorageCapacity
from tonnage.rules.volume_binding import VolumeBinding
from tonnage.testing import builders

REFUSED = "UU: node(s) did not have enough free storage"
LIVE = a_node("n1")


def imagined() -> Node:
    """After a live node, by upstream's rules: own name and hostname, and the label."""
    return node_sanitiser.node(LIVE, "template-node-for-g-1", host_keys=(), policy=GroupPolicy())


def pod() -> Pod:
    return builders.pod("db", pvcs=["data"])


def verdict(node: Node, *capacities: CSIStorageCapacity) -> str:
    objects = [
        driver(), a_class(), builders.pvc("data", storage_class="fast", size="60Gi"), node,
        builders.csinode(node.metadata.name, {DRIVER: None}), *capacities,
    ]  # fmt: skip
    return answer(VolumeBinding(), pod(), objects, node=node.metadata.name)


def test_an_imagined_node_is_refused_without_the_object() -> None:
    assert verdict(imagined(), its_disk("n1", "100Gi")) == REFUSED


def test_an_imagined_node_is_accepted_with_the_object() -> None:
    assert verdict(imagined(), its_disk("n1", "100Gi"), *published(a_class(), LIVE)) == "fits"


def test_an_imagined_node_is_refused_for_more_than_the_object_says() -> None:
    assert verdict(imagined(), *published(a_class("fast", "50Gi"), LIVE)) == REFUSED


def test_an_imagined_node_of_another_group_is_refused() -> None:
    assert verdict(imagined(), *published(a_class(), a_node("n9", "c5"))) == REFUSED


def test_a_real_node_never_matches_the_object() -> None:
    assert verdict(LIVE, its_disk("n1", "1Gi"), *published(a_class(), LIVE)) == REFUSED
