"""NodeVolumeLimits: limits, what counts against them, and what a refusal says."""

import msgspec
import pytest

from tests.rules.asking import FITS, SKIPPED, answer, reasons, verdict, version
from tonnage.objects.storage import (
    CLASS_ANNOTATION,
    AttachmentSource,
    AttachmentSpec,
    NodeDriver,
    NodeDriverAllocatable,
    VolumeAttachment,
)
from tonnage.objects.volume_sources import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    AzureFileSource,
    CSISource,
    GCEPersistentDiskSource,
    VolumeSource,
    VsphereVolumeSource,
)
from tonnage.rules.causes import Cause
from tonnage.rules.node_volume_limits import NodeVolumeLimits
from tonnage.testing.builders import (
    attachment,
    claim_volume,
    csinode,
    node,
    pod,
    pv,
    pvc,
    storage_class,
)

EBS = "ebs.csi.aws.com"
GCE = "pd.csi.storage.gke.io"
EXCEEDED = "U: node(s) exceed max volume count"
NODE = "n1"


def ebs_disk(volume_id: str) -> VolumeSource:
    return VolumeSource(
        name="disk", aws_elastic_block_store=AWSElasticBlockStoreSource(volume_id=volume_id)
    )


def one_volume(*, limit: int | None, driver: str = EBS) -> list[object]:
    claim = pvc("data", volume="data")
    return [
        node(NODE),
        csinode(NODE, {driver: limit}),
        claim,
        pv("data", driver=driver, claim=claim),
    ]


WANTS = pod("web", pvcs=["data"])


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(0, EXCEEDED, id="a limit of zero is no slots at all"),
        pytest.param(1, FITS, id="a limit of one is one slot"),
        pytest.param(None, FITS, id="no limit is any number"),
    ],
)
def test_limits_say_what_they_say(limit, expected) -> None:
    assert answer(NodeVolumeLimits(), WANTS, one_volume(limit=limit)) == expected


def test_an_allocatable_without_a_count_is_no_limit() -> None:
    empty = NodeDriver(name=EBS, node_id=NODE, allocatable=NodeDriverAllocatable())
    listed = csinode(NODE)
    listed = msgspec.structs.replace(
        listed, spec=msgspec.structs.replace(listed.spec, drivers=(empty,))
    )

    assert answer(NodeVolumeLimits(), WANTS, [*one_volume(limit=0), listed]) == FITS


def test_a_full_node_takes_a_pod_whose_volumes_are_all_there() -> None:
    objects = [*one_volume(limit=0), pod("other", on=NODE, pvcs=["data"])]

    assert answer(NodeVolumeLimits(), WANTS, objects) == FITS


def test_a_limit_of_another_driver_is_not_a_limit() -> None:
    objects = [*one_volume(limit=None), csinode(NODE, {GCE: 0})]

    assert answer(NodeVolumeLimits(), WANTS, objects) == FITS


def test_two_claims_of_one_volume_take_one_slot() -> None:
    claims = [pvc(name, volume="data") for name in ("data", "same")]
    objects = [
        node(NODE),
        csinode(NODE, {EBS: 1}),
        *claims,
        pv("data", driver=EBS, claim=claims[0]),
    ]

    assert answer(NodeVolumeLimits(), pod("web", pvcs=["data", "same"]), objects) == FITS


def test_one_claim_mounted_twice_takes_one_slot() -> None:
    assert (
        answer(NodeVolumeLimits(), pod("web", pvcs=["data", "data"]), one_volume(limit=1)) == FITS
    )


def test_volumes_of_a_pod_on_another_node_take_no_slot_here() -> None:
    far = pvc("far", volume="far")
    objects = [
        *one_volume(limit=1),
        far,
        pv("far", driver=EBS, claim=far),
        node("n2"),
        pod("other", on="n2", pvcs=["far"]),
    ]

    assert answer(NodeVolumeLimits(), WANTS, objects) == FITS


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(
            {"deleting": True}, EXCEEDED, id="a pod that is being deleted keeps its slots"
        ),
        pytest.param({"phase": "Succeeded"}, FITS, id="a finished pod has given them back"),
    ],
)
def test_a_pod_keeps_its_slots_to_the_end(state, expected) -> None:
    other = pvc("other", volume="other")
    objects = [
        *one_volume(limit=1),
        other,
        pv("other", driver=EBS, claim=other),
        pod("other", on=NODE, pvcs=["other"], **state),
    ]

    assert answer(NodeVolumeLimits(), WANTS, objects) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            VolumeSource(name="v", csi=CSISource(driver=EBS)), SKIPPED, id="an inline CSI volume"
        ),
        pytest.param(
            VolumeSource(name="v", vsphere_volume=VsphereVolumeSource(volume_path="p")),
            FITS,
            id="a vSphere volume, though its driver took over",
        ),
        pytest.param(
            VolumeSource(name="v", azure_file=AzureFileSource(secret_name="s", share_name="f")),
            FITS,
            id="an Azure file share, though its driver took over",
        ),
    ],
)
def test_some_volumes_never_count(source, expected) -> None:
    none_left = {EBS: 0, "csi.vsphere.vmware.com": 0, "file.csi.azure.com": 0}
    objects = [node(NODE), csinode(NODE, none_left)]

    assert answer(NodeVolumeLimits(), pod("web", volumes=[source]), objects) == expected


