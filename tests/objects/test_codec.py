"""From JSON or plain values to typed objects."""

import gc
import json
import pickle
from typing import Any

import pytest

from tonnage.errors import InputError
from tonnage.objects import codec, kinds
from tonnage.objects.codec import DecodeError
from tonnage.objects.kinds import Kind, KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup, Scenario
from tonnage.objects.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tonnage.objects.workloads import (
    Job,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    StatefulSet,
)


def row(type_: type[KubeObject]) -> Kind:
    return next(row for row in kinds.ALL if row.type is type_)


def decode(type_: type[KubeObject], **fields: object) -> Any:
    value = {"metadata": {"name": "x"}, **fields}
    return codec.decode(json.dumps(value).encode(), row(type_))


def refused(type_: type[KubeObject], **fields: object) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        decode(type_, **fields)
    return caught.value


def pod_with(**container: object) -> dict[str, object]:
    return {"containers": [{"name": "a"}, {"name": "b", **container}]}


def requests(**amounts: object) -> dict[str, object]:
    return {"resources": {"requests": amounts}}


def group(**spec: object) -> dict[str, object]:
    return {"maxSize": 3, **spec}


CPU_OF_SECOND = "spec.containers[1].resources.requests.cpu"


# Types


def test_a_plain_pod_is_typed() -> None:
    pod = decode(Pod, spec=pod_with(**requests(cpu="500m", memory=1024)))
    assert pod.spec.containers[1].resources.requests == {"cpu": "500m", "memory": 1024}


@pytest.mark.parametrize(
    ("spec", "field", "expected", "found"),
    [
        ({"containers": {}}, "spec.containers", "a list", "a mapping"),
        (
            {"containers": [{}, {"resources": 5}]},
            "spec.containers[1].resources",
            "a mapping",
            "5",
        ),
        ({"nodeName": True}, "spec.nodeName", "a string (in quotes)", "true"),
        ({"nodeSelector": {"a": "x", "b": 5}}, "spec.nodeSelector.b", "a string (in quotes)", "5"),
        (
            {"nodeSelector": {"a": "x", "topology.kubernetes.io/zone": []}},
            'spec.nodeSelector["topology.kubernetes.io/zone"]',
            "a string",
            "a list",
        ),
        ({"priority": "high"}, "spec.priority", "a whole number", '"high"'),
        ({"priority": 1.5}, "spec.priority", "a whole number", "1.5"),
        ({"priority": True}, "spec.priority", "a whole number", "true"),
        ({"hostNetwork": "yes"}, "spec.hostNetwork", "true or false", '"yes"'),
        (pod_with(**requests(cpu=True)), CPU_OF_SECOND, "a quantity", "true"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1}]},
            "spec.topologySpreadConstraints[0].topologyKey",
            "a value",
            "none",
        ),
    ],
)
def test_a_wrong_type_is_named_with_its_real_path(
    spec: object, field: str, expected: str, found: str
) -> None:
    error = refused(Pod, spec=spec)
    assert (error.field, error.expected[: len(expected)], error.found) == (field, expected, found)


def test_an_error_says_which_object_it_is_about() -> None:
    error = refused(Pod, metadata={"name": "web-1", "namespace": "shop"}, spec=5)
    assert str(error) == "Pod shop/web-1: spec: expected a mapping, found 5"


def test_an_object_of_no_namespace_is_named_without() -> None:
    assert str(refused(Node, spec=5)).startswith("Node x: spec: ")


def test_a_name_with_a_line_break_stays_on_one_line() -> None:
    assert "\n" not in str(refused(Pod, metadata={"name": "a\nb"}, spec=5))


def test_a_decode_error_is_an_input_error() -> None:
    assert isinstance(refused(Pod, spec=5), InputError)


def test_a_decode_error_survives_a_trip_between_processes() -> None:
    error = refused(Pod, spec=pod_with(**requests(cpu="lots")))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.path) == (str(error), error.path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"metadata": {"name": "\xff"}}',
        b'{"metadata": {"name": "x"}} {}',
        b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"metadata": ' + b'{"labels":' * 5_000 + b"1" + b"}" * 5_001,
        b"[]",
        b"3",
        b'"Pod"',
        b"null",
    ],
    ids=lambda data: data[:20],
)
def test_bytes_that_are_no_object_are_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        codec.decode(data, row(Pod))


