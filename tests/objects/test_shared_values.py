"""Equal parts of pods are kept once, and the pods stay what they were."""

from collections.abc import Callable

import pytest

from tests.clusters import random_cluster
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from tonnage.objects.shared_values import SharedValues
from tonnage.testing.builders import pod


def replica(number: int, *, on: str = "") -> Pod:
    return pod(f"web-{number}", labels={"app": "web"}, cpu="100m", pvcs=[f"data-{number}"], on=on)


def daemon(on: str) -> Pod:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(on,))
    affinity = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    return pod(f"agent-{on}", node_affinity=affinity, on=on)


@pytest.mark.parametrize("seed", range(20))
def test_a_pod_is_equal_to_what_comes_of_it(seed: int) -> None:
    sharing = SharedValues()
    pods = [one for one in random_cluster(seed).objects if isinstance(one, Pod)]
    assert [sharing.pod(one) for one in pods] == pods


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(lambda one: one.spec.containers, id="containers"),
        pytest.param(lambda one: one.metadata.labels, id="labels"),
        pytest.param(lambda one: one.metadata.namespace, id="namespace"),
    ],
)
def test_replicas_share(part: Callable[[Pod], object]) -> None:
    sharing = SharedValues()
    first, second = sharing.pod(replica(0)), sharing.pod(replica(1, on="n1"))
    assert part(first) is part(second)


def test_daemons_share_their_containers_though_each_names_its_node() -> None:
    sharing = SharedValues()
    first, second = sharing.pod(daemon("n1")), sharing.pod(daemon("n2"))
    assert first.spec.containers is second.spec.containers
    assert [first, second] == [daemon("n1"), daemon("n2")]
