"""VolumeZone: zone and region labels of bound volumes against those of nodes."""

import pytest

from tests.rules.asking import FITS, SKIPPED, answer
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.storage import StorageClass
from tonnage.rules.volume_zone import VolumeZone
from tonnage.testing.builders import claim_volume, node, pod, pv, pvc, storage_class

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ELSEWHERE = "UU: node(s) had no available volume zone"
DRIVER = "csi.example"


@pytest.mark.parametrize(
    ("volume", "labels", "expected"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, FITS, id="the same zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, ELSEWHERE, id="another zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, FITS, id="one of several zones"),
        pytest.param({ZONE: "a__b"}, {ZONE: "c"}, ELSEWHERE, id="none of several zones"),
        pytest.param({ZONE: "a__ b "}, {ZONE: "b"}, FITS, id="blanks around a zone do not matter"),
        pytest.param({ZONE: "a__"}, {ZONE: "b"}, SKIPPED, id="an empty zone makes the label void"),
        pytest.param({}, {ZONE: "b"}, SKIPPED, id="a volume without labels is not looked at"),
        pytest.param({ZONE: "a"}, {}, FITS, id="a node without any of the labels takes it"),
        pytest.param(
            {ZONE: "a"}, {REGION: "r"}, ELSEWHERE, id="a node with a region but no zone does not"
        ),
        pytest.param({REGION: "r"}, {REGION: "s"}, ELSEWHERE, id="another region"),
        pytest.param(
            {ZONE: "a", REGION: "r"},
            {ZONE: "a", REGION: "s"},
            ELSEWHERE,
            id="all labels must agree",
        ),
        pytest.param({BETA_ZONE: "a"}, {BETA_ZONE: "a"}, FITS, id="both speak of the old label"),
        pytest.param(
            {BETA_ZONE: "a"},
            {ZONE: "a"},
            FITS,
            id="the old label of the volume, the new of the node",
        ),
        pytest.param(
            {BETA_ZONE: "a"}, {ZONE: "b"}, ELSEWHERE, id="old and new labels that do not agree"
        ),
        pytest.param({BETA_REGION: "r"}, {REGION: "r"}, FITS, id="regions have an old label too"),
        pytest.param(
            {BETA_ZONE: "a"},
            {BETA_ZONE: "b", ZONE: "a"},
            ELSEWHERE,
            id="a node with both labels is asked for the one the volume has",
        ),
        pytest.param(
            {ZONE: "a"},
            {BETA_ZONE: "a"},
            ELSEWHERE,
            id="the new label of the volume is not looked for under the old one",
        ),
        pytest.param(
            {"rack": "a"}, {ZONE: "b", "rack": "b"}, SKIPPED, id="other labels do not matter"
        ),
    ],
)
def test_a_bound_volume_stays_in_its_zone(volume, labels, expected) -> None:
    claim = pvc("data", volume="data")
    stored = [claim, pv("data", driver=DRIVER, claim=claim, labels=volume)]

    assert answer(
        VolumeZone(), pod("web", pvcs=["data"]), [node("n1", labels=labels), *stored]
    ) == (expected)


def test_every_volume_must_be_reachable() -> None:
    claims = [pvc(name, volume=name) for name in ("near", "far")]
    volumes = [
        pv(claim.metadata.name, driver=DRIVER, claim=claim, labels={ZONE: zone})
        for claim, zone in zip(claims, ("a", "b"), strict=True)
    ]
    asking = pod("web", pvcs=["near", "far"])

    assert answer(VolumeZone(), asking, [node("n1", zone="a"), *claims, *volumes]) == ELSEWHERE


WAITING = storage_class("waiting", DRIVER)
IMMEDIATE = storage_class("immediate", DRIVER, immediate=True)
MODELESS = StorageClass(metadata=ObjectMeta(name="modeless"), provisioner=DRIVER)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(
            [pvc("data", storage_class="waiting")], SKIPPED, id="a claim that waits has no zone yet"
        ),
        pytest.param(
            [pvc("data", storage_class="immediate")],
            "before any node, UU: PersistentVolume had no name",
            id="a claim that should be bound has no volume",
        ),
        pytest.param(
            [pvc("data")],
            "before any node, UU: PersistentVolumeClaim had no pv name and storageClass name",
            id="a claim without volume and class",
        ),
        pytest.param(
            [pvc("data", storage_class="gone")],
            'before any node, UU: storageclass.storage.k8s.io "gone" not found',
            id="no such class",
        ),
        pytest.param(
            [pvc("data", storage_class="modeless")],
            'before any node, UU: VolumeBindingMode not set for StorageClass "modeless"',
            id="a class that does not say when it binds",
        ),
        pytest.param(
            [pvc("data", volume="gone")],
            'before any node, UU: persistentvolume "gone" not found',
            id="no such volume",
        ),
        pytest.param(
            [], 'before any node, UU: persistentvolumeclaim "data" not found', id="no such claim"
        ),
    ],
)
def test_a_claim_must_lead_to_a_volume(stored, expected) -> None:
    objects = [node("n1"), WAITING, IMMEDIATE, MODELESS, *stored]

    assert answer(VolumeZone(), pod("web", pvcs=["data"]), objects) == expected


def test_a_claim_without_a_name_is_refused() -> None:
    asking = pod("web", volumes=[claim_volume("")])

    assert answer(VolumeZone(), asking, [node("n1")]) == (
        "before any node, UU: PersistentVolumeClaim had no name"
    )


def test_generic_ephemeral_volumes_are_not_looked_at() -> None:
    asking = pod("web", ephemeral=["data"])
    claim = pvc("web-data", volume="data", owner=asking)
    volume = pv("data", driver=DRIVER, claim=claim, labels={ZONE: "b"})

    assert answer(VolumeZone(), asking, [node("n1", zone="a"), claim, volume]) == SKIPPED
