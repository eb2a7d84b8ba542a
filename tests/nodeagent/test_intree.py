"""The in-tree plugins on nodes of their cloud and of others."""

import msgspec
import pytest

from tonnage.errors import InputError
from tonnage.nodeagent import limit_decision
from tonnage.nodeagent.effective_limit import MachineSlots
from tonnage.objects.intree import AWS_EBS, AZURE_DISK, CINDER, GCE_PD
from tonnage.objects.nodes import Node
from tonnage.testing import builders

MACHINE = MachineSlots(count=24, formula="by the tables")


def node(provider_id: str, kind: str = "") -> Node:
    labels = {"node.kubernetes.io/instance-type": kind} if kind else {}
    plain = builders.node("n", labels=labels)
    spec = msgspec.structs.replace(plain.spec, provider_id=provider_id)
    return msgspec.structs.replace(plain, spec=spec)


@pytest.mark.parametrize(
    ("provider_id", "plugin"),
    [
        ("aws:///eu-west-1a/i-0abc", AWS_EBS),
        ("gce://project/europe-west1-b/vm", GCE_PD),
        ("azure:///subscriptions/1/vm", AZURE_DISK),
        ("openstack:///1234", CINDER),
        ("kind://docker/kind/worker", None),
        ("", None),
    ],
)
def test_the_plugin_of_a_node_is_that_of_its_cloud(provider_id: str, plugin: str | None) -> None:
    assert limit_decision.plugin_of(node(provider_id)) == plugin


@pytest.mark.parametrize(
    ("plugin", "provider_id"),
    [(AWS_EBS, "gce://p/z/vm"), (GCE_PD, "aws:///z/i-0"), (AZURE_DISK, ""), (CINDER, "aws:///z/i")],
)
def test_asking_a_plugin_on_a_node_of_another_cloud_is_an_error(
    plugin: str, provider_id: str
) -> None:
    with pytest.raises(InputError, match=plugin):
        limit_decision.volume_limit(plugin, node(provider_id), machine=MACHINE, env_max=7)


@pytest.mark.parametrize(
    ("machine", "env_max", "number"),
    [(MACHINE, 7, 7), (MACHINE, None, 24), (None, 7, 7), (None, None, 25)],
    ids=[
        "the environment goes before the tables",
        "the tables",
        "the environment goes before the rule of old",
        "the rule of old, where the tables know nothing",
    ],
)
def test_the_number_comes_from(
    machine: MachineSlots | None, env_max: int | None, number: int
) -> None:
    found = limit_decision.volume_limit(
        AWS_EBS, node("aws:///z/i-0", "m5.large"), machine=machine, env_max=env_max
    )
    assert (found.key, found.number) == ("attachable-volumes-aws-ebs", number)


@pytest.mark.parametrize(
    ("plugin", "provider_id", "kind", "number"),
    [
        (AWS_EBS, "aws:///z/i-0", "", 39),
        (GCE_PD, "gce://p/z/vm", "", 15),
        (GCE_PD, "gce://p/z/vm", "n1-standard-4", 127),
        (AZURE_DISK, "azure:///vm", "Standard_Unheard_Of", 16),
        (CINDER, "openstack:///1", "m1.small", 256),
    ],
)
def test_the_defaults_of_old(plugin: str, provider_id: str, kind: str, number: int) -> None:
    found = limit_decision.volume_limit(plugin, node(provider_id, kind), machine=None, env_max=None)
    assert found.number == number
