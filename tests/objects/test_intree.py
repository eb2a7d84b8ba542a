from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.objects import intree
from tonnage.objects.intree import TranslationError
from tonnage.objects.labels import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.objects.storage import (
    ObjectReference,
    PersistentVolume,
    VolumeNodeAffinity,
    VolumeSpec,
)
from tonnage.objects.volume_sources import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    AzureFileSource,
    CinderSource,
    CSISource,
    GCEPersistentDiskSource,
    ISCSISource,
    PortworxVolumeSource,
    VolumeSource,
    VsphereVolumeSource,
)

EBS: dict[str, Any] = {"aws_elastic_block_store": AWSElasticBlockStoreSource(volume_id="vol-1")}
PD = {"gce_persistent_disk": GCEPersistentDiskSource(pd_name="disk-1")}
AZURE_DISK = {"azure_disk": AzureDiskSource(disk_name="d", disk_uri="/subscriptions/x/disks/d")}
AZURE_FILE = {"azure_file": AzureFileSource(secret_name="s", share_name="share")}
CINDER = {"cinder": CinderSource(volume_id="c-1")}
VSPHERE = {"vsphere_volume": VsphereVolumeSource(volume_path="[ds] v.vmdk")}
PORTWORX = {"portworx_volume": PortworxVolumeSource(volume_id="p-1")}

EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def volume(source, *, labels=None, annotations=None, terms=None, claim=None):
    affinity = None if terms is None else VolumeNodeAffinity(required=selector(*terms))
    return PersistentVolume(
        metadata=ObjectMeta(name="pv-1", labels=labels or {}, annotations=annotations or {}),
        spec=VolumeSpec(
            **source,
            node_affinity=affinity,
            claim_ref=None if claim is None else ObjectReference(namespace=claim, name="c"),
        ),
    )


def selector(*terms):
    """Each term is a list of `(key, value, ...)`, meaning key In values."""
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    NodeSelectorRequirement(
                        key=key, operator="In" if values else "Exists", values=tuple(values)
                    )
                    for key, *values in term
                )
            )
            for term in terms
        )
    )


PLUGINS = [
    (EBS, "kubernetes.io/aws-ebs", "ebs.csi.aws.com", True),
    (PD, "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", True),
    (AZURE_DISK, "kubernetes.io/azure-disk", "disk.csi.azure.com", True),
    (AZURE_FILE, "kubernetes.io/azure-file", "file.csi.azure.com", False),
    (CINDER, "kubernetes.io/cinder", "cinder.csi.openstack.org", True),
    (VSPHERE, "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", False),
    (PORTWORX, "kubernetes.io/portworx-volume", "pxd.portworx.com", True),
]


@pytest.mark.parametrize(("source", "plugin", "driver", "counted"), PLUGINS)
def test_seven_plugins_have_a_driver_and_five_are_counted(source, plugin, driver, counted):
    assert intree.plugin_of(VolumeSource(**source)) == plugin
    assert intree.plugin_of(VolumeSpec(**source)) == plugin
    assert intree.csi_driver_of(plugin) == driver
    assert (plugin in intree.COUNTED) is counted


@pytest.mark.parametrize("source", [{}, {"csi": CSISource(driver="x")}, {"iscsi": ISCSISource()}])
def test_other_sources_have_no_plugin(source):
    assert intree.plugin_of(VolumeSource(**source)) is None


@pytest.mark.parametrize("name", ["ebs.csi.aws.com", "kubernetes.io/no-provisioner", ""])
def test_other_provisioners_have_no_driver(name):
    assert intree.csi_driver_of(name) is None


