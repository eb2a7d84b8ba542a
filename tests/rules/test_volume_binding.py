"""VolumeBinding: claims that are bound, can be matched to volumes, or cannot be used at all."""

import pytest

from tests.rules.asking import FITS, SKIPPED, answer, reasons, verdict
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.objects.storage import (
    CLASS_ANNOTATION,
    CSINode,
    PersistentVolume,
    StorageClass,
)
from tonnage.objects.volume_sources import (
    AzureDiskSource,
    GCEPersistentDiskSource,
    VolumeSource,
)
from tonnage.rules.causes import Cause
from tonnage.rules.volume_binding import VolumeBinding
from tonnage.testing.builders import (
    csidriver,
    csinode,
    node,
    nodes_with,
    pod,
    pv,
    pvc,
    storage_class,
)

KEY = "nodeKey"
DRIVER = "csi.example"
HERE, THERE = nodes_with(KEY, "n1"), nodes_with(KEY, "n2")
N1, N2 = node("n1", labels={KEY: "n1"}), node("n2", labels={KEY: "n2"})

AFFINITY = "UU: node(s) didn't match PersistentVolume's node affinity"
UNBINDABLE = "UU: node(s) didn't find available persistent volumes to bind"
GONE = "UU: node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IMMEDIATE = "before any node, UU: pod has unbound immediate PersistentVolumeClaims"

STATIC = storage_class("static", "kubernetes.io/no-provisioner")
NOW = storage_class("now", DRIVER, immediate=True)
CLUSTER = (N1, N2, STATIC, NOW)

BOUND = pvc("bound", storage_class="static", volume="pv-bound")
BOUND_VOLUME = pv(
    "pv-bound", driver=DRIVER, storage_class="static", claim=BOUND, node_affinity=HERE
)
PREBOUND = pvc("prebound", storage_class="static", volume="pv-pre", bound=False)
UNBOUND = pvc("unbound", storage_class="static", size="1G")
BIGGER = pvc("bigger", storage_class="static", size="5G")
BOUND_NOW = pvc("bound-now", storage_class="now", volume="pv-now")
UNBOUND_NOW = pvc("unbound-now", storage_class="now")


def static(name: str, size: str, affinity: NodeSelector = HERE) -> PersistentVolume:
    return pv(name, driver=DRIVER, storage_class="static", size=size, node_affinity=affinity)


@pytest.mark.parametrize(
    "drivers",
    [
        pytest.param([], id="no CSIDriver"),
        pytest.param([csidriver(DRIVER, storage_capacity=True)], id="publishes capacity"),
        pytest.param([csidriver(DRIVER, storage_capacity=False)], id="publishes none"),
    ],
)
@pytest.mark.parametrize(
    ("claims", "stored", "expected"),
    [
        pytest.param([], [], SKIPPED, id="no claims"),
        pytest.param(
            ["gone"],
            [],
            'before any node, UU: persistentvolumeclaim "gone" not found',
            id="no such claim",
        ),
        pytest.param(["bound"], [BOUND, BOUND_VOLUME], FITS, id="bound, and the volume is near"),
        pytest.param(["bound"], [BOUND], GONE, id="bound to a volume that is gone"),
        pytest.param(
            ["prebound"],
            [PREBOUND, static("pv-pre", "1Gi")],
            IMMEDIATE,
            id="asks for a volume by name, and waits for it",
        ),
        pytest.param(
            ["unbound"],
            [
                UNBOUND,
                static("far", "1G", THERE),
                static("five", "5G"),
                static("ten", "10G"),
            ],
            FITS,
            id="unbound, and a larger volume is near",
        ),
        pytest.param(
            ["unbound"],
            [UNBOUND, static("far", "1G", THERE)],
            UNBINDABLE,
            id="unbound, and the only volume is far",
        ),
        pytest.param(
            ["unbound", "bigger"],
            [UNBOUND, BIGGER, static("five", "5G"), static("ten", "10G")],
            FITS,
            id="two unbound: the smaller claim takes the smaller volume",
        ),
        pytest.param(
            ["bigger", "unbound"],
            [UNBOUND, BIGGER, static("five", "5G"), static("ten", "10G")],
            FITS,
            id="two unbound: the order in the pod does not matter",
        ),
        pytest.param(
            ["unbound", "bigger"],
            [UNBOUND, BIGGER, static("five", "5G")],
            UNBINDABLE,
            id="two unbound, one volume",
        ),
        pytest.param(
            ["bound", "unbound"],
            [BOUND, BOUND_VOLUME, UNBOUND, static("five", "5G")],
            FITS,
            id="one bound, one matched",
        ),
        pytest.param(
            ["bound", "unbound"],
            [BOUND, BOUND_VOLUME, UNBOUND],
            UNBINDABLE,
            id="one bound, one without a volume",
        ),
        pytest.param(
            ["prebound", "unbound"],
            [PREBOUND, UNBOUND, static("five", "5G")],
            IMMEDIATE,
            id="one asks by name, one is unbound",
        ),
        pytest.param(
            ["bound-now"],
            [BOUND_NOW, pv("pv-now", driver=DRIVER, claim=BOUND_NOW, node_affinity=HERE)],
            FITS,
            id="bound at once, and near",
        ),
        pytest.param(
            ["bound-now"],
            [BOUND_NOW, pv("pv-now", driver=DRIVER, claim=BOUND_NOW, node_affinity=THERE)],
            AFFINITY,
            id="bound at once, and far",
        ),
        pytest.param(
            ["unbound-now"], [UNBOUND_NOW], IMMEDIATE, id="should be bound at once and is not"
        ),
        pytest.param(
            ["unbound-now", "bound"],
            [UNBOUND_NOW, BOUND, BOUND_VOLUME],
            IMMEDIATE,
            id="should be bound at once, beside one that is bound",
        ),
        pytest.param(
            ["unbound-now", "unbound"],
            [UNBOUND_NOW, UNBOUND, static("five", "5G")],
            IMMEDIATE,
            id="should be bound at once, beside one that may wait",
        ),
    ],
)
def test_claims_are_matched_to_volumes(drivers, claims, stored, expected) -> None:
    asking = pod("web", pvcs=claims)

    assert answer(VolumeBinding(), asking, [*CLUSTER, *drivers, *stored]) == expected


