"""VolumeRestrictions: disks that attach once, and claims for one pod at a time."""

import pytest

from tests.rules.asking import FITS, SKIPPED, answer, reasons
from tonnage.objects.volume_sources import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    GCEPersistentDiskSource,
    ISCSISource,
    RBDSource,
    VolumeSource,
)
from tonnage.rules.causes import Cause
from tonnage.rules.volume_restrictions import VolumeRestrictions
from tonnage.testing.builders import node, pod, pvc

DISK = "U: node(s) had no available disk"
IN_USE = (
    "U: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
    " already in-use by another pod"
)


def gce(name: str, *, read_only: bool = False) -> VolumeSource:
    return VolumeSource(
        name="disk", gce_persistent_disk=GCEPersistentDiskSource(pd_name=name, read_only=read_only)
    )


def ebs(volume: str, *, read_only: bool = False) -> VolumeSource:
    source = AWSElasticBlockStoreSource(volume_id=volume, read_only=read_only)
    return VolumeSource(name="disk", aws_elastic_block_store=source)


def iscsi(iqn: str, *, read_only: bool = False) -> VolumeSource:
    return VolumeSource(name="disk", iscsi=ISCSISource(iqn=iqn, read_only=read_only))


def rbd(*monitors: str, image: str = "i", pool: str = "p", read_only: bool = False) -> VolumeSource:
    source = RBDSource(monitors=monitors, image=image, pool=pool, read_only=read_only)
    return VolumeSource(name="disk", rbd=source)


@pytest.mark.parametrize(
    ("wanted", "held", "expected"),
    [
        pytest.param(gce("a"), gce("a"), DISK, id="the same GCE disk"),
        pytest.param(gce("a"), gce("b"), FITS, id="another GCE disk"),
        pytest.param(
            gce("a", read_only=True),
            gce("a", read_only=True),
            FITS,
            id="the same GCE disk, both reading",
        ),
        pytest.param(
            gce("a", read_only=True), gce("a"), DISK, id="the same GCE disk, one of them writing"
        ),
        pytest.param(ebs("a"), ebs("a"), DISK, id="the same EBS volume"),
        pytest.param(
            ebs("a", read_only=True),
            ebs("a", read_only=True),
            DISK,
            id="the same EBS volume, even if both only read",
        ),
        pytest.param(ebs("a"), ebs("b"), FITS, id="another EBS volume"),
        pytest.param(iscsi("a"), iscsi("a"), DISK, id="the same iSCSI target"),
        pytest.param(
            iscsi("a", read_only=True),
            iscsi("a", read_only=True),
            FITS,
            id="the same iSCSI target, both reading",
        ),
        pytest.param(iscsi("a"), iscsi("b"), FITS, id="another iSCSI target"),
        pytest.param(
            rbd("m1", "m2"), rbd("m2", "m3"), DISK, id="the same image, one monitor shared"
        ),
        pytest.param(rbd("m1"), rbd("m2"), FITS, id="the same image, but other monitors"),
        pytest.param(rbd("m1", image="x"), rbd("m1", image="y"), FITS, id="another image"),
        pytest.param(rbd("m1", pool="x"), rbd("m1", pool="y"), FITS, id="another pool"),
        pytest.param(
            rbd("m1", read_only=True),
            rbd("m1", read_only=True),
            FITS,
            id="the same image, both reading",
        ),
        pytest.param(gce("a"), ebs("a"), FITS, id="disks of different kinds with one name"),
    ],
)
def test_disks_conflict_on_one_node(wanted, held, expected) -> None:
    others = [node("n1"), pod("other", on="n1", volumes=[held])]

    assert answer(VolumeRestrictions(), pod("web", volumes=[wanted]), others) == expected


def test_a_disk_in_use_on_another_node_does_not_matter() -> None:
    others = [node("n1"), node("n2"), pod("other", on="n2", volumes=[ebs("a")])]

    assert answer(VolumeRestrictions(), pod("web", volumes=[ebs("a")]), others) == FITS


def test_every_disk_of_the_pod_is_looked_at() -> None:
    others = [node("n1"), pod("other", on="n1", volumes=[ebs("x"), ebs("b")])]

    assert answer(VolumeRestrictions(), pod("web", volumes=[ebs("a"), ebs("b")]), others) == DISK


