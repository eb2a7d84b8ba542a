"""Our nodes and pods as Kubernetes encodes them.

The files in `kubernetes` are a Pod and a Node in JSON, and as the Go types of k8s.io/api 0.37
marshal them to protobuf.
"""

import re
from pathlib import Path

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint
from tonnage.providers import corev1
from tonnage.providers.protos import corev1_slice_pb2, expander_pb2
from tonnage.testing import builders

GOLDEN = Path(__file__).parent / "kubernetes"
PROTOS = Path(corev1.__file__).parent / "protos"


def told(value: object) -> object:
    """Without what is empty: Kubernetes sends empty text, zeros and so on where we send nothing."""
    if isinstance(value, Message):
        return told(MessageToDict(value))
    if isinstance(value, dict):
        entries = {key: told(entry) for key, entry in value.items()}
        return {key: entry for key, entry in entries.items() if entry not in ("", "0", 0, {}, [])}
    return [told(entry) for entry in value] if isinstance(value, list) else value


def test_a_pod_says_what_kubernetes_says_of_it() -> None:
    pod = msgspec.json.decode((GOLDEN / "pod.json").read_bytes(), type=Pod)
    theirs = corev1_slice_pb2.Pod.FromString((GOLDEN / "pod.pb").read_bytes())
    assert told(corev1_slice_pb2.Pod.FromString(corev1.encode_pod(pod))) == told(theirs)


def test_a_node_says_what_kubernetes_says_of_it() -> None:
    node = msgspec.json.decode((GOLDEN / "node.json").read_bytes(), type=Node)
    theirs = corev1_slice_pb2.Node.FromString((GOLDEN / "node.pb").read_bytes())
    assert told(corev1_slice_pb2.Node.FromString(corev1.encode_node(node))) == told(theirs)


def spec(pod: Pod) -> corev1_slice_pb2.PodSpec:
    return corev1_slice_pb2.Pod.FromString(corev1.encode_pod(pod)).spec


def test_a_priority_of_zero_is_said() -> None:
    assert spec(builders.pod("p", priority=0)).HasField("priority")


def test_a_priority_that_is_not_set_is_not_said() -> None:
    assert not spec(builders.pod("p")).HasField("priority")


def test_a_default_of_ours_that_is_none_of_kubernetes_is_said() -> None:
    spread = TopologySpreadConstraint(max_skew=1, topology_key="zone")
    sent = spec(builders.pod("p", spread=[spread])).topologySpreadConstraints[0]
    assert sent.whenUnsatisfiable == "DoNotSchedule"


@pytest.mark.parametrize(("selector", "is_there"), [(None, False), (LabelSelector(), True)])
def test_an_empty_selector_is_not_the_same_as_none(
    selector: LabelSelector | None, is_there: bool
) -> None:
    term = PodAffinityTerm(topology_key="zone", namespace_selector=selector)
    affinity = spec(builders.pod("p", near=[term])).affinity.podAffinity
    sent = affinity.requiredDuringSchedulingIgnoredDuringExecution[0]
    assert sent.HasField("namespaceSelector") == is_there


@pytest.mark.parametrize(("amount", "text"), [("500m", "500m"), (2, "2"), (0.5, "0.5")])
def test_quantities_are_sent_as_text(amount: str | int | float, text: str) -> None:
    sent = spec(builders.pod("p", cpu=amount)).containers[0].resources.requests
    assert sent["cpu"].string == text


TOO_MUCH = [
    ("a number too large for its field", Pod(spec=PodSpec(priority=2**31))),
    ("a time that is none", Pod(metadata=ObjectMeta(creation_timestamp="yesterday"))),
    ("a time without a zone", Pod(metadata=ObjectMeta(creation_timestamp="2026-01-01T00:00:00"))),
    ("text that is none", Pod(metadata=ObjectMeta(name="\udc80"))),
]


@pytest.mark.parametrize("pod", [row[1] for row in TOO_MUCH], ids=[row[0] for row in TOO_MUCH])
def test_what_cannot_be_encoded_is_an_error(pod: Pod) -> None:
    with pytest.raises(ValueError, match=r"."):
        corev1.encode_pod(pod)


@pytest.mark.parametrize("made", [corev1_slice_pb2, expander_pb2], ids=["corev1", "expander"])
def test_the_code_is_made_from_the_proto_beside_it(made) -> None:
    text = (PROTOS / Path(made.DESCRIPTOR.name).name).read_text()
    declared = {
        (message, field, int(number))
        for message, body in re.findall(
            r"^message (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL
        )
        for field, number in re.findall(r"(\w+) = (\d+);", body)
    }
    generated = {
        (message.name, field.name, field.number)
        for message in made.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
    }
    assert generated == declared
