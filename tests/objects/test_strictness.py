"""Unknown fields: an error in our own kinds, nothing at all in those of Kubernetes."""

import json
from typing import Any

import pytest

from tonnage import files
from tonnage.errors import InputError
from tonnage.objects import codec, kinds, strictness
from tonnage.objects.scenarios import API_VERSION, NodeGroup


def group(**spec: Any) -> dict[str, Any]:
    head = {"apiVersion": API_VERSION, "kind": "NodeGroup", "metadata": {"name": "dbs"}}
    return {**head, "spec": {"maxSize": 5, **spec}}


def read(document: dict[str, Any]) -> object:
    row = kinds.by_kind(document["apiVersion"], document["kind"])
    assert row is not None
    return codec.decode(json.dumps(document).encode(), row)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"maxsize": 5}, "spec.maxsize: expected maxSize or another known field"),
        ({"nodeselector": {}}, "spec.nodeselector: expected nodeSelector or another"),
        ({"bogus": 1}, "spec.bogus: expected one of minSize, maxSize, "),
        (
            {"nodeSelector": {"matchlabels": {"a": "b"}}},
            "spec.nodeSelector.matchlabels: expected matchLabels or another",
        ),
        (
            {
                "nodeSelector": {
                    "matchExpressions": [{"key": "a", "operator": "In", "value": ["b"]}]
                }
            },
            "spec.nodeSelector.matchExpressions[0].value: expected values or another",
        ),
        (
            {"template": {"node": {}, "csinode": {}}},
            "spec.template.csinode: expected csiNode or another",
        ),
        (
            {"pools": [{"name": "p", "members": {"d": 1}, "sise": 3}]},
            "spec.pools[0].sise: expected size or another",
        ),
    ],
)
def test_a_field_a_node_group_does_not_have_is_named_with_the_nearest(
    spec: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as raised:
        read(group(**spec))
    assert f"NodeGroup dbs: {said}" in str(raised.value)


def test_a_misspelt_field_is_named_rather_than_the_one_that_is_missing_for_it() -> None:
    document = group()
    document["spec"] = {"maxsize": 5}
    with pytest.raises(InputError, match=r"spec\.maxsize: expected maxSize"):
        read(document)


def test_a_field_beside_the_spec_is_named() -> None:
    with pytest.raises(InputError, match="NodeGroup dbs: specs: expected spec or another"):
        read({**group(), "specs": {}})


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ({"node": {"metadata": {"lables": {}}}}, "node.metadata.lables: expected labels"),
        ({"node": {"status": {"allocateable": {}}}}, "node.status.allocateable: expected alloc"),
        ({"node": {"spec": {"taint": []}}}, "node.spec.taint: expected taints"),
        (
            {"node": {}, "csiNode": {"spec": {"driver": []}}},
            "csiNode.spec.driver: expected drivers",
        ),
        (
            {"node": {}, "csiNode": {"spec": {"drivers": [{"name": "d", "alocatable": {}}]}}},
            "csiNode.spec.drivers[0].alocatable: expected allocatable",
        ),
    ],
)
def test_a_node_inside_a_node_group_may_not_have_what_is_nearly_a_field(
    template: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as raised:
        read(group(template=template))
    assert f"NodeGroup dbs: spec.template.{said}" in str(raised.value)


NODE_FIELDS = {
    "metadata": (
        "name generateName namespace selfLink uid resourceVersion generation creationTimestamp"
        " deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences"
        " finalizers managedFields"
    ),
    "spec": "podCIDR podCIDRs providerID unschedulable taints configSource externalID",
    "status": (
        "capacity allocatable phase conditions addresses daemonEndpoints nodeInfo images"
        " volumesInUse volumesAttached config runtimeHandlers features declaredFeatures"
    ),
}
"""What the API of 1.37 gives a Node."""


@pytest.mark.parametrize("part", NODE_FIELDS)
def test_no_field_of_kubernetes_is_taken_for_a_misspelt_one(part: str) -> None:
    for field in NODE_FIELDS[part].split():
        value = {"template": {"node": {part: {field: None}}}}
        unknown = strictness.first_unknown({"spec": value}, NodeGroup)
        assert unknown is None, field


@pytest.mark.parametrize(
    "more",
    [
        {"template": {"node": {"spec": {"podCIDR": "10.0.0.0/24"}, "status": {"images": []}}}},
        {"template": {"node": {}, "csiNode": {"spec": {"drivers": []}, "status": {}}}},
    ],
)
def test_nodes_inside_a_node_group_may_have_what_kubernetes_gives_them(
    more: dict[str, Any],
) -> None:
    read(group(**more))


def test_metadata_of_a_node_group_may_have_what_kubernetes_gives_it() -> None:
    document = group()
    document["metadata"]["managedFields"] = []
    read(document)


def test_kinds_of_kubernetes_may_have_any_field() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"newIn138": 1}}
    read({**pod, "extra": 1})


def scenario(**spec: Any) -> bytes:
    head = {"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": "s"}}
    return json.dumps({**head, "spec": spec}).encode()


def test_a_field_a_scenario_does_not_have_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"Scenario s: spec\.featuregates: expected featureGates"):
        files.decode_scenario(scenario(featuregates={}))


def test_a_misspelt_gate_of_a_scenario_is_named_with_the_one_that_is_meant() -> None:
    gates = {"VolumeLimitScalin": True}
    with pytest.raises(InputError, match=r"featureGates\.VolumeLimitScalin: expected VolumeLimitS"):
        files.decode_scenario(scenario(featureGates=gates))


def test_a_gate_of_kubernetes_that_is_not_modelled_is_kept() -> None:
    loaded = files.decode_scenario(scenario(featureGates={"WatchList": True}))
    assert loaded.scenario is not None
    assert loaded.scenario.feature_gates == {"WatchList": True}