@pytest.mark.parametrize(
    ("source", "driver"),
    [
        pytest.param(ebs_disk("vol-1"), EBS, id="EBS"),
        pytest.param(
            VolumeSource(name="v", gce_persistent_disk=GCEPersistentDiskSource(pd_name="d")),
            GCE,
            id="GCE PD",
        ),
        pytest.param(
            VolumeSource(name="v", azure_disk=AzureDiskSource(disk_uri="/d")),
            "disk.csi.azure.com",
            id="Azure disk",
        ),
    ],
)
def test_inline_disks_take_slots_of_the_driver_that_took_over(source, driver) -> None:
    objects = [node(NODE), csinode(NODE, {driver: 0})]

    assert answer(NodeVolumeLimits(), pod("web", volumes=[source]), objects) == EXCEEDED


BROKEN = VolumeSource(name="broken", azure_disk=AzureDiskSource(disk_uri="/d", kind="Dedicated"))
CANNOT_CONVERT = (
    "E: converting volume(broken) from inline to csi: "
    "kind(Dedicated) is not supported in csi migration"
)


def test_an_inline_volume_that_cannot_be_converted_is_an_error() -> None:
    objects = [node(NODE), csinode(NODE, {EBS: None})]

    assert answer(NodeVolumeLimits(), pod("web", volumes=[BROKEN]), objects) == CANNOT_CONVERT


def test_without_a_csinode_nothing_is_converted() -> None:
    assert answer(NodeVolumeLimits(), pod("web", volumes=[BROKEN]), [node(NODE)]) == FITS


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(5, CANNOT_CONVERT, id="a node with a limit is looked into"),
        pytest.param(None, FITS, id="a node without any limit is not looked into"),
    ],
)
def test_errors_of_pods_on_the_node_are_errors_of_the_attempt(limit, expected) -> None:
    objects = [*one_volume(limit=limit), pod("other", on=NODE, volumes=[BROKEN])]

    assert answer(NodeVolumeLimits(), WANTS, objects) == expected


def test_a_missing_claim_of_a_pod_on_the_node_is_passed_over() -> None:
    objects = [*one_volume(limit=1), pod("other", on=NODE, pvcs=["gone"])]

    assert answer(NodeVolumeLimits(), WANTS, objects) == FITS


def test_a_claim_without_a_name_is_an_error() -> None:
    asking = pod("web", volumes=[claim_volume("")])

    assert answer(NodeVolumeLimits(), asking, one_volume(limit=1)) == (
        "E: PersistentVolumeClaim had no name"
    )


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(pvc("data", storage_class="csi"), EXCEEDED, id="by its class"),
        pytest.param(pvc("data", storage_class="gone"), FITS, id="not if the class is missing"),
        pytest.param(
            pvc("data", storage_class="gone", annotations={CLASS_ANNOTATION: "csi"}),
            EXCEEDED,
            id="the old annotation goes before the field",
        ),
        pytest.param(
            pvc("data", storage_class="csi", annotations={CLASS_ANNOTATION: ""}),
            FITS,
            id="the old annotation goes before the field even when it is empty",
        ),
        pytest.param(pvc("data", storage_class="now"), EXCEEDED, id="an Immediate class no less"),
        pytest.param(
            pvc("data", storage_class="shares"),
            FITS,
            id="not if its driver took over but is not counted",
        ),
    ],
)
def test_an_unbound_claim_counts(claim, expected) -> None:
    objects = [
        node(NODE),
        csinode(NODE, {EBS: 0, "file.csi.azure.com": 0}),
        storage_class("csi", EBS),
        storage_class("now", EBS, immediate=True),
        storage_class("shares", "kubernetes.io/azure-file"),
        claim,
    ]

    assert answer(NodeVolumeLimits(), WANTS, objects) == expected


