"""The accounting of the KEP of 2018: limits in a node's allocatable, and the old defaults."""

import msgspec
import pytest

from tests.rules.asking import FITS, answer, reasons
from tonnage import api
from tonnage.objects import limit_keys
from tonnage.objects.meta import ResourceList
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSIDriver
from tonnage.objects.volume_sources import AWSElasticBlockStoreSource, VolumeSource
from tonnage.rules import features
from tonnage.rules.node_volume_limits import NodeVolumeLimits
from tonnage.snapshot import limits
from tonnage.testing.builders import csidriver, csinode, node, pod, pvc, storage_class

EXCEEDED = "U: node(s) exceed max volume count"
EBS, EBS_PLUGIN = "ebs.csi.aws.com", "kubernetes.io/aws-ebs"
GCE, GCE_PLUGIN = "pd.csi.storage.gke.io", "kubernetes.io/gce-pd"
AZURE, AZURE_PLUGIN = "disk.csi.azure.com", "kubernetes.io/azure-disk"
OTHER = "csi.example"
LONG = "very-long-driver-name.storage.example-company.com"
LEGACY = features.of_version("", legacy_attach_limits=True)
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def told(
    count: int,
    driver: str,
    *objects: object,
    reader: limits.LimitReader = limits.from_csinode_and_allocatable,
) -> str:
    """What a pod is told that wants so many new volumes of the driver."""
    claims = [pvc(f"claim-{number}", storage_class="class") for number in range(count)]
    return answer(
        NodeVolumeLimits(),
        pod("web", pvcs=[claim.metadata.name for claim in claims]),
        [storage_class("class", driver), *claims, *objects],
        of=LEGACY,
        limit_reader=reader,
    )


def offering(allocatable: ResourceList | None = None, *, instance_type: str = "") -> Node:
    labels = {INSTANCE_TYPE: instance_type} if instance_type else {}
    return node("n1", allocatable=allocatable, labels=labels)


def limit_of(driver: str, *objects: object) -> int:
    """The limit, found as the number of volumes that still fit."""
    return next(count for count in range(300) if told(count + 1, driver, *objects) == EXCEEDED)


@pytest.mark.parametrize(
    ("driver", "key", "limit"),
    [
        pytest.param(OTHER, f"attachable-volumes-csi-{OTHER}", 3, id="a CSI driver's own key"),
        pytest.param(EBS, "attachable-volumes-aws-ebs", 3, id="EBS under its in-tree name"),
        pytest.param(EBS_PLUGIN, "attachable-volumes-aws-ebs", 3, id="an in-tree EBS class"),
        pytest.param(GCE, "attachable-volumes-gce-pd", 3, id="GCE PD under its in-tree name"),
        pytest.param(AZURE, "attachable-volumes-azure-disk", 3, id="Azure disk"),
        pytest.param("cinder.csi.openstack.org", "attachable-volumes-cinder", 3, id="Cinder"),
    ],
)
def test_a_limit_is_read_from_allocatable(driver, key, limit) -> None:
    assert limit_of(driver, offering({key: limit})) == limit


def test_a_limit_of_zero_in_allocatable_is_no_slots() -> None:
    assert told(1, OTHER, offering({f"attachable-volumes-csi-{OTHER}": 0})) == EXCEEDED


def test_the_csinode_wins_where_both_have_a_number() -> None:
    both = offering({f"attachable-volumes-csi-{OTHER}": 1}), csinode("n1", {OTHER: 3})

    assert limit_of(OTHER, *both) == 3


def test_allocatable_fills_in_for_a_csinode_without_a_number() -> None:
    both = offering({f"attachable-volumes-csi-{OTHER}": 2}), csinode("n1", {OTHER: None})

    assert limit_of(OTHER, *both) == 2


def test_a_csinode_of_other_drivers_does_not_hide_allocatable() -> None:
    both = offering({f"attachable-volumes-csi-{OTHER}": 2}), csinode("n1", {EBS: 9})

    assert limit_of(OTHER, *both) == 2


def test_a_drivers_own_key_goes_before_the_in_tree_one() -> None:
    keys: ResourceList = {f"attachable-volumes-csi-{EBS}": 2, "attachable-volumes-aws-ebs": 5}

    assert limit_of(EBS, offering(keys)) == 2


def test_a_long_driver_is_found_under_its_hashed_key() -> None:
    both = offering({limit_keys.key_for(LONG): 2}), csinode("n1", {LONG: None})

    assert limit_of(LONG, *both) == 2


def test_a_long_driver_is_found_under_its_hashed_key_without_a_csinode() -> None:
    assert told(3, LONG, offering({limit_keys.key_for(LONG): 2})) == EXCEEDED


@pytest.mark.parametrize(
    ("driver", "instance_type", "limit"),
    [
        pytest.param(EBS_PLUGIN, "", 39, id="EBS"),
        pytest.param(EBS_PLUGIN, "m5.large", 25, id="EBS on an instance of the fifth generation"),
        pytest.param(EBS_PLUGIN, "t3.micro", 25, id="EBS on a t3"),
        pytest.param(EBS_PLUGIN, "m4.large", 39, id="EBS on an instance of the fourth generation"),
        pytest.param(GCE_PLUGIN, "", 16, id="GCE PD"),
        pytest.param(AZURE_PLUGIN, "", 16, id="Azure disk"),
    ],
)
def test_without_any_number_the_old_defaults_hold_for_in_tree_volumes(
    driver, instance_type, limit
) -> None:
    bare = offering(instance_type=instance_type)

    assert told(limit, driver, bare) == FITS
    assert told(limit + 1, driver, bare) == EXCEEDED