# Nulls


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"name": "x", "labels": None, "creationTimestamp": None}},
        {"spec": None, "status": None},
        {"spec": {"volumes": None, "containers": None, "nodeSelector": None}},
        {"spec": {"containers": [{"name": "a", "resources": None, "ports": None}]}},
        {"spec": {"tolerations": [None], "affinity": {"nodeAffinity": None}}},
        {"spec": {"nodeName": None, "hostNetwork": None, "overhead": {"cpu": None}}},
    ],
)
def test_null_is_absent_wherever_it_stands(fields: dict[str, object]) -> None:
    assert decode(Pod, **fields).metadata.name == "x"


def test_what_stands_beside_a_null_is_kept() -> None:
    pod = decode(Pod, metadata={"name": "x", "labels": {"a": "b"}, "annotations": None})
    assert pod.metadata.labels == {"a": "b"}


def test_a_null_before_the_fault_still_counts_as_a_position() -> None:
    error = refused(Pod, spec={"containers": [None, {"name": "a"}, {"name": 5}]})
    assert error.field == "spec.containers[2].name"


def test_a_missing_count_of_a_driver_stays_unlimited() -> None:
    node = decode(CSINode, spec={"drivers": [{"name": "d", "allocatable": {"count": None}}]})
    assert node.spec.drivers[0].limit is None


# Names


def test_a_namespaced_object_without_a_namespace_is_in_default() -> None:
    assert decode(Pod).metadata.namespace == "default"


def test_a_namespace_that_is_given_stays() -> None:
    assert decode(Pod, metadata={"name": "x", "namespace": "shop"}).metadata.namespace == "shop"


def test_an_object_of_the_cluster_has_no_namespace_even_if_one_is_written() -> None:
    assert decode(Node, metadata={"name": "x", "namespace": "default"}).metadata.namespace == ""


@pytest.mark.parametrize("metadata", [{}, {"name": ""}, {"name": None}, {"namespace": "shop"}])
def test_an_object_without_a_name_is_refused(metadata: dict[str, object]) -> None:
    assert refused(Pod, metadata=metadata).field == "metadata.name"


def test_a_generated_name_is_the_same_every_time() -> None:
    metadata = {"generateName": "web-"}
    assert decode(Pod, metadata=metadata) == decode(Pod, metadata=metadata)


def test_a_generated_name_begins_as_asked() -> None:
    assert decode(Pod, metadata={"generateName": "web-"}).metadata.name.startswith("web-")


def test_different_content_generates_different_names() -> None:
    metadata = {"generateName": "web-"}
    one, other = (decode(Pod, metadata=metadata, spec={"nodeName": n}) for n in ("n1", "n2"))
    assert one.metadata.name != other.metadata.name


def test_a_name_that_is_given_is_not_generated() -> None:
    metadata = {"name": "web-abc", "generateName": "web-"}
    assert decode(Pod, metadata=metadata).metadata.name == "web-abc"


# Quantities

NEGATIVE = "a quantity that is not negative"
CLAIM = {"resources": {"requests": {"storage": "-1Gi"}}}
TEMPLATE = {"spec": {"containers": [{"resources": {"requests": {"cpu": "-1"}}}]}}
TEMPLATE_CPU = "spec.template.spec.containers[0].resources.requests.cpu"


@pytest.mark.parametrize("amount", ["lots", "", "10 GB", "1Gib", "--1", "0x10", "1,5"])
def test_a_quantity_that_does_not_parse_is_refused(amount: str) -> None:
    error = refused(Pod, spec=pod_with(**requests(cpu=amount)))
    assert (error.field, error.found) == (CPU_OF_SECOND, f'"{amount}"')