def held_by(found: VolumeAttachment) -> str:
    """Whether an attachment takes the only slot of a node from a pod that wants another volume."""
    other = pvc("other", volume="other")
    in_tree = pv("in-tree", source=ebs_disk("vol-1"))
    objects = [*one_volume(limit=1), other, pv("other", driver=EBS, claim=other), in_tree, found]
    return answer(NodeVolumeLimits(), WANTS, objects)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(attachment("other", NODE, attacher=EBS), EXCEEDED, id="of another volume"),
        pytest.param(
            attachment("other", NODE, attacher=EBS, attached=False),
            EXCEEDED,
            id="one that is still being made",
        ),
        pytest.param(attachment("other", "n2", attacher=EBS), FITS, id="not one of another node"),
        pytest.param(
            attachment("other", NODE, attacher=""), FITS, id="not one without an attacher"
        ),
        pytest.param(
            attachment("other", NODE, attacher=GCE), FITS, id="one of the driver that attaches it"
        ),
        pytest.param(
            attachment("gone", NODE, attacher=EBS), FITS, id="not one of a volume that is gone"
        ),
        pytest.param(
            attachment("in-tree", NODE, attacher=EBS), FITS, id="not one of an in-tree volume"
        ),
        pytest.param(
            VolumeAttachment(spec=AttachmentSpec(attacher=EBS, node_name=NODE)),
            FITS,
            id="not one of an inline volume",
        ),
    ],
)
def test_an_attachment_takes_a_slot(found, expected) -> None:
    assert held_by(found) == expected


def test_a_volume_in_use_and_attached_takes_one_slot() -> None:
    other = pvc("other", volume="other")
    objects = [
        *one_volume(limit=2),
        other,
        pv("other", driver=EBS, claim=other),
        pod("other", on=NODE, pvcs=["other"]),
        attachment("other", NODE, attacher=EBS),
    ]

    assert answer(NodeVolumeLimits(), WANTS, objects) == FITS


def test_two_attachments_of_one_volume_take_one_slot() -> None:
    other = pvc("other", volume="other")
    second = VolumeAttachment(
        metadata=msgspec.structs.replace(
            attachment("other", NODE, attacher=EBS).metadata, name="b"
        ),
        spec=AttachmentSpec(
            attacher=EBS, node_name=NODE, source=AttachmentSource(persistent_volume_name="other")
        ),
    )
    objects = [
        *one_volume(limit=2),
        other,
        pv("other", driver=EBS, claim=other),
        attachment("other", NODE, attacher=EBS),
        second,
    ]

    assert answer(NodeVolumeLimits(), WANTS, objects) == FITS


RETURNING = (*one_volume(limit=1), attachment("data", NODE, attacher=EBS))


def test_upstream_counts_a_returning_pods_own_volume_twice() -> None:
    assert answer(NodeVolumeLimits(), WANTS, RETURNING) == EXCEEDED


def test_the_right_count_of_a_returning_pods_own_volume_is_an_option() -> None:
    once = msgspec.structs.replace(version("1.37"), returning_volume_once=True)

    assert answer(NodeVolumeLimits(), WANTS, RETURNING, of=once) == FITS


def test_the_option_does_not_forgive_other_attachments() -> None:
    once = msgspec.structs.replace(version("1.37"), returning_volume_once=True)
    other = pvc("other", volume="other")
    objects = [
        *one_volume(limit=1),
        other,
        pv("other", driver=EBS, claim=other),
        attachment("other", NODE, attacher=EBS),
    ]

    assert answer(NodeVolumeLimits(), WANTS, objects, of=once) == EXCEEDED


def test_a_refusal_says_driver_used_wanted_and_limit() -> None:
    claims = [pvc(name, volume=name) for name in ("a", "b", "c", "d")]
    objects = [
        node(NODE),
        csinode(NODE, {EBS: 3}),
        *claims,
        *(pv(claim.metadata.name, driver=EBS, claim=claim) for claim in claims),
        pod("other", on=NODE, pvcs=["a"]),
        attachment("b", NODE, attacher=EBS),
    ]
    (reason,) = reasons(NodeVolumeLimits(), pod("web", pvcs=["a", "c", "d"]), objects)

    assert reason.cause is Cause.MAX_VOLUME_COUNT
    assert reason.facts == {"driver": EBS, "used": 2, "wanted": 2, "limit": 3}


def test_of_several_full_drivers_the_first_by_name_is_reported() -> None:
    claims = [pvc(name, volume=name) for name in ("a", "b")]
    objects = [
        node(NODE),
        csinode(NODE, {GCE: 0, EBS: 0}),
        *claims,
        pv("a", driver=GCE, claim=claims[0]),
        pv("b", driver=EBS, claim=claims[1]),
    ]
    (reason,) = reasons(NodeVolumeLimits(), pod("web", pvcs=["a", "b"]), objects)

    assert reason.facts["driver"] == EBS


def test_an_error_names_its_plugin() -> None:
    found = verdict(pod("web", volumes=[BROKEN]), [node(NODE), csinode(NODE, {})])

    assert found.texts == [f'running "NodeVolumeLimits" filter plugin: {CANNOT_CONVERT[3:]}']
