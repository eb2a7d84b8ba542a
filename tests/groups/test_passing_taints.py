import pytest

from tests.groups.group_objects import DEFAULT, UPSTREAM, tainted
from tonnage.groups import passing_taints
from tonnage.groups.policy import GroupPolicy

PASSING = [
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/pid-pressure",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    "cloud.google.com/impending-node-termination",
    "NodeWithImpairedVolumes",
    "startup-taint.cluster-autoscaler.kubernetes.io/agent",
    "ignore-taint.cluster-autoscaler.kubernetes.io/agent",
    "status-taint.cluster-autoscaler.kubernetes.io/busy",
]


@pytest.mark.parametrize("policy", [DEFAULT, UPSTREAM], ids=["default", "upstream"])
@pytest.mark.parametrize("key", PASSING)
def test_a_passing_taint_is_not_inherited(key, policy):
    assert passing_taints.lasting([tainted(key)], policy) == ()


def test_any_other_taint_is_inherited():
    taint = tainted("dedicated")
    assert passing_taints.lasting([taint], DEFAULT) == (taint,)


NAMED = [
    ("a startup taint", GroupPolicy(startup_taints=("wait",), as_upstream=True)),
    ("a prefix of startup taints", GroupPolicy(startup_taint_prefixes=("wa",), as_upstream=True)),
    ("a status taint", GroupPolicy(status_taints=("wait",), as_upstream=True)),
]


@pytest.mark.parametrize("policy", [policy for _, policy in NAMED], ids=[name for name, _ in NAMED])
def test_what_the_operator_names_is_not_inherited(policy):
    assert passing_taints.lasting([tainted("wait")], policy) == ()


BEYOND_UPSTREAM = ["ebs.csi.aws.com/agent-not-ready", "node.kubernetes.io/out-of-service"]


@pytest.mark.parametrize("key", BEYOND_UPSTREAM)
def test_upstream_inherits_what_a_driver_takes_off_and_what_an_operator_puts_on(key):
    assert passing_taints.lasting([tainted(key)], DEFAULT) == ()
    assert passing_taints.lasting([tainted(key)], UPSTREAM) == (tainted(key),)