@pytest.mark.parametrize(
    ("type_", "fields", "field"),
    [
        (Pod, {"spec": pod_with(**requests(cpu="-1"))}, CPU_OF_SECOND),
        (Pod, {"spec": {"initContainers": [{"resources": {"limits": {"memory": "-1"}}}]}},
         "spec.initContainers[0].resources.limits.memory"),
        (Pod, {"spec": {"overhead": {"cpu": "-1m"}}}, "spec.overhead.cpu"),
        (Pod, {"spec": {"resources": {"requests": {"cpu": -1}}}}, "spec.resources.requests.cpu"),
        (Pod, {"spec": {"volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}]}},
         "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests.storage"),
        (Node, {"status": {"capacity": {"cpu": "-1"}}}, "status.capacity.cpu"),
        (Node, {"status": {"allocatable": {"example.com/gpu": -1}}},
         'status.allocatable["example.com/gpu"]'),
        (PersistentVolumeClaim, {"spec": CLAIM}, "spec.resources.requests.storage"),
        (PersistentVolumeClaim, {"status": {"capacity": {"storage": -1}}},
         "status.capacity.storage"),
        (PersistentVolume, {"spec": {"capacity": {"storage": "-1"}}}, "spec.capacity.storage"),
        (CSIStorageCapacity, {"capacity": "-1Gi"}, "capacity"),
        (CSIStorageCapacity, {"maximumVolumeSize": "-1Gi"}, "maximumVolumeSize"),
        (ReplicaSet, {"spec": {"template": TEMPLATE}}, TEMPLATE_CPU),
        (StatefulSet, {"spec": {"volumeClaimTemplates": [{"spec": CLAIM}]}},
         "spec.volumeClaimTemplates[0].spec.resources.requests.storage"),
        (Job, {"spec": {"template": TEMPLATE}}, TEMPLATE_CPU),
        (NodeGroup, {"spec": group(template={"node": {"status": {"capacity": {"cpu": -1}}}})},
         "spec.template.node.status.capacity.cpu"),
    ],
)  # fmt: skip
def test_a_negative_quantity_is_refused_where_a_server_would(
    type_: type[KubeObject], fields: dict[str, object], field: str
) -> None:
    error = refused(type_, **fields)
    assert (error.field, error.expected) == (field, NEGATIVE)


@pytest.mark.parametrize("part", ["requests", "limits"])
def test_a_container_may_not_ask_for_attach_slots(part: str) -> None:
    key = "attachable-volumes-csi-ebs.csi.aws.com"
    error = refused(Pod, spec={"containers": [{"resources": {part: {key: "1"}}}]})
    assert error.field == f'spec.containers[0].resources.{part}["{key}"]'
    assert error.expected.startswith("a resource that containers may request")


def test_a_container_may_ask_for_what_else_there_is() -> None:
    amounts = {"cpu": "1", "hugepages-2Mi": "2Mi", "example.com/gpu": 1}
    spec = {"containers": [{"resources": {"requests": amounts}}]}
    assert decode(Pod, metadata={"name": "web"}, spec=spec).metadata.name == "web"


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": [{"allocatedResources": {"cpu": "-1"}}]},
        {"containerStatuses": [{"resources": {"requests": {"cpu": "-1"}}}]},
        {"initContainerStatuses": [{"resources": {"limits": {"cpu": "-1"}}}]},
        {"resources": {"requests": {"cpu": "-1"}}},
        {"allocatedResources": {"cpu": "-1"}},
    ],
)
def test_a_negative_quantity_in_a_status_is_left_alone(status: dict[str, object]) -> None:
    assert decode(Pod, status=status).metadata.name == "x"


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"containerStatuses": [{"allocatedResources": {"cpu": "?"}}]},
         "status.containerStatuses[0].allocatedResources.cpu"),
        ({"initContainerStatuses": [{"resources": {"limits": {"cpu": "?"}}}]},
         "status.initContainerStatuses[0].resources.limits.cpu"),
        ({"allocatedResources": {"cpu": "?"}}, "status.allocatedResources.cpu"),
    ],
)  # fmt: skip
def test_a_quantity_in_a_status_must_parse(status: dict[str, object], field: str) -> None:
    assert refused(Pod, status=status).field == field


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5_000])
def test_a_number_beyond_all_ranges_is_refused_with_its_field(number: str) -> None:
    data = b'{"metadata":{"name":"x"},"status":{"capacity":{"pods":"3","cpu":NUMBER}}}'
    with pytest.raises(DecodeError) as caught:
        codec.decode(data.replace(b"NUMBER", number.encode()), row(Node))
    assert caught.value.field == "status.capacity.cpu"


def test_a_number_beyond_all_ranges_in_a_field_nobody_reads_is_no_matter() -> None:
    data = b'{"metadata":{"name":"x","labels":null},"whatever":1e400}'
    assert codec.decode(data, row(Node)).metadata.name == "x"


def test_a_quantity_seen_as_bad_once_is_bad_again() -> None:
    refused(Pod, spec=pod_with(**requests(cpu="-7")))
    assert refused(Pod, spec=pod_with(**requests(cpu="-7"))).found == '"-7"'


# Whole numbers

TOO_BIG = 2**31