@pytest.mark.parametrize(
    ("source", "handle"),
    [
        (EBS, "vol-1"),
        (PD, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk-1"),
        (AZURE_DISK, "/subscriptions/x/disks/d"),
        (CINDER, "c-1"),
        (VSPHERE, "[ds] v.vmdk"),
        (PORTWORX, "p-1"),
    ],
)
def test_handles_are_the_same_inline_and_in_a_plain_volume(source, handle):
    plugin = intree.plugin_of(VolumeSource(**source))
    assert plugin is not None
    expected = CSISource(driver=intree.csi_driver_of(plugin) or "", volume_handle=handle)
    assert intree.translate_inline(VolumeSource(name="v", **source)) == expected
    assert intree.volume_handle(volume(source)) == expected


@pytest.mark.parametrize(
    ("volume_id", "handle"),
    [
        ("vol-0123", "vol-0123"),
        ("anything at all", "anything at all"),
        ("", ""),
        ("aws://us-east-1a/vol-12", "vol-12"),
        ("aws:///vol-12", "vol-12"),
        ("aws://us-east-1a//vol-12/", "vol-12"),
        ("aws://us-east-1a/vol-%31", "vol-1"),
        ("aws://us-east-1a:80/vol-1?x=1#y", "vol-1"),
        ("AWS://us-east-1a/vol-12", "AWS://us-east-1a/vol-12"),
    ],
)
def test_ebs_ids_come_bare_or_as_urls(volume_id, handle):
    source = VolumeSource(aws_elastic_block_store=AWSElasticBlockStoreSource(volume_id=volume_id))
    assert intree.translate_inline(source).volume_handle == handle


@pytest.mark.parametrize(
    ("volume_id", "why"),
    [
        ("aws://vol-1", "Invalid format for AWS volume (aws://vol-1)"),
        ("aws://z/disk-1", "Invalid format for AWS volume (aws://z/disk-1)"),
        ("aws://z/a/vol-1", "Invalid format for AWS volume (aws://z/a/vol-1)"),
        ("aws://z/vol-%2f1", "Invalid format for AWS volume (aws://z/vol-%2f1)"),
        ("aws://", "Invalid format for AWS volume (aws://)"),
        ("aws://z/vol-%zz", "Invalid disk name (aws://z/vol-%zz): not a URL"),
        ("aws://a zone/vol-1", "Invalid disk name (aws://a zone/vol-1): not a URL"),
    ],
)
def test_malformed_ebs_urls_are_refused(volume_id, why):
    source: dict[str, Any] = {
        "aws_elastic_block_store": AWSElasticBlockStoreSource(volume_id=volume_id)
    }
    calls: tuple[tuple[Callable[[Any], object], object], ...] = (
        (intree.translate_inline, VolumeSource(**source)),
        (intree.volume_handle, volume(source)),
        (intree.translated_affinity, volume(source)),
    )
    for translate, argument in calls:
        with pytest.raises(TranslationError) as refused:
            translate(argument)
        assert str(refused.value) == f"failed to translate Kubernetes ID to EBS Volume ID {why}"


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({ZONE: "us-east1-b"}, "zones/us-east1-b"),
        ({BETA_ZONE: "us-east1-b"}, "zones/us-east1-b"),
        ({ZONE: "us-east1-b", BETA_ZONE: "us-east1-c"}, "zones/us-east1-c"),
        ({ZONE: "us-east1-b", BETA_ZONE: ""}, "zones/us-east1-b"),
        ({ZONE: "us-east1-b__us-east1-c"}, "regions/us-east1"),
        ({ZONE: ""}, "zones/UNSPECIFIED"),
        ({REGION: "us-east1"}, "zones/UNSPECIFIED"),
    ],
)
def test_labels_place_a_gce_disk(labels, place):
    handle = intree.volume_handle(volume(PD, labels=labels)).volume_handle
    assert handle == f"projects/UNSPECIFIED/{place}/disks/disk-1"


@pytest.mark.parametrize(
    ("zones", "why"),
    [
        (
            "us-west1-a__us-east1-b",
            "multiple or no regions gotten from zones, got: map[us-east1:{} us-west1:{}]",
        ),
        (
            "us-east1-b__",
            "zone in unexpected format, expected: {locale}-{region}-{zone}, got: ",
        ),
    ],
)
def test_zones_of_no_one_region_are_refused(zones, why):
    with pytest.raises(TranslationError) as refused:
        intree.volume_handle(volume(PD, labels={ZONE: zones}))
    assert str(refused.value) == f"failed to get region from zones: {why}"


@pytest.mark.parametrize("kind", [None, "Managed", "managed", "MANAGED"])
def test_managed_azure_disks_are_translated(kind):
    source = VolumeSource(azure_disk=AzureDiskSource(disk_uri="/d", kind=kind))
    assert intree.translate_inline(source).volume_handle == "/d"


