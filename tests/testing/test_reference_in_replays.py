"""What a replay of plans asks of the reference: one node at a time, and a returning pod's slot."""

import pytest

from tests.clusters import random_cluster
from tonnage.testing import builders as make
from tonnage.testing.reference import ReferenceCluster, verdict, verdicts

DRIVER = "disk.example.com"


@pytest.mark.parametrize("seed", range(20))
def test_the_verdict_on_one_node_is_that_among_all(seed: int) -> None:
    made = random_cluster(seed)
    cluster = ReferenceCluster(made.objects, gates=made.gates)

    for pod in cluster.pending():
        assert [verdict(cluster, pod, node) for node in cluster.nodes] == verdicts(cluster, pod)


def returning(*, once: bool) -> str:
    """What a full node says to the pod whose volume is the one that fills it."""
    claim = make.pvc("data", volume="pv")
    cluster = ReferenceCluster(
        [
            make.node("n1"),
            make.csinode("n1", {DRIVER: 1}),
            claim,
            make.pv("pv", driver=DRIVER, claim=claim),
            make.attachment("pv", "n1", attacher=DRIVER),
            make.pod("db", pvcs=["data"]),
        ],
        returning_volume_once=once,
    )
    (pod,) = cluster.pending()
    return verdict(cluster, pod, "n1").code


def test_upstream_counts_the_volume_of_a_returning_pod_twice() -> None:
    assert returning(once=False) == "Unschedulable"


def test_it_can_be_counted_once() -> None:
    assert returning(once=True) == "Success"