def test_a_pod_with_other_volumes_only_is_not_looked_at() -> None:
    asking = pod("web", volumes=[VolumeSource(name="scratch")])

    assert answer(VolumeBinding(), asking, CLUSTER) == SKIPPED


EPHEMERAL = pod("web", ephemeral=["data"])


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(
            [],
            "before any node, UU: waiting for ephemeral volume controller to create the"
            ' persistentvolumeclaim "web-data"',
            id="its claim is not made yet",
        ),
        pytest.param(
            [
                pvc("web-data", storage_class="static", volume="pv-bound", owner=EPHEMERAL),
                BOUND_VOLUME,
            ],
            FITS,
            id="its claim is its own, and bound",
        ),
        pytest.param(
            [pvc("web-data", storage_class="static", volume="pv-bound"), BOUND_VOLUME],
            "before any node, UU: PVC default/web-data was not created for pod default/web"
            " (pod is not owner)",
            id="its claim is somebody else's",
        ),
    ],
)
def test_a_generic_ephemeral_volume_needs_a_claim_of_its_own(stored, expected) -> None:
    assert answer(VolumeBinding(), EPHEMERAL, [*CLUSTER, *stored]) == expected


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(
            pvc("data", volume="pv-bound", phase="Lost"),
            'before any node, UU: persistentvolumeclaim "data" bound to non-existent'
            ' persistentvolume "pv-bound"',
            id="lost",
        ),
        pytest.param(
            pvc("data", volume="pv-bound", deleting=True),
            'before any node, UU: persistentvolumeclaim "data" is being deleted',
            id="being deleted",
        ),
        pytest.param(
            pvc("data", volume="pv-bound", phase="Lost", deleting=True),
            'before any node, UU: persistentvolumeclaim "data" bound to non-existent'
            ' persistentvolume "pv-bound"',
            id="lost goes before being deleted",
        ),
        pytest.param(pvc("data"), IMMEDIATE, id="unbound without a class"),
        pytest.param(pvc("data", storage_class="gone"), IMMEDIATE, id="unbound, its class missing"),
        pytest.param(
            pvc("data", storage_class="now", annotations={CLASS_ANNOTATION: "static"}),
            UNBINDABLE,
            id="the old annotation says which class",
        ),
        pytest.param(
            pvc("data", storage_class="modeless"),
            'before any node, E: VolumeBindingMode not set for StorageClass "modeless"',
            id="its class does not say when it binds",
        ),
    ],
)
def test_a_claim_must_be_usable(claim, expected) -> None:
    modeless = StorageClass(metadata=ObjectMeta(name="modeless"), provisioner=DRIVER)
    objects = [*CLUSTER, modeless, BOUND_VOLUME, claim]

    assert answer(VolumeBinding(), pod("web", pvcs=["data"]), objects) == expected


def test_the_first_missing_claim_is_named() -> None:
    asking = pod("web", pvcs=["pvc-a", "pvc-b"])

    assert answer(VolumeBinding(), asking, CLUSTER) == (
        'before any node, UU: persistentvolumeclaim "pvc-a" not found'
    )


def test_claims_that_should_be_bound_are_named() -> None:
    (reason,) = reasons(VolumeBinding(), pod("web", pvcs=["unbound-now"]), [*CLUSTER, UNBOUND_NOW])

    assert (reason.cause, reason.facts) == (
        Cause.CLAIM_UNBOUND_IMMEDIATE,
        {"claims": ["unbound-now"]},
    )


