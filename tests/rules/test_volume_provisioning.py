"""VolumeBinding: claims that wait for their pod, and whether a volume can be made for them."""

import pytest

from tests.rules.asking import FITS, answer
from tonnage.objects.meta import LabelRequirement, LabelSelector, ObjectMeta
from tonnage.objects.storage import (
    CSIStorageCapacity,
    StorageClass,
    TopologyRequirement,
    TopologyTerm,
)
from tonnage.rules.volume_binding import VolumeBinding
from tonnage.testing.builders import (
    capacity,
    csidriver,
    node,
    nodes_with,
    pod,
    pv,
    pvc,
    selecting,
    storage_class,
)

KEY = "nodeKey"
PROVISIONER = "test-provisioner"
RIGHT = "waitClassWithProvisioner"
NODE = node("n1", labels={KEY: "node1"})
CLASS = storage_class(RIGHT, PROVISIONER, zones=("node1", "reference-value"), zone_key=KEY)
CLAIM = pvc("provisioned-pvc", storage_class=RIGHT, size="1Gi")
WANTS = pod("web", pvcs=["provisioned-pvc"])
PUBLISHING = csidriver(PROVISIONER, storage_capacity=True)
NOT_PUBLISHING = csidriver(PROVISIONER, storage_capacity=False)

UNBINDABLE = "UU: node(s) didn't find available persistent volumes to bind"
TOO_SMALL = "UU: node(s) did not have enough free storage"
IMMEDIATE = "before any node, UU: pod has unbound immediate PersistentVolumeClaims"
NEAR, FAR = {KEY: "node1"}, {KEY: "node2"}

TABLE = [
    pytest.param([capacity("c", RIGHT, free="1Gi")], FITS, id="network-attached"),
    pytest.param([capacity("c", RIGHT, free="1Gi", topology=NEAR)], FITS, id="local-storage"),
    pytest.param(
        [
            capacity("a", RIGHT, free="1Gi"),
            capacity("b", RIGHT, free="1Gi", topology=FAR),
            capacity("c", RIGHT, free="1Gi", topology=NEAR),
        ],
        FITS,
        id="multiple",
    ),
    pytest.param([], TOO_SMALL, id="no-storage"),
    pytest.param([capacity("c", RIGHT, free="1Gi", topology=FAR)], TOO_SMALL, id="wrong-node"),
    pytest.param(
        [capacity("c", "other", free="1Gi", topology=NEAR)], TOO_SMALL, id="wrong-storage-class"
    ),
    pytest.param(
        [capacity("c", RIGHT, free="1Mi", topology=NEAR)], TOO_SMALL, id="insufficient-storage"
    ),
    pytest.param(
        [capacity("c", RIGHT, free="1Gi", largest="1Mi", topology=NEAR)],
        TOO_SMALL,
        id="insufficient-volume-size",
    ),
    pytest.param([capacity("c", RIGHT, free="0", topology=NEAR)], TOO_SMALL, id="zero-storage"),
    pytest.param(
        [capacity("c", RIGHT, largest="0", topology=NEAR)], TOO_SMALL, id="zero-volume-size"
    ),
    pytest.param([capacity("c", RIGHT, topology=NEAR)], TOO_SMALL, id="nil-storage"),
]


@pytest.mark.parametrize(("published", "expected"), TABLE)
def test_published_capacity_decides_for_drivers_that_publish(published, expected) -> None:
    objects = [NODE, CLASS, CLAIM, PUBLISHING, *published]

    assert answer(VolumeBinding(), WANTS, objects) == expected


@pytest.mark.parametrize(("published", "_"), TABLE)
def test_published_capacity_does_not_matter_for_drivers_that_do_not_publish(published, _) -> None:
    objects = [NODE, CLASS, CLAIM, NOT_PUBLISHING, *published]

    assert answer(VolumeBinding(), WANTS, objects) == FITS


def promised(topology: LabelSelector | None) -> CSIStorageCapacity:
    return CSIStorageCapacity(
        metadata=ObjectMeta(name="c", namespace="kube-system"),
        storage_class_name=RIGHT,
        node_topology=topology,
        capacity="1Gi",
    )


