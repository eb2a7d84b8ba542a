"""VolumeBinding: which existing volume suits an unbound claim."""

import msgspec
import pytest

from tests.rules.asking import FITS, answer
from tonnage.objects.meta import LabelRequirement
from tonnage.objects.pods import NodeSelector
from tonnage.objects.storage import CLASS_ANNOTATION, ObjectReference, PersistentVolume
from tonnage.rules.volume_binding import VolumeBinding
from tonnage.testing.builders import node, nodes_with, pod, pv, pvc, selecting, storage_class

KEY = "nodeKey"
DRIVER = "csi.example"
HERE, THERE = nodes_with(KEY, "n1"), nodes_with(KEY, "n2")
CLUSTER = (
    node("n1", labels={KEY: "n1"}),
    node("n2", labels={KEY: "n2"}),
    storage_class("static", "kubernetes.io/no-provisioner"),
)
UNBINDABLE = "UU: node(s) didn't find available persistent volumes to bind"


def static(name: str, size: str, affinity: NodeSelector = HERE) -> PersistentVolume:
    return pv(name, driver=DRIVER, storage_class="static", size=size, node_affinity=affinity)


WANTED = pvc("data", storage_class="static", size="5Gi")


def reserved_for(namespace: str, name: str, uid: str = "") -> PersistentVolume:
    free = pv("one", driver=DRIVER, storage_class="static", size="5Gi", phase="Bound")
    reference = ObjectReference(namespace=namespace, name=name, uid=uid)
    return msgspec.structs.replace(
        free, spec=msgspec.structs.replace(free.spec, claim_ref=reference)
    )


@pytest.mark.parametrize(
    ("claim", "volume", "expected"),
    [
        pytest.param(
            WANTED,
            pv("one", driver=DRIVER, storage_class="static", size="5Gi"),
            FITS,
            id="just enough",
        ),
        pytest.param(
            WANTED,
            pv("one", driver=DRIVER, storage_class="static", size=5 * 1024**3 - 1),
            UNBINDABLE,
            id="a byte too small",
        ),
        pytest.param(
            WANTED,
            pv("one", driver=DRIVER, storage_class="other", size="5Gi"),
            UNBINDABLE,
            id="another class",
        ),
        pytest.param(
            WANTED,
            pv(
                "one",
                driver=DRIVER,
                storage_class="other",
                size="5Gi",
                annotations={CLASS_ANNOTATION: "static"},
            ),
            FITS,
            id="the old annotation says which class it is",
        ),
        pytest.param(
            WANTED,
            pv("one", driver=DRIVER, storage_class="static", size="5Gi", phase="Released"),
            UNBINDABLE,
            id="released, not available",
        ),
        pytest.param(
            WANTED,
            pv("one", driver=DRIVER, storage_class="static", size="5Gi", deleting=True),
            UNBINDABLE,
            id="being deleted",
        ),
        pytest.param(
            WANTED,
            pv("one", driver=DRIVER, storage_class="static", size="5Gi", volume_mode="Block"),
            UNBINDABLE,
            id="a block device for a file system",
        ),
        pytest.param(
            WANTED,
            pv("one", driver=DRIVER, storage_class="static", size="5Gi", volume_mode="Filesystem"),
            FITS,
            id="no mode is a file system",
        ),
        pytest.param(
            WANTED,
            pv("one", driver=DRIVER, storage_class="static", size="5Gi", attributes_class="gold"),
            UNBINDABLE,
            id="another attributes class",
        ),
        pytest.param(
            WANTED,
            pv("one", driver=DRIVER, storage_class="static", size="5Gi", attributes_class=""),
            FITS,
            id="an empty attributes class is none",
        ),
        pytest.param(
            pvc("data", storage_class="static", access_modes=("ReadWriteMany",)),
            pv("one", driver=DRIVER, storage_class="static", size="5Gi"),
            UNBINDABLE,
            id="an access mode the volume does not have",
        ),
        pytest.param(
            WANTED,
            pv(
                "one",
                driver=DRIVER,
                storage_class="static",
                size="5Gi",
                access_modes=("ReadWriteMany", "ReadWriteOnce"),
            ),
            FITS,
            id="more access modes than wanted",
        ),
        pytest.param(
            pvc("data", storage_class="static", selector=selecting({"kind": "fast"})),
            pv("one", driver=DRIVER, storage_class="static", labels={"kind": "fast"}),
            FITS,
            id="a selector that matches",
        ),
        pytest.param(
            pvc("data", storage_class="static", selector=selecting({"kind": "fast"})),
            pv("one", driver=DRIVER, storage_class="static", labels={"kind": "slow"}),
            UNBINDABLE,
            id="a selector that does not match",
        ),
        pytest.param(
            WANTED, reserved_for("default", "data"), FITS, id="reserved for the claim, by name"
        ),
        pytest.param(
            WANTED,
            reserved_for("default", "data", "uid-pvc-default-data"),
            FITS,
            id="reserved for the claim, by identity",
        ),
        pytest.param(
            WANTED,
            reserved_for("default", "data", "an earlier one"),
            UNBINDABLE,
            id="reserved for an earlier claim of that name",
        ),
        pytest.param(
            WANTED, reserved_for("default", "other"), UNBINDABLE, id="reserved for another claim"
        ),
        pytest.param(
            WANTED, reserved_for("other", "data"), UNBINDABLE, id="reserved in another namespace"
        ),
    ],
)
def test_a_volume_must_suit_the_claim(claim, volume, expected) -> None:
    assert answer(VolumeBinding(), pod("web", pvcs=["data"]), [*CLUSTER, claim, volume]) == expected


def test_a_volume_reserved_for_the_claim_excludes_all_others() -> None:
    reserved = reserved_for("default", "data")
    affinity = static("x", "1Gi", THERE).spec.node_affinity
    far = msgspec.structs.replace(
        reserved, spec=msgspec.structs.replace(reserved.spec, node_affinity=affinity)
    )
    objects = [*CLUSTER, WANTED, far, static("near", "5Gi")]

    assert answer(VolumeBinding(), pod("web", pvcs=["data"]), objects) == UNBINDABLE


def test_the_smallest_volume_that_suits_is_taken() -> None:
    """If the small claim took the large volume, nothing would be left for the large one."""
    small = pvc("small", storage_class="static", size="1Gi")
    objects = [*CLUSTER, small, WANTED, static("large", "10Gi"), static("small", "2Gi")]

    assert answer(VolumeBinding(), pod("web", pvcs=["data", "small"]), objects) == FITS


def test_volumes_are_matched_per_node() -> None:
    objects = [*CLUSTER, WANTED, static("near", "5Gi")]
    asking = pod("web", pvcs=["data"])

    assert answer(VolumeBinding(), asking, objects) == FITS
    assert answer(VolumeBinding(), asking, objects, node="n2") == UNBINDABLE


def test_a_claim_selector_that_does_not_parse_is_an_error() -> None:
    invalid = selecting({}, LabelRequirement(key="kind", operator="Like", values=("fast",)))
    claim = pvc("data", storage_class="static", selector=invalid)
    found = answer(
        VolumeBinding(), pod("web", pvcs=["data"]), [*CLUSTER, claim, static("a", "5Gi")]
    )

    assert found.startswith("E: error creating internal label selector for claim: default/data: ")
