"""What is wrong with an object that is used all the same; and that nothing usual is."""

import pytest

from tonnage.objects import codec, kinds
from tonnage.objects.kinds import KubeObject
from tonnage.objects.oddities import first_oddity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def read(kind: str, **parts: object) -> KubeObject:
    row = next(row for row in kinds.ALL if row.kind == kind)
    return codec.convert({"metadata": {"name": "x"}, **parts}, row)


def pod(**spec: object) -> KubeObject:
    return read("Pod", spec={"containers": [{"name": "a"}], **spec})


def in_nodes(*terms: object) -> dict[str, object]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


USUAL = {
    "a plain pod": pod(),
    "the tolerations every pod gets": pod(
        tolerations=[
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
        ]
    ),
    "a toleration of everything": pod(tolerations=[{"operator": "Exists"}]),
    "an empty term, which matches nothing": pod(affinity=in_nodes({})),
    "a number to compare with": pod(
        affinity=in_nodes({"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["3"]}]})
    ),
    "a node by its name": pod(
        affinity=in_nodes(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        )
    ),
    "a class that says nothing of binding": read("StorageClass", provisioner="p"),
    "two drivers": read(
        "CSINode", spec={"drivers": [{"name": "a", "nodeID": "x"}, {"name": "b", "nodeID": "x"}]}
    ),
    "a node, which is not looked at": read("Node"),
}


@pytest.mark.parametrize("obj", USUAL.values(), ids=USUAL)
def test_nothing_is_wrong_with(obj: KubeObject) -> None:
    assert first_oddity(obj) is None


def test_the_very_requirement_is_named() -> None:
    good = {"key": "a", "operator": "Exists"}
    bad = {"key": "n", "operator": "Gt", "values": ["many"]}
    fault = first_oddity(pod(affinity=in_nodes({}, {"matchExpressions": [good, bad]})))
    assert fault is not None
    assert codec.render(fault.path).endswith("nodeSelectorTerms[1].matchExpressions[1]")
    assert fault.found == "n Gt ['many']"


def test_fields_that_cannot_be_looked_at_in_that_way_are_named() -> None:
    fields = {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}
    fault = first_oddity(pod(affinity=in_nodes(fields)))
    assert fault is not None
    assert codec.render(fault.path).endswith("nodeSelectorTerms[0].matchFields[0]")


def test_a_name_that_no_server_has_for_a_field_is_named() -> None:
    fault = first_oddity(read("CSIDriver", spec={"preventPodPlacementWithoutDriver": True}))
    assert fault is not None
    assert codec.render(fault.path) == "spec.preventPodPlacementWithoutDriver"
    assert fault.expected == "preventPodSchedulingIfMissing"


def test_a_key_that_no_label_has_is_named() -> None:
    term = {"matchLabelExpressions": [{"key": "a b", "values": ["z1"]}]}
    fault = first_oddity(read("StorageClass", provisioner="p", allowedTopologies=[term]))
    assert fault is not None
    assert (fault.expected, fault.found) == ("the key of a label", '"a b"')