def needs(key: str, operator: str, *values: str) -> LabelSelector:
    return selecting({}, LabelRequirement(key=key, operator=operator, values=values))


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        pytest.param(None, TOO_SMALL, id="no topology is no node"),
        pytest.param(LabelSelector(), FITS, id="an empty topology is every node"),
        pytest.param(selecting(NEAR), FITS, id="a label"),
        pytest.param(selecting({**NEAR, "rack": "r1"}), TOO_SMALL, id="two labels, one missing"),
        pytest.param(needs(KEY, "In", "node1", "node2"), FITS, id="one of several values"),
        pytest.param(needs(KEY, "NotIn", "node1"), TOO_SMALL, id="any value but this"),
        pytest.param(needs("rack", "DoesNotExist"), FITS, id="nodes without a label"),
        pytest.param(needs(KEY, "Like", "node1"), TOO_SMALL, id="a selector that does not parse"),
    ],
)
def test_capacity_is_promised_to_a_topology(topology, expected) -> None:
    objects = [NODE, CLASS, CLAIM, PUBLISHING, promised(topology)]

    assert answer(VolumeBinding(), WANTS, objects) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("no key!", "a", id="a key that is no label key"),
        pytest.param("rack", "no value!", id="a value that is no label value"),
    ],
)
def test_capacity_for_a_label_that_cannot_be_is_promised_to_no_node(key, value) -> None:
    odd = node("n1", labels={KEY: "node1", key: value})
    objects = [odd, CLASS, CLAIM, PUBLISHING, promised(selecting({key: value}))]

    assert answer(VolumeBinding(), WANTS, objects) == TOO_SMALL


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param("1Gi", FITS, id="as much as there is"),
        pytest.param(1024**3 + 1, TOO_SMALL, id="a byte more than there is"),
        pytest.param("1073741823500m", FITS, id="fractions of bytes are rounded up"),
        pytest.param(
            "1073741824500m", TOO_SMALL, id="fractions of bytes are rounded up, past the end"
        ),
        pytest.param(None, FITS, id="a claim that does not say how much"),
    ],
)
def test_a_claim_is_compared_with_the_capacity(size, expected) -> None:
    claim = pvc("provisioned-pvc", storage_class=RIGHT, size=size)
    objects = [NODE, CLASS, claim, PUBLISHING, capacity("c", RIGHT, free="1Gi")]

    assert answer(VolumeBinding(), WANTS, objects) == expected


def test_the_largest_promise_for_a_label_counts() -> None:
    published = [
        capacity("a", RIGHT, free="2Gi", topology=NEAR),
        capacity("b", RIGHT, free="1Mi", topology=NEAR),
    ]

    assert answer(VolumeBinding(), WANTS, [NODE, CLASS, CLAIM, PUBLISHING, *published]) == FITS


def test_maximum_volume_size_alone_is_enough() -> None:
    published = capacity("c", RIGHT, free="0", largest="1Gi")

    assert answer(VolumeBinding(), WANTS, [NODE, CLASS, CLAIM, PUBLISHING, published]) == FITS


def test_two_claims_may_count_on_the_same_capacity() -> None:
    """Upstream reserves nothing: each claim is compared with all there is."""
    published = capacity("c", RIGHT, free="100Gi")
    claims = [pvc(name, storage_class=RIGHT, size="60Gi") for name in ("a", "b")]
    objects = [NODE, CLASS, PUBLISHING, published, *claims]

    assert answer(VolumeBinding(), pod("web", pvcs=["a", "b"]), objects) == FITS


def test_a_class_of_an_in_tree_name_is_looked_up_by_that_name() -> None:
    objects = [
        NODE,
        storage_class(RIGHT, "kubernetes.io/aws-ebs"),
        CLAIM,
        csidriver("ebs.csi.aws.com", storage_capacity=True),
    ]

    assert answer(VolumeBinding(), WANTS, objects) == FITS


STATIC_VOLUME = pv(
    "pv-node1",
    driver=PROVISIONER,
    storage_class=RIGHT,
    size="5Gi",
    node_affinity=nodes_with(KEY, "node1"),
)
MATCHABLE = pvc("matchable", storage_class=RIGHT, size="5Gi")
SECOND = pvc("second", storage_class=RIGHT, size="10Gi")
BOUND = pvc("bound", storage_class=RIGHT, volume="pv-bound")
BOUND_NOW = pvc("bound-now", storage_class="now", volume="pv-now")
SELECTED = pvc("selected", storage_class=RIGHT, selected_node="n1")
STORED = (
    storage_class("now", PROVISIONER, immediate=True),
    storage_class("static", "kubernetes.io/no-provisioner"),
    storage_class("elsewhere", PROVISIONER, zones=("node2",), zone_key=KEY),
    CLAIM,
    MATCHABLE,
    SECOND,
    BOUND,
    BOUND_NOW,
    SELECTED,
    pvc("unbound-now", storage_class="now"),
    pvc("static", storage_class="static"),
    pvc("elsewhere", storage_class="elsewhere"),
    STATIC_VOLUME,
    pv("pv-bound", driver=PROVISIONER, claim=BOUND),
    pv("pv-now", driver=PROVISIONER, claim=BOUND_NOW),
)