def test_an_error_before_any_node_names_its_plugin() -> None:
    modeless = StorageClass(metadata=ObjectMeta(name="modeless"), provisioner=DRIVER)
    found = verdict(
        pod("web", pvcs=["data"]), [N1, modeless, pvc("data", storage_class="modeless")]
    )

    assert " ".join(found.texts) == (
        'running PreFilter plugin "VolumeBinding":'
        ' VolumeBindingMode not set for StorageClass "modeless"'
    )


def test_both_kinds_of_claims_are_complained_about_together() -> None:
    far = pv("pv-bound", driver=DRIVER, claim=BOUND, node_affinity=THERE)
    asking = pod("web", pvcs=["bound", "unbound"])

    assert answer(VolumeBinding(), asking, [*CLUSTER, BOUND, far, UNBOUND]) == (
        f"{AFFINITY}; {UNBINDABLE.removeprefix('UU: ')}"
    )


def test_the_first_bad_volume_ends_the_look_at_bound_claims() -> None:
    far = pv("pv-bound", driver=DRIVER, claim=BOUND, node_affinity=THERE)
    lost = pvc("lost", volume="gone")
    objects = [*CLUSTER, BOUND, far, lost]

    assert answer(VolumeBinding(), pod("web", pvcs=["bound", "lost"]), objects) == AFFINITY
    assert answer(VolumeBinding(), pod("web", pvcs=["lost", "bound"]), objects) == GONE


def by_name(name: str) -> NodeSelectorTerm:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
    return NodeSelectorTerm(match_fields=(field,))


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        pytest.param(None, FITS, id="a volume without affinity is everywhere"),
        pytest.param(HERE, FITS, id="a label that matches"),
        pytest.param(THERE, AFFINITY, id="a label that does not"),
        pytest.param(
            NodeSelector(
                node_selector_terms=(*THERE.node_selector_terms, *HERE.node_selector_terms)
            ),
            FITS,
            id="one of several terms",
        ),
        pytest.param(NodeSelector(), AFFINITY, id="no terms are no nodes"),
        pytest.param(
            NodeSelector(node_selector_terms=(by_name("n2"),)),
            FITS,
            id="names of nodes are not held against a volume",
        ),
    ],
)
def test_a_bound_volume_must_be_reachable(affinity, expected) -> None:
    volume = pv("pv-bound", driver=DRIVER, claim=BOUND)
    if affinity is not None:
        volume = pv("pv-bound", driver=DRIVER, claim=BOUND, node_affinity=affinity)

    assert (
        answer(VolumeBinding(), pod("web", pvcs=["bound"]), [*CLUSTER, BOUND, volume]) == expected
    )


GCE_PD = "kubernetes.io/gce-pd"
ZONE = "topology.kubernetes.io/zone"
GCE_CLAIM = pvc("disk", volume="pv-disk")
GCE_VOLUME = pv(
    "pv-disk",
    source=VolumeSource(gce_persistent_disk=GCEPersistentDiskSource(pd_name="d")),
    claim=GCE_CLAIM,
    labels={ZONE: "us-east-1"},
)
MIGRATED = csinode("n1", migrated=[GCE_PD])


@pytest.mark.parametrize(
    ("zone", "csi_node", "expected"),
    [
        pytest.param("us-east-1", MIGRATED, FITS, id="migrated, in the zone"),
        pytest.param("us-east-2", MIGRATED, AFFINITY, id="migrated, in another zone"),
        pytest.param(
            "us-east-2", csinode("n1"), FITS, id="not migrated, the label is not looked at"
        ),
        pytest.param("us-east-2", None, FITS, id="no CSINode, the label is not looked at"),
        pytest.param(
            "us-east-2",
            csinode("n1", migrated=["kubernetes.io/cinder"]),
            FITS,
            id="another plugin is migrated",
        ),
    ],
)
def test_in_tree_volumes_have_the_affinity_of_the_driver_where_the_node_migrated(
    zone: str, csi_node: CSINode | None, expected: str
) -> None:
    labelled = node("n1", labels={"topology.gke.io/zone": zone})
    stored = [GCE_CLAIM, GCE_VOLUME, *([csi_node] if csi_node is not None else [])]

    assert answer(VolumeBinding(), pod("web", pvcs=["disk"]), [labelled, *stored]) == expected


def test_an_in_tree_volume_that_cannot_be_translated_is_an_error_where_the_node_migrated() -> None:
    source = VolumeSource(azure_disk=AzureDiskSource(disk_uri="/d", kind="Dedicated"))
    objects = [
        node("n1"),
        node("n2"),
        csinode("n1", migrated=["kubernetes.io/azure-disk"]),
        GCE_CLAIM,
        pv("pv-disk", source=source, claim=GCE_CLAIM),
    ]
    asking = pod("web", pvcs=["disk"])

    assert answer(VolumeBinding(), asking, objects) == (
        "E: could not translate pv: kind(Dedicated) is not supported in csi migration"
    )
    assert answer(VolumeBinding(), asking, objects, node="n2") == FITS