@pytest.mark.parametrize(
    ("type_", "fields", "field"),
    [
        (Pod, {"spec": {"priority": TOO_BIG}}, "spec.priority"),
        (Pod, {"spec": pod_with(ports=[{"hostPort": 70_000}])},
         "spec.containers[1].ports[0].hostPort"),
        (Pod, {"spec": pod_with(ports=[{"containerPort": -1}])},
         "spec.containers[1].ports[0].containerPort"),
        (Pod, {"spec": {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z"}]}},
         "spec.topologySpreadConstraints[0].maxSkew"),
        (Pod, {"spec": {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "z", "minDomains": 0}]}},
         "spec.topologySpreadConstraints[0].minDomains"),
        (CSINode, {"spec": {"drivers": [{"name": "d", "allocatable": {"count": -1}}]}},
         "spec.drivers[0].allocatable.count"),
        (CSINode, {"spec": {"drivers": [{"name": "d", "allocatable": {"count": 10**40}}]}},
         "spec.drivers[0].allocatable.count"),
        (ReplicaSet, {"spec": {"replicas": -1}}, "spec.replicas"),
        (StatefulSet, {"spec": {"replicas": TOO_BIG}}, "spec.replicas"),
        (Job, {"spec": {"parallelism": -1}}, "spec.parallelism"),
        (PodDisruptionBudget, {"spec": {"minAvailable": -1}}, "spec.minAvailable"),
        (PriorityClass, {"value": TOO_BIG}, "value"),
        (NodeGroup, {"spec": group(minSize=-1)}, "spec.minSize"),
        (NodeGroup, {"spec": group(maxSize=-1)}, "spec.maxSize"),
        (NodeGroup, {"spec": group(maxSize=TOO_BIG)}, "spec.maxSize"),
        (NodeGroup, {"spec": group(targetSize=-1)}, "spec.targetSize"),
        (NodeGroup, {"spec": group(limits={"a": 1, "b.example.com": -1})},
         'spec.limits["b.example.com"]'),
        (NodeGroup, {"spec": group(template={"node": {}, "csiNode": {
            "spec": {"drivers": [{"name": "d", "allocatable": {"count": -1}}]}}})},
         "spec.template.csiNode.spec.drivers[0].allocatable.count"),
    ],
)  # fmt: skip
def test_a_whole_number_out_of_its_range_is_refused(
    type_: type[KubeObject], fields: dict[str, object], field: str
) -> None:
    assert refused(type_, **fields).field == field


# Node groups and Scenarios


def test_a_minimum_above_the_maximum_says_what_the_maximum_is() -> None:
    error = refused(NodeGroup, spec={"minSize": 5, "maxSize": 3})
    assert str(error) == (
        "NodeGroup x: spec.minSize: expected at most maxSize, which is 3, found 5"
    )


@pytest.mark.parametrize("scaling", ["any", "zeroOrMax"])
def test_both_ways_of_scaling_are_known(scaling: str) -> None:
    assert decode(NodeGroup, spec=group(scaling=scaling)).spec.scaling == scaling


def test_another_way_of_scaling_names_the_known_ones() -> None:
    error = refused(NodeGroup, spec=group(scaling="ZeroOrMax"))
    assert (error.field, error.expected) == ("spec.scaling", "any or zeroOrMax")


def test_a_node_group_needs_a_maximum() -> None:
    assert refused(NodeGroup, spec={}).field == "spec.maxSize"


def test_objects_in_a_scenario_stay_json() -> None:
    scenario = decode(Scenario, spec={"objects": [{"kind": "Pod"}]})
    assert json.loads(bytes(scenario.spec.objects[0])) == {"kind": "Pod"}


def test_objects_in_a_scenario_of_plain_values_become_json() -> None:
    value = {"metadata": {"name": "x"}, "spec": {"options": None, "objects": [{"kind": "Pod"}]}}
    scenario = codec.convert(value, row(Scenario))
    assert isinstance(scenario, Scenario)
    assert json.loads(bytes(scenario.spec.objects[0])) == {"kind": "Pod"}


def test_plain_values_give_the_same_object_as_json() -> None:
    value = {"metadata": {"name": "x", "labels": None}, "spec": pod_with(**requests(cpu=1))}
    assert codec.convert(value, row(Pod)) == codec.decode(json.dumps(value).encode(), row(Pod))


# The collector


def test_the_collector_rests_inside_and_works_after() -> None:
    with codec.collector_paused():
        inside = gc.isenabled()
    assert (inside, gc.isenabled()) == (False, True)


def test_a_nested_pause_does_not_end_the_outer_one() -> None:
    with codec.collector_paused():
        with codec.collector_paused():
            pass
        assert not gc.isenabled()


def test_the_collector_works_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), codec.collector_paused():
        raise ZeroDivisionError
    assert gc.isenabled()