@pytest.mark.parametrize("kind", ["Dedicated", "Shared", ""])
def test_other_azure_disks_are_refused(kind):
    source: dict[str, Any] = {"azure_disk": AzureDiskSource(disk_uri="/d", kind=kind)}
    calls: tuple[tuple[Callable[[Any], object], object], ...] = (
        (intree.translate_inline, VolumeSource(**source)),
        (intree.volume_handle, volume(source)),
    )
    for translate, argument in calls:
        with pytest.raises(TranslationError) as refused:
            translate(argument)
        assert str(refused.value) == f"kind({kind}) is not supported in csi migration"


@pytest.mark.parametrize(
    ("secret", "account"), [("s", "s"), ("azure-storage-account-acct-secret", "acct")]
)
def test_azure_file_handles_name_the_account_and_the_namespace(secret, account):
    source: dict[str, Any] = {"azure_file": AzureFileSource(secret_name=secret, share_name="share")}
    inline = VolumeSource(name="v", **source)
    assert intree.translate_inline(inline).volume_handle == f"#{account}#share#v#default"
    assert intree.translate_inline(inline, namespace="ns").volume_handle.endswith("#v#ns")
    annotated = volume(
        source, annotations={"kubernetes.io/azure-file-resource-group": "rg"}, claim="ns"
    )
    assert intree.volume_handle(annotated).volume_handle == f"rg#{account}#share#pv-1#ns"


def test_an_azure_file_source_may_name_its_own_namespace():
    source: dict[str, Any] = {
        "azure_file": AzureFileSource(secret_name="s", secret_namespace="own")
    }
    handle = intree.volume_handle(volume(source, claim="ns")).volume_handle
    assert handle.endswith("#own")


@pytest.mark.parametrize("claim", [None, ""])
def test_an_azure_file_volume_without_a_namespace_is_refused(claim):
    with pytest.raises(TranslationError, match="could not find a secret namespace"):
        intree.volume_handle(volume(AZURE_FILE, claim=claim))


def test_a_source_without_a_plugin_is_refused_by_name():
    with pytest.raises(TranslationError, match=r'translation logic for "v"$'):
        intree.translate_inline(VolumeSource(name="v", iscsi=ISCSISource()))
    with pytest.raises(TranslationError, match=r'translation logic for "pv-1"$'):
        intree.volume_handle(volume({}))


@pytest.mark.parametrize(
    ("source", "key"),
    [
        (EBS, EBS_ZONE),
        (PD, "topology.gke.io/zone"),
        (CINDER, "topology.cinder.csi.openstack.org/zone"),
        (VSPHERE, "topology.csi.vmware.com/zone"),
    ],
)
@pytest.mark.parametrize("zone", [ZONE, BETA_ZONE])
def test_the_zone_becomes_that_of_the_driver(source, key, zone):
    pv = volume(source, terms=[[(zone, "us-east1-b")]])
    assert intree.translated_affinity(pv) == selector([(key, "us-east1-b")])


@pytest.mark.parametrize("source", [AZURE_DISK, PORTWORX, {"csi": CSISource(driver="x")}, {}])
def test_affinity_of_other_volumes_stays_as_it_is(source):
    pv = volume(source, labels={ZONE: "a"}, terms=[[(ZONE, "a")], [(BETA_REGION, "r")]])
    assert intree.translated_affinity(pv) is pv.spec.node_affinity.required


@pytest.mark.parametrize("source", [EBS, AZURE_DISK, {}])
def test_a_volume_without_affinity_and_labels_has_none(source):
    assert intree.translated_affinity(volume(source)) is None