def test_disks_of_other_plugins_are_not_looked_at() -> None:
    azure = VolumeSource(name="disk", azure_disk=AzureDiskSource(disk_uri="a"))

    assert answer(VolumeRestrictions(), pod("web", volumes=[azure]), [node("n1")]) == SKIPPED


ONE_POD = pvc("data", volume="data", access_modes=("ReadWriteOncePod",))
NODES = (node("n1"), node("n2"))


@pytest.mark.parametrize(
    ("claims", "others", "expected"),
    [
        pytest.param([ONE_POD], [], SKIPPED, id="nobody uses the claim"),
        pytest.param(
            [ONE_POD], [pod("other", on="n1", pvcs=["data"])], IN_USE, id="a pod here does"
        ),
        pytest.param(
            [ONE_POD],
            [pod("other", on="n2", pvcs=["data"])],
            IN_USE,
            id="a pod anywhere in the cluster does",
        ),
        pytest.param(
            [ONE_POD],
            [pod("other", on="n2", pvcs=["data"], deleting=True)],
            IN_USE,
            id="a pod that is being deleted still does",
        ),
        pytest.param(
            [ONE_POD],
            [pod("other", on="n2", pvcs=["data"], phase="Succeeded")],
            SKIPPED,
            id="a finished pod does not any more",
        ),
        pytest.param(
            [ONE_POD], [pod("other", pvcs=["data"])], SKIPPED, id="a waiting pod does not yet"
        ),
        pytest.param(
            [ONE_POD],
            [pod("other", on="gone", pvcs=["data"])],
            SKIPPED,
            id="a pod on a node that is gone does not",
        ),
        pytest.param(
            [ONE_POD],
            [pod("other", namespace="elsewhere", on="n1", pvcs=["data"])],
            SKIPPED,
            id="a claim of the same name in another namespace is another claim",
        ),
        pytest.param(
            [pvc("data", volume="data", access_modes=("ReadWriteOnce",))],
            [pod("other", on="n1", pvcs=["data"])],
            SKIPPED,
            id="ReadWriteOnce is for one node, not for one pod",
        ),
        pytest.param(
            [pvc("data", volume="data", access_modes=("ReadWriteOnce", "ReadWriteOncePod"))],
            [pod("other", on="n1", pvcs=["data"])],
            IN_USE,
            id="one access mode among several is enough",
        ),
        pytest.param(
            [],
            [],
            'before any node, UU: persistentvolumeclaim "data" not found',
            id="no such claim",
        ),
    ],
)
def test_a_claim_for_one_pod_is_taken_cluster_wide(claims, others, expected) -> None:
    asking = pod("web", pvcs=["data"])

    assert answer(VolumeRestrictions(), asking, [*NODES, *claims, *others]) == expected


def test_generic_ephemeral_volumes_are_not_examined() -> None:
    asking = pod("web", ephemeral=["data"])
    claim = pvc("web-data", volume="data", access_modes=("ReadWriteOncePod",), owner=asking)
    user = pod("other", on="n1", pvcs=["web-data"])

    assert answer(VolumeRestrictions(), asking, [*NODES, claim, user]) == SKIPPED


def test_an_ephemeral_use_of_the_claim_is_no_use() -> None:
    user = pod("web", on="n1", ephemeral=["data"])
    claim = pvc("web-data", volume="data", access_modes=("ReadWriteOncePod",), owner=user)

    assert answer(
        VolumeRestrictions(), pod("asking", pvcs=["web-data"]), [*NODES, claim, user]
    ) == (SKIPPED)


def test_a_disk_in_use_is_named_before_a_claim_in_use() -> None:
    asking = pod("web", pvcs=["data"], volumes=[ebs("a")])
    others = [*NODES, ONE_POD, pod("other", on="n1", pvcs=["data"], volumes=[ebs("a")])]

    assert answer(VolumeRestrictions(), asking, others) == DISK
    assert answer(VolumeRestrictions(), asking, others, node="n2") == IN_USE


def test_the_claim_in_use_is_named() -> None:
    others = [*NODES, ONE_POD, pod("other", on="n2", pvcs=["data"])]
    (reason,) = reasons(VolumeRestrictions(), pod("web", pvcs=["data"]), others)

    assert (reason.cause, reason.facts) == (Cause.CLAIM_IN_USE, {"claim": "data"})