@pytest.mark.parametrize("driver", [EBS, GCE, AZURE])
def test_without_any_number_there_is_no_limit_for_csi_volumes(driver) -> None:
    assert told(50, driver, offering(), csinode("n1", {driver: None})) == FITS


def test_csi_volumes_do_not_count_against_the_old_default() -> None:
    claims = [pvc(f"old-{number}", storage_class="csi") for number in range(30)]
    names = [claim.metadata.name for claim in claims]
    there = [storage_class("csi", GCE), *claims, pod("there", pvcs=names, on="n1")]

    assert told(16, GCE_PLUGIN, offering(), *there) == FITS
    assert told(17, GCE_PLUGIN, offering(), *there) == EXCEEDED


def test_a_number_that_is_told_counts_both_kinds_together() -> None:
    claims = [pvc(f"old-{number}", storage_class="csi") for number in range(3)]
    names = [claim.metadata.name for claim in claims]
    there = [storage_class("csi", GCE), *claims, pod("there", pvcs=names, on="n1")]
    keyed = offering({"attachable-volumes-gce-pd": 5})

    assert told(2, GCE_PLUGIN, keyed, *there) == FITS
    assert told(3, GCE_PLUGIN, keyed, *there) == EXCEEDED


@pytest.mark.parametrize(("driver", "limit"), [(EBS_PLUGIN, 7), (GCE_PLUGIN, 7)])
def test_the_schedulers_environment_goes_before_the_old_defaults(driver, limit) -> None:
    reader = features.of_version("", legacy_attach_limits=True, max_pd_vols=7).limit_reader

    assert told(limit, driver, offering(), reader=reader) == FITS
    assert told(limit + 1, driver, offering(), reader=reader) == EXCEEDED


def test_the_schedulers_environment_says_nothing_about_csi_volumes() -> None:
    reader = features.of_version("", legacy_attach_limits=True, max_pd_vols=7).limit_reader

    assert told(50, EBS, offering(), reader=reader) == FITS


def named(driver: str, key: str) -> CSIDriver:
    made = csidriver(driver)
    annotated = msgspec.structs.replace(made.metadata, annotations={limit_keys.KEY_ANNOTATION: key})
    return msgspec.structs.replace(made, metadata=annotated)


def test_a_key_that_a_csidriver_names_is_read_whenever_it_comes() -> None:
    own = named(OTHER, "attachable-volumes-mine")
    keyed = offering({"attachable-volumes-mine": 2, f"attachable-volumes-csi-{OTHER}": 5})

    assert limit_of(OTHER, own, keyed) == 2
    assert limit_of(OTHER, keyed, own) == 2


def test_the_rule_holds_where_a_node_lacks_the_key_that_is_named() -> None:
    own = named(OTHER, "attachable-volumes-mine")
    keyed = offering({f"attachable-volumes-csi-{OTHER}": 5})

    assert limit_of(OTHER, own, keyed) == 5


def test_the_old_label_of_the_instance_type_is_read_too() -> None:
    old = node("n1", labels={"beta.kubernetes.io/instance-type": "c5.large"})

    assert told(26, EBS_PLUGIN, old) == EXCEEDED


def test_a_driver_without_key_and_default_is_unlimited() -> None:
    assert told(50, OTHER, offering()) == FITS


def test_in_tree_volumes_count_without_a_csinode() -> None:
    disk = VolumeSource(
        name="disk", aws_elastic_block_store=AWSElasticBlockStoreSource(volume_id="vol-1")
    )
    found = answer(
        NodeVolumeLimits(),
        pod("web", volumes=[disk]),
        [offering({"attachable-volumes-aws-ebs": 0})],
        of=LEGACY,
        limit_reader=limits.from_csinode_and_allocatable,
    )

    assert found == EXCEEDED


def test_a_refusal_says_the_limit_that_was_read() -> None:
    (reason,) = reasons(
        NodeVolumeLimits(),
        pod("web", pvcs=["data"]),
        [
            offering({f"attachable-volumes-csi-{OTHER}": 0}),
            storage_class("class", OTHER),
            pvc("data", storage_class="class"),
        ],
        of=LEGACY,
        limit_reader=limits.from_csinode_and_allocatable,
    )

    assert reason.facts == {"driver": OTHER, "used": 0, "wanted": 1, "limit": 0}


def explained(*, legacy: bool, gates: dict[str, bool] | None = None) -> str:
    cluster = api.Cluster(
        [
            offering({"attachable-volumes-csi-csi.example": 0}),
            storage_class("class", OTHER),
            pvc("data", storage_class="class"),
            pod("web", pvcs=["data"]),
        ],
        legacy_attach_limits=legacy,
        feature_gates=gates,
    )
    return cluster.explain("web").summary


def test_the_old_accounting_is_off_unless_asked_for() -> None:
    assert explained(legacy=False) == "1/1 nodes are available"


def test_the_old_accounting_is_on_when_asked_for() -> None:
    assert explained(legacy=True) == ("0/1 nodes are available: 1 node(s) exceed max volume count.")


def test_the_old_accounting_is_a_no_op_with_its_gate_off() -> None:
    assert explained(legacy=True, gates={"AttachVolumeLimit": False}) == "1/1 nodes are available"
