"""Keys of attach limits, and the numbers from before CSI."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.objects import limit_keys, resources
from tonnage.objects.intree import AWS_EBS, AZURE_DISK, CINDER, GCE_PD
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.storage import CSIDriver

LONG = "very-long-driver-name.storage.example-company.com"
AZURE_SIZES = {"STANDARD_DS2_V2": 8}

driver_names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,80}[a-z0-9])?", fullmatch=True)


def csi_driver(name: str, key: str | None = None) -> CSIDriver:
    annotations = {} if key is None else {limit_keys.KEY_ANNOTATION: key}
    return CSIDriver(metadata=ObjectMeta(name=name, annotations=annotations))


@pytest.mark.parametrize(
    ("driver", "key"),
    [
        ("com.amazon.ebs", "attachable-volumes-csi-com.amazon.ebs"),
        ("a" * 39, "attachable-volumes-csi-" + "a" * 39),
        ("a" * 40, "attachable-volumes-csi-aaaaaaaaaaaaaaaaaaaaaaaa56559418dc7908c"),
        (
            "com.amazon.kubernetes.eks.ec2.ebs/csi-driver",
            "attachable-volumes-csi-com.amazon.kubernetes.e87aab31eac74422c",
        ),
        (LONG, "attachable-volumes-csi-very-long-driver-name.s2cf230bfc5aabd7e"),
        (AWS_EBS, "attachable-volumes-aws-ebs"),
        (GCE_PD, "attachable-volumes-gce-pd"),
        (AZURE_DISK, "attachable-volumes-azure-disk"),
        (CINDER, "attachable-volumes-cinder"),
    ],
)
def test_the_key_of_a_driver_follows_the_rule(driver: str, key: str) -> None:
    assert limit_keys.key_for(driver) == key


@pytest.mark.parametrize(("length", "hashed"), [(39, False), (40, True), (200, True)])
def test_a_name_is_hashed_from_forty_characters_on(length: int, hashed: bool) -> None:
    assert limit_keys.is_hashed("a" * length) is hashed


@given(st.text(string.ascii_lowercase, min_size=40, max_size=200))
def test_a_hashed_key_always_has_62_characters(driver: str) -> None:
    assert len(limit_keys.key_for(driver)) == 62


@given(driver_names)
def test_the_key_of_every_driver_is_a_resource_name_no_container_can_request(driver: str) -> None:
    key = limit_keys.key_for(driver)
    assert resources.valid_qualified_name(key)
    assert not limit_keys.can_be_requested(key)


@given(driver_names)
def test_the_key_of_every_driver_is_a_scalar_resource_of_a_node_but_no_extended_one(
    driver: str,
) -> None:
    key = limit_keys.key_for(driver)
    assert resources.is_scheduled(key)
    assert not resources.is_extended(key)


@given(driver_names)
def test_a_driver_among_the_candidates_is_found_by_its_key(driver: str) -> None:
    assert limit_keys.driver_of(limit_keys.key_for(driver), ["other.example.com", driver]) == driver


def test_an_empty_driver_name_has_no_key() -> None:
    with pytest.raises(InputError, match="empty"):
        limit_keys.key_for("")


def test_a_plain_key_is_read_back_without_candidates() -> None:
    assert limit_keys.driver_of("attachable-volumes-csi-ebs.csi.aws.com") == "ebs.csi.aws.com"


def test_an_in_tree_key_is_read_back_as_its_plugin() -> None:
    assert limit_keys.driver_of("attachable-volumes-aws-ebs") == AWS_EBS


def test_a_hashed_key_without_its_driver_among_the_candidates_is_nobodys() -> None:
    assert limit_keys.driver_of(limit_keys.key_for(LONG), ["ebs.csi.aws.com"]) is None


def test_a_key_of_62_characters_might_be_hashed_and_is_not_read_back() -> None:
    assert limit_keys.driver_of(limit_keys.key_for("a" * 39)) is None


@pytest.mark.parametrize("key", ["cpu", "attachable-volumes-", "attachable-volumes-csi-"])
def test_what_is_no_key_of_a_driver_is_nobodys(key: str) -> None:
    assert limit_keys.driver_of(key) is None


def test_the_drivers_of_several_keys_leave_out_in_tree_plugins_and_strangers() -> None:
    keys = [limit_keys.key_for(name) for name in ("ebs.csi.aws.com", AWS_EBS, LONG, "b" * 50)]
    assert limit_keys.drivers_of([*keys, "cpu"], iter([LONG])) == ["ebs.csi.aws.com", LONG]


def test_a_driver_without_annotation_has_the_key_of_the_rule() -> None:
    assert limit_keys.key_of(csi_driver("x.example.com")) == "attachable-volumes-csi-x.example.com"


def test_a_driver_may_name_its_own_key() -> None:
    assert limit_keys.key_of(csi_driver("x.example.com", "attachable-volumes-x")) == (
        "attachable-volumes-x"
    )


def test_a_key_that_a_driver_chose_leads_back_to_it() -> None:
    own = csi_driver("x.example.com", "attachable-volumes-x")
    assert limit_keys.driver_of("attachable-volumes-x", [own]) == "x.example.com"


def test_a_driver_that_chose_a_key_is_not_found_by_that_of_the_rule() -> None:
    own = csi_driver(LONG, "attachable-volumes-x")
    assert limit_keys.driver_of(limit_keys.key_for(LONG), [own]) is None


def test_a_bad_annotation_of_one_driver_does_not_hide_another() -> None:
    drivers = [csi_driver("bad.example.com", "cpu"), csi_driver(LONG)]
    assert limit_keys.driver_of(limit_keys.key_for(LONG), drivers) == LONG


@pytest.mark.parametrize(
    "key",
    ["", "cpu", "example.com/slots", "attachable-volumes-", "attachable-volumes-" + "x" * 45],
)
def test_a_driver_cannot_choose_a_key_that_is_none(key: str) -> None:
    with pytest.raises(InputError, match=r"CSIDriver x\.example\.com.*attach-limit-key"):
        limit_keys.key_of(csi_driver("x.example.com", key))


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("attachable-volumes-csi-ebs.csi.aws.com", True),
        ("attachable-volumes-aws-ebs", True),
        ("storage-attach-limits-aws-ebs", False),
        ("example.com/attachable-volumes-aws-ebs", False),
    ],
)
def test_attach_limits_are_told_by_their_prefix(name: str, is_one: bool) -> None:
    assert limit_keys.is_attachable_volumes(name) is is_one


@pytest.mark.parametrize(
    ("name", "can"),
    [
        ("cpu", True),
        ("memory", True),
        ("ephemeral-storage", True),
        ("hugepages-2Mi", True),
        ("example.com/gpu", True),
        ("kubernetes.io/batteries", True),
        ("pods", False),
        ("attachable-volumes-aws-ebs", False),
        ("requests.example.com/gpu", False),
        ("Example.com/gpu", False),
        ("kubernetes.io/", False),
    ],
)
def test_a_container_may_request_standard_and_extended_resources_only(name: str, can: bool) -> None:
    assert limit_keys.can_be_requested(name) is can


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("12", 12),
        ("+12", 12),
        ("0", None),
        ("-3", None),
        ("", None),
        (" 12", None),
        ("1_2", None),
        ("12.5", None),
        ("many", None),
        (None, None),
    ],
)
def test_only_a_positive_whole_number_in_the_environment_counts(
    value: str | None, number: int | None
) -> None:
    assert limit_keys.max_from_environment(value) == number


@pytest.mark.parametrize(
    ("plugin", "instance_type", "limit"),
    [
        (AWS_EBS, "m4.large", 39),
        (AWS_EBS, "", 39),
        (AWS_EBS, "m6i.large", 39),
        (AWS_EBS, "c5.large", 25),
        (AWS_EBS, "m5d.24xlarge", 25),
        (AWS_EBS, "r5a.large", 25),
        (AWS_EBS, "t3.micro", 25),
        (AWS_EBS, "z1d.large", 25),
        (AWS_EBS, "bit3.large", 25),
        (AWS_EBS, "xm5.large", 39),
        (GCE_PD, "n1-standard-4", 16),
        (AZURE_DISK, "Standard_DS2_v2", 16),
        (CINDER, "m1.small", 256),
    ],
)
def test_the_old_scheduler_fell_back_to(plugin: str, instance_type: str, limit: int) -> None:
    assert limit_keys.intree_default(plugin, instance_type, None) == limit


@pytest.mark.parametrize("plugin", [AWS_EBS, GCE_PD, AZURE_DISK, CINDER])
def test_the_environment_overrides_every_fallback(plugin: str) -> None:
    assert limit_keys.intree_default(plugin, "m5.large", 7) == 7


@pytest.mark.parametrize("env_max", [0, -1])
def test_an_environment_that_is_not_positive_is_ignored(env_max: int) -> None:
    assert limit_keys.intree_default(AZURE_DISK, "", env_max) == 16


def test_a_plugin_without_limits_has_no_fallback() -> None:
    with pytest.raises(InputError, match=re.escape("kubernetes.io/nfs")):
        limit_keys.intree_default("kubernetes.io/nfs", "", None)


@pytest.mark.parametrize(
    ("plugin", "provider", "instance_type", "limit"),
    [
        (AWS_EBS, "aws", "m4.large", 39),
        (AWS_EBS, "aws", "m5.large", 25),
        (GCE_PD, "gce", "e2-medium", 15),
        (GCE_PD, "gce", "", 15),
        (GCE_PD, "gce", "n1-standard-1", 127),
        (AZURE_DISK, "azure", "Standard_DS2_v2", 8),
        (AZURE_DISK, "azure", "Standard_Unheard_Of", 16),
        (CINDER, "openstack", "m1.small", 256),
    ],
)
def test_a_kubelet_published(plugin: str, provider: str, instance_type: str, limit: int) -> None:
    assert limit == limit_keys.kubelet_limit(
        plugin, instance_type, provider=provider, azure_sizes=AZURE_SIZES
    )


@pytest.mark.parametrize(
    ("minor", "machine_type", "limit"),
    [
        (11, "n1-standard-1", 32),
        (12, "n1-highmem-4", 64),
        (12, "n1-standard-7", 64),
        (12, "n1-standard-8", 128),
        (12, "n1-standard", 16),
        (12, "f1-micro", 16),
        (12, "custom-4-8192", 16),
        (13, "n1-standard-1", 127),
        (14, "custom-4-8192", 127),
        (14, "n2-standard-4", 15),
        (15, "n2-standard-4", 127),
        (15, "g1-small", 15),
    ],
)
def test_kubelets_of_each_age_counted_gce_disks_their_way(
    minor: int, machine_type: str, limit: int
) -> None:
    assert limit == limit_keys.kubelet_limit(
        GCE_PD, machine_type, provider="gce", azure_sizes={}, minor=minor
    )


@pytest.mark.parametrize(("configured", "limit"), [(26, 26), (0, 256), (-1, 256)])
def test_cinder_takes_a_positive_number_from_the_cloud_configuration(
    configured: int, limit: int
) -> None:
    assert limit == limit_keys.kubelet_limit(
        CINDER, "", provider="openstack", azure_sizes={}, cinder_limit=configured
    )


@pytest.mark.parametrize(
    ("plugin", "provider"),
    [(AWS_EBS, "gce"), (GCE_PD, "aws"), (AZURE_DISK, "gce"), (CINDER, "azure"), (AWS_EBS, "")],
)
def test_asking_for_the_disks_of_another_cloud_is_an_error(plugin: str, provider: str) -> None:
    with pytest.raises(InputError, match=re.escape(plugin)):
        limit_keys.kubelet_limit(plugin, "m5.large", provider=provider, azure_sizes={})
