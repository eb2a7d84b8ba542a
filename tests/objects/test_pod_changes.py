"""What of a pod has changed between two versions of it."""

import msgspec
import pytest

from tonnage.objects import pod_changes
from tonnage.objects.meta import Condition
from tonnage.objects.pods import Pod
from tonnage.testing import builders

replace = msgspec.structs.replace


def told(pod: Pod, *conditions: Condition, version: str = "2") -> Pod:
    return replace(
        pod,
        metadata=replace(pod.metadata, resource_version=version),
        status=replace(pod.status, conditions=conditions),
    )


def scheduled(message: str) -> Condition:
    return Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)


def test_another_word_of_a_scheduler_is_all() -> None:
    pod = told(builders.pod("web"), scheduled("0/1 nodes"), version="1")
    assert pod_changes.only_told(pod, told(pod, scheduled("0/2 nodes")))


@pytest.mark.parametrize(
    "other",
    [
        lambda pod: told(pod, scheduled("x"), Condition(type="PodResizePending", status="True")),
        lambda pod: replace(pod, spec=replace(pod.spec, node_name="n")),
        lambda pod: replace(pod, metadata=replace(pod.metadata, labels={"a": "b"})),
        lambda pod: replace(pod, metadata=replace(pod.metadata, uid="another")),
        lambda pod: replace(pod, status=replace(pod.status, nominated_node_name="n")),
    ],
    ids=["another condition", "its node", "a label", "another pod", "the node it is promised"],
)
def test_anything_else_is_more(other) -> None:
    pod = told(builders.pod("web"), scheduled("x"))
    assert not pod_changes.only_told(pod, other(pod))
