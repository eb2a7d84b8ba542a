import pytest

from tests.groups.group_objects import EBS, topologies
from tonnage.groups import topology
from tonnage.objects.storage import NodeDriver
from tonnage.testing.builders import csinode, node

ZONE = {"topology.kubernetes.io/zone": "eu-1a", "topology.kubernetes.io/region": "eu-1"}


def derived(labels, *keys, driver="d", wanted=()):
    drivers = [NodeDriver(name=driver, topology_keys=keys)] if driver else []
    return topology.derived(labels, drivers, wanted=wanted, name="template")


KNOWN = [
    (EBS, {"topology.ebs.csi.aws.com/zone": "eu-1a"}),
    ("pd.csi.storage.gke.io", {"topology.gke.io/zone": "eu-1a"}),
    ("cinder.csi.openstack.org", {"topology.cinder.csi.openstack.org/zone": "eu-1a"}),
    (
        "csi.vsphere.vmware.com",
        {"topology.csi.vmware.com/zone": "eu-1a", "topology.csi.vmware.com/region": "eu-1"},
    ),
    ("linodebs.csi.linode.com", {"topology.linode.com/region": "eu-1"}),
]


@pytest.mark.parametrize(("driver", "labels"), KNOWN)
def test_a_known_driver_names_the_zone_by_its_own_key(driver, labels):
    assert derived(ZONE, driver=driver) == labels


def test_a_wanted_driver_names_the_zone_though_nobody_lists_it():
    assert derived(ZONE, driver="", wanted=[EBS]) == {"topology.ebs.csi.aws.com/zone": "eu-1a"}


def test_any_key_of_a_zone_or_region_takes_the_standard_value():
    keys = ("topology.csi.vmware.com/k8s-zone", "example.com/zone", "example.com/region")
    assert derived(ZONE, *keys) == {keys[0]: "eu-1a", keys[1]: "eu-1a", keys[2]: "eu-1"}


def test_the_deprecated_zone_label_will_do():
    labels = {"failure-domain.beta.kubernetes.io/zone": "eu-1a"}
    assert derived(labels, "example.com/zone") == {"example.com/zone": "eu-1a"}


def test_a_label_that_is_there_is_kept():
    assert derived({**ZONE, "example.com/zone": "mine"}, "example.com/zone") == {}


def test_nothing_is_derived_from_a_zone_nobody_knows():
    assert derived({}, "example.com/zone", driver=EBS) == {}


def test_a_key_of_something_else_is_left_alone():
    assert derived(ZONE, "example.com/rack", "topology.kubernetes.io/zone") == {}


def test_a_key_of_a_host_takes_the_name_of_the_node():
    assert derived({}, "topology.topolvm.io/node") == {"topology.topolvm.io/node": "template"}


AZURE = [
    ("a zone of the region", "eastus-1", "eastus", "eastus-1"),
    ("a zone in another spelling", "EastUS-1", "eastus", "EastUS-1"),
    ("a fault domain", "0", "eastus", ""),
    ("a zone of another region", "westus-1", "eastus", ""),
    ("a zone, no region known", "eastus-1", "", "eastus-1"),
    ("a fault domain, no region known", "0", "", ""),
]


@pytest.mark.parametrize(("zone", "region", "value"), [row[1:] for row in AZURE])
def test_on_azure_a_node_outside_zones_has_an_empty_label(zone, region, value):
    labels = {"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": region}
    assert derived(labels, driver="disk.csi.azure.com") == {topology.AZURE_ZONE: value}


def host_keys(labels, *keys, siblings=()):
    one = node("n1", labels=labels)
    drivers = topologies(csinode("n1", {"d": None}), keys).spec.drivers
    others = [node(f"s{i}", labels=each) for i, each in enumerate(siblings)]
    return topology.host_keys(one, drivers, [one, *others])


def test_a_value_that_is_the_name_of_the_node_names_the_host():
    assert host_keys({"example.com/place": "n1"}, "example.com/place") == ("example.com/place",)


def test_a_value_that_is_the_hostname_names_the_host():
    labels = {"kubernetes.io/hostname": "ip-1", "example.com/place": "ip-1"}
    assert host_keys(labels, "example.com/place") == ("example.com/place",)


def test_a_key_of_a_host_whose_value_nobody_shares_names_the_host():
    key = "openebs.io/nodeid"
    assert host_keys({key: "x7"}, key, siblings=[{key: "x8"}]) == (key,)


def test_a_key_of_a_host_whose_value_is_shared_does_not():
    key = "openebs.io/nodeid"
    assert host_keys({key: "x7"}, key, siblings=[{key: "x7"}]) == ()


def test_a_zone_with_a_single_node_in_it_is_no_host():
    assert host_keys({"example.com/zone": "z1"}, "example.com/zone") == ()


def test_a_label_that_no_driver_goes_by_is_left_alone():
    assert host_keys({"example.com/node": "n1"}) == ()


def test_standard_labels_are_left_alone():
    assert host_keys({}, "kubernetes.io/hostname") == ()
