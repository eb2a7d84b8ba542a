"""NodeName: a pod that names its node."""

from tests.rules.asking import FITS, SKIPPED, answer, verdict, version
from tonnage.rules.node_name import NodeName
from tonnage.testing.builders import node, pod

NODES = (node("n1"), node("n2"))
OTHER = "UU: node(s) didn't match the requested node name"


def test_a_pod_that_names_no_node_is_not_looked_at() -> None:
    assert answer(NodeName(), pod("web"), NODES) == SKIPPED


def test_a_pod_fits_the_node_it_names() -> None:
    assert answer(NodeName(), pod("web", on="n1"), NODES) == FITS


def test_a_pod_is_refused_by_every_other_node() -> None:
    assert answer(NodeName(), pod("web", on="n1"), NODES, node="n2") == OTHER


def test_a_pod_that_names_a_node_which_does_not_exist_is_refused_everywhere() -> None:
    assert answer(NodeName(), pod("web", on="gone"), NODES) == OTHER


def test_1_37_leaves_other_nodes_out_before_filtering() -> None:
    left_out = verdict(pod("web", on="n1"), NODES, node="n2", of=version("1.37"))

    assert (left_out.phase, left_out.plugin) == ("PreFilter", "NodeName")
    assert left_out.texts == ["node(s) didn't satisfy plugin(s) [NodeName]"]


def test_1_36_filters_the_other_nodes() -> None:
    refused = verdict(pod("web", on="n1"), NODES, node="n2", of=version("1.36"))

    assert (refused.phase, refused.plugin) == ("Filter", "NodeName")
    assert refused.texts == ["node(s) didn't match the requested node name"]


def test_1_37_asks_for_the_name_before_the_cordon() -> None:
    nodes = (node("n1"), node("n2", unschedulable=True))

    assert verdict(pod("web", on="n1"), nodes, node="n2", of=version("1.37")).plugin == "NodeName"


def test_1_36_asks_for_the_cordon_before_the_name() -> None:
    nodes = (node("n1"), node("n2", unschedulable=True))
    refused = verdict(pod("web", on="n1"), nodes, node="n2", of=version("1.36"))

    assert refused.plugin == "NodeUnschedulable"