@pytest.mark.parametrize(
    ("why", "labels", "terms", "expected"),
    [
        ("a label stands in for affinity", {ZONE: "a"}, None, [[(EBS_ZONE, "a")]]),
        ("so does the beta label", {BETA_ZONE: "a"}, None, [[(EBS_ZONE, "a")]]),
        ("the GA label wins", {BETA_ZONE: "b", ZONE: "a"}, None, [[(EBS_ZONE, "a")]]),
        ("for no terms at all, too", {ZONE: "a"}, [], [[(EBS_ZONE, "a")]]),
        (
            "zones are split, sorted, stripped and unique",
            {ZONE: "b__ a____b"},
            None,
            [[(EBS_ZONE, "a", "b")]],
        ),
        ("a blank label adds nothing", {ZONE: " "}, [], []),
        (
            "the label is demanded in every term",
            {ZONE: "a"},
            [[("x", "1")], [("y", "2")]],
            [[("x", "1"), (EBS_ZONE, "a")], [("y", "2"), (EBS_ZONE, "a")]],
        ),
        (
            "affinity wins over the label",
            {ZONE: "b"},
            [[(ZONE, "a")], [("x", "1")]],
            [[(EBS_ZONE, "a")], [("x", "1")]],
        ),
        (
            "the key in affinity decides which label is read",
            {ZONE: "a", BETA_ZONE: "b"},
            [[(BETA_ZONE,)]],
            [[(BETA_ZONE,), (EBS_ZONE, "b")]],
        ),
        (
            "only the GA key is renamed when both are used",
            {},
            [[(ZONE, "a"), (BETA_ZONE, "a")]],
            [[(EBS_ZONE, "a"), (BETA_ZONE, "a")]],
        ),
        (
            "the beta region becomes the GA region",
            {},
            [[(BETA_ZONE, "a"), (BETA_REGION, "r")]],
            [[(EBS_ZONE, "a"), (REGION, "r")]],
        ),
        (
            "also when only a label is beta",
            {BETA_ZONE: "a"},
            [[(BETA_REGION, "r")]],
            [[(REGION, "r"), (EBS_ZONE, "a")]],
        ),
        (
            "but not beside a GA zone",
            {},
            [[(ZONE, "a"), (BETA_REGION, "r")]],
            [[(EBS_ZONE, "a"), (BETA_REGION, "r")]],
        ),
    ],
)
def test_affinity_of_a_zonal_volume(why, labels, terms, expected):
    pv = volume(EBS, labels=labels, terms=terms)
    assert intree.translated_affinity(pv) == selector(*expected), why


@pytest.mark.parametrize(
    ("why", "labels", "terms", "expected"),
    [
        (
            "both keys are renamed",
            {},
            [[(ZONE, "a"), (REGION, "r")]],
            [[("zone", "a"), ("region", "r")]],
        ),
        (
            "both labels are demanded",
            {ZONE: "a", REGION: "r"},
            None,
            [[("zone", "a"), ("region", "r")]],
        ),
        ("labels are not split", {ZONE: "a__b"}, None, [[("zone", "a__b")]]),
    ],
)
def test_affinity_of_a_vsphere_volume(why, labels, terms, expected):
    full = [[(f"topology.csi.vmware.com/{key}", *values) for key, *values in t] for t in expected]
    pv = volume(VSPHERE, labels=labels, terms=terms)
    assert intree.translated_affinity(pv) == selector(*full), why


def test_fields_of_a_term_survive_translation():
    fields = (NodeSelectorRequirement(key="metadata.name", operator="In", values=("n1",)),)
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=fields),))
    pv = PersistentVolume(
        metadata=ObjectMeta(labels={ZONE: "a"}),
        spec=VolumeSpec(**EBS, node_affinity=VolumeNodeAffinity(required=required)),
    )
    translated = intree.translated_affinity(pv)
    assert translated is not None
    assert translated.node_selector_terms[0].match_fields == fields


TERMS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from([ZONE, BETA_ZONE, REGION, BETA_REGION, "x"]), st.sampled_from("ab")
        ),
        max_size=3,
    ),
    max_size=3,
)
LABELS = st.dictionaries(
    st.sampled_from([ZONE, BETA_ZONE]), st.sampled_from(["", "a", "b", "a__b"])
)


@given(TERMS, LABELS)
def test_translation_never_drops_a_term_or_a_requirement(terms, labels):
    translated = intree.translated_affinity(volume(EBS, labels=labels, terms=terms))
    assert translated is not None
    after = translated.node_selector_terms
    assert len(after) >= len(terms)
    for old, new in zip(terms, after, strict=False):
        assert [r.values for r in new.match_expressions][: len(old)] == [(v,) for _, v in old]


@given(TERMS)
def test_a_zone_that_was_translated_is_found_in_every_term_it_was_in(terms):
    translated = intree.translated_affinity(volume(EBS, terms=terms))
    assert translated is not None
    keys = {key for term in terms for key, _ in term}
    zone = ZONE if ZONE in keys else BETA_ZONE
    for old, new in zip(terms, translated.node_selector_terms, strict=True):
        had = [key for key, _ in old].count(zone)
        assert [r.key for r in new.match_expressions].count(EBS_ZONE) == had