@pytest.mark.parametrize(
    ("claims", "without", "publishing"),
    [
        pytest.param(["second"], FITS, TOO_SMALL, id="one claim that waits"),
        pytest.param(
            ["matchable", "second"], FITS, TOO_SMALL, id="one that is matched, one to provision"
        ),
        pytest.param(["bound", "second"], FITS, TOO_SMALL, id="one bound, one to provision"),
        pytest.param(
            ["bound", "selected"], FITS, TOO_SMALL, id="one bound, one that has selected this node"
        ),
        pytest.param(
            ["unbound-now"], IMMEDIATE, IMMEDIATE, id="should be bound at once and is not"
        ),
        pytest.param(
            ["bound-now", "second"], FITS, TOO_SMALL, id="bound at once, and one to provision"
        ),
        pytest.param(["static"], UNBINDABLE, UNBINDABLE, id="nobody provisions, and no volume"),
        pytest.param(["elsewhere"], UNBINDABLE, UNBINDABLE, id="provisioned elsewhere only"),
        pytest.param(["matchable"], FITS, FITS, id="a claim that is matched needs no capacity"),
    ],
)
@pytest.mark.parametrize("driver", [None, False, True])
def test_what_is_not_matched_is_provisioned(driver, claims, without, publishing) -> None:
    drivers = [] if driver is None else [csidriver(PROVISIONER, storage_capacity=driver)]
    found = answer(VolumeBinding(), pod("web", pvcs=claims), [NODE, CLASS, *STORED, *drivers])

    assert found == (publishing if driver else without)


def test_a_selected_node_is_the_only_one() -> None:
    objects = [NODE, node("n2", labels={KEY: "node1"}), CLASS, SELECTED]
    asking = pod("web", pvcs=["selected"])

    assert answer(VolumeBinding(), asking, objects) == FITS
    assert answer(VolumeBinding(), asking, objects, node="n2") == UNBINDABLE


def test_a_claim_that_has_selected_a_node_is_not_matched_to_volumes() -> None:
    selected = pvc("selected", storage_class="static", size="1Gi", selected_node="n1")
    static = storage_class("static", "kubernetes.io/no-provisioner")
    free = pv("free", driver=PROVISIONER, storage_class="static", size="5Gi")

    assert answer(
        VolumeBinding(), pod("web", pvcs=["selected"]), [NODE, static, selected, free]
    ) == (UNBINDABLE)


def test_a_selected_node_elsewhere_is_all_that_is_said() -> None:
    elsewhere = pvc("selected", storage_class=RIGHT, selected_node="n2")
    objects = [NODE, CLASS, elsewhere, CLAIM, PUBLISHING]

    assert answer(VolumeBinding(), pod("web", pvcs=["provisioned-pvc", "selected"]), objects) == (
        UNBINDABLE
    )


def topologies(*terms: dict[str, tuple[str, ...]]) -> StorageClass:
    return StorageClass(
        metadata=ObjectMeta(name=RIGHT),
        provisioner=PROVISIONER,
        volume_binding_mode="WaitForFirstConsumer",
        allowed_topologies=tuple(
            TopologyTerm(
                match_label_expressions=tuple(
                    TopologyRequirement(key=key, values=values) for key, values in term.items()
                )
            )
            for term in terms
        ),
    )


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        pytest.param((), FITS, id="no terms are every node"),
        pytest.param(({KEY: ("node1", "node2")},), FITS, id="one of the values"),
        pytest.param(({KEY: ("node2",)},), UNBINDABLE, id="another value"),
        pytest.param(({KEY: ("node2",)}, {KEY: ("node1",)}), FITS, id="one of the terms"),
        pytest.param(
            ({KEY: ("node1",), "rack": ("r1",)},), UNBINDABLE, id="all of a term must hold"
        ),
        pytest.param(({},), UNBINDABLE, id="an empty term is no node"),
    ],
)
def test_a_class_may_be_limited_to_topologies(allowed, expected) -> None:
    assert answer(VolumeBinding(), WANTS, [NODE, topologies(*allowed), CLAIM]) == expected


def test_a_node_outside_the_topologies_is_not_asked_for_capacity() -> None:
    objects = [NODE, topologies({KEY: ("node2",)}), CLAIM, PUBLISHING]

    assert answer(VolumeBinding(), WANTS, objects) == UNBINDABLE


@pytest.mark.parametrize("provisioner", ["", "kubernetes.io/no-provisioner"])
def test_a_class_without_a_provisioner_makes_no_volumes(provisioner) -> None:
    objects = [NODE, storage_class(RIGHT, provisioner), CLAIM]

    assert answer(VolumeBinding(), WANTS, objects) == UNBINDABLE


def test_the_first_claim_that_cannot_be_provisioned_decides() -> None:
    """Claims are provisioned from the smallest on."""
    small = pvc("small", storage_class="elsewhere", size="1Gi")
    large = pvc("large", storage_class=RIGHT, size="9Gi")
    objects = [NODE, CLASS, *STORED, small, large, PUBLISHING]

    assert answer(VolumeBinding(), pod("web", pvcs=["large", "small"]), objects) == UNBINDABLE
