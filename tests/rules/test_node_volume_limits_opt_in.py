"""NodeVolumeLimits: drivers that keep pods off nodes where they are not registered (KEP-5030)."""

import msgspec
import pytest

from tests.rules.asking import FITS, answer, reasons, version
from tonnage.objects.storage import OPT_IN_ANNOTATION, CSIDriver
from tonnage.objects.volume_sources import AWSElasticBlockStoreSource, VolumeSource
from tonnage.rules import opt_in
from tonnage.rules.causes import Cause
from tonnage.rules.features import Features
from tonnage.rules.node_volume_limits import NodeVolumeLimits
from tonnage.testing.builders import csidriver, csinode, node, pod, pv, pvc, storage_class

EBS = "ebs.csi.aws.com"
LOCAL = "local.csi.example"
MISSING = f"U: {EBS} CSI driver is not installed on the node"
NODE = "n1"
CLAIM = pvc("data", volume="data")
WANTS = pod("web", pvcs=["data"])
CLUSTER = (node(NODE), CLAIM, pv("data", driver=EBS, claim=CLAIM))
WITHOUT_DRIVERS = csinode(NODE)
OPTED_IN = csidriver(EBS, opt_in=True)


def annotated(value: str) -> CSIDriver:
    plain = csidriver(EBS)
    meta = msgspec.structs.replace(plain.metadata, annotations={OPT_IN_ANNOTATION: value})
    return msgspec.structs.replace(plain, metadata=meta)


def enforced(kubernetes: str, gates: dict[str, bool] | None = None) -> Features:
    """As beside our extender or scheduler."""
    return opt_in.settled(version(kubernetes, gates), "always", seen="")


@pytest.mark.parametrize("kubernetes", ["1.36", "1.37"])
@pytest.mark.parametrize(
    ("gate", "objects", "expected"),
    [
        pytest.param(True, [WITHOUT_DRIVERS, csidriver(EBS)], FITS, id="on: not opted in"),
        pytest.param(
            True, [WITHOUT_DRIVERS, csidriver(EBS, opt_in=False)], FITS, id="on: opted out"
        ),
        pytest.param(True, [WITHOUT_DRIVERS, OPTED_IN], MISSING, id="on: opted in, not registered"),
        pytest.param(False, [WITHOUT_DRIVERS, OPTED_IN], FITS, id="off: opting in has no effect"),
        pytest.param(
            True, [csinode(NODE, {EBS: 2}), OPTED_IN], FITS, id="on: opted in, registered"
        ),
        pytest.param(True, [WITHOUT_DRIVERS], FITS, id="on: no CSIDriver object"),
        pytest.param(True, [OPTED_IN], MISSING, id="on: opted in, no CSINode at all"),
        pytest.param(
            True,
            [csinode(NODE, {EBS: None}), OPTED_IN],
            FITS,
            id="on: opted in, registered without a limit",
        ),
        pytest.param(
            True, [csinode(NODE, {LOCAL: 2}), OPTED_IN], MISSING, id="on: another driver registered"
        ),
        pytest.param(
            True, [csinode("n2", {EBS: 2}), OPTED_IN], MISSING, id="on: registered on another node"
        ),
    ],
)
def test_the_gate_and_the_field_decide(kubernetes, gate, objects, expected) -> None:
    of = version(kubernetes, {"VolumeLimitScaling": gate})

    assert answer(NodeVolumeLimits(), WANTS, [*CLUSTER, *objects], of=of) == expected


@pytest.mark.parametrize(
    ("kubernetes", "expected"),
    [
        pytest.param("1.34", FITS, id="1.34 has no gate"),
        pytest.param("1.35", FITS, id="1.35 has it off"),
        pytest.param("1.36", FITS, id="1.36 has it off"),
        pytest.param("1.37", MISSING, id="1.37 has it on"),
    ],
)
def test_versions_have_their_defaults(kubernetes, expected) -> None:
    objects = [*CLUSTER, WITHOUT_DRIVERS, OPTED_IN]

    assert answer(NodeVolumeLimits(), WANTS, objects, of=version(kubernetes)) == expected


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [WITHOUT_DRIVERS, csidriver(EBS)], MISSING, id="any CSIDriver object enforces"
        ),
        pytest.param(
            [WITHOUT_DRIVERS, csidriver(EBS, opt_in=False)], MISSING, id="there is no opting out"
        ),
        pytest.param([WITHOUT_DRIVERS], FITS, id="no CSIDriver object, nothing to enforce"),
        pytest.param([csinode(NODE, {EBS: 2}), csidriver(EBS)], FITS, id="registered"),
    ],
)
def test_1_35_with_the_gate_on_has_no_field(objects, expected) -> None:
    of = version("1.35", {"VolumeLimitScaling": True})

    assert answer(NodeVolumeLimits(), WANTS, [*CLUSTER, *objects], of=of) == expected


def test_1_34_cannot_switch_on_a_gate_it_does_not_have() -> None:
    of = version("1.34", {"VolumeLimitScaling": True})

    assert answer(NodeVolumeLimits(), WANTS, [*CLUSTER, WITHOUT_DRIVERS, OPTED_IN], of=of) == FITS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("true", MISSING, id="true opts in"),
        pytest.param("false", FITS, id="false does not"),
        pytest.param("True", FITS, id="nor does any other spelling"),
    ],
)
def test_an_annotation_opts_in_where_we_enforce(value, expected) -> None:
    objects = [*CLUSTER, WITHOUT_DRIVERS, annotated(value)]

    assert answer(NodeVolumeLimits(), WANTS, objects, of=enforced("1.34")) == expected


@pytest.mark.parametrize("gate", [True, False])
def test_kube_scheduler_does_not_read_the_annotation(gate) -> None:
    of = version("1.37", {"VolumeLimitScaling": gate})

    assert answer(NodeVolumeLimits(), WANTS, [*CLUSTER, annotated("true")], of=of) == FITS


@pytest.mark.parametrize("kubernetes", ["1.34", "1.35", "1.36", "1.37"])
@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        pytest.param(OPTED_IN, MISSING, id="opted in"),
        pytest.param(csidriver(EBS, opt_in=False), FITS, id="opted out"),
        pytest.param(csidriver(EBS), FITS, id="said nothing"),
    ],
)
def test_where_we_enforce_the_field_counts_on_every_version(kubernetes, driver, expected) -> None:
    objects = [*CLUSTER, WITHOUT_DRIVERS, driver]
    of = enforced(kubernetes, {"VolumeLimitScaling": False})

    assert answer(NodeVolumeLimits(), WANTS, objects, of=of) == expected


def test_the_missing_driver_is_the_first_by_name() -> None:
    other = pvc("other", volume="other")
    objects = [
        *CLUSTER,
        other,
        pv("other", driver=LOCAL, claim=other),
        WITHOUT_DRIVERS,
        OPTED_IN,
        csidriver(LOCAL, opt_in=True),
    ]

    assert answer(NodeVolumeLimits(), pod("web", pvcs=["other", "data"]), objects) == MISSING


def test_of_two_drivers_the_one_that_is_missing_is_named() -> None:
    other = pvc("other", volume="other")
    objects = [
        *CLUSTER,
        other,
        pv("other", driver=LOCAL, claim=other),
        csinode(NODE, {EBS: None}),
        OPTED_IN,
        csidriver(LOCAL, opt_in=True),
    ]

    assert answer(NodeVolumeLimits(), pod("web", pvcs=["other", "data"]), objects) == (
        f"U: {LOCAL} CSI driver is not installed on the node"
    )


@pytest.mark.parametrize(
    ("objects", "cause"),
    [
        pytest.param([], Cause.CSI_NODE_MISSING, id="no CSINode"),
        pytest.param(
            [WITHOUT_DRIVERS], Cause.CSI_DRIVER_MISSING, id="a CSINode without the driver"
        ),
    ],
)
def test_the_two_causes_are_told_apart_though_the_text_is_one(objects, cause) -> None:
    (reason,) = reasons(NodeVolumeLimits(), WANTS, [*CLUSTER, OPTED_IN, *objects])

    assert (reason.cause, reason.facts) == (cause, {"driver": EBS})
    assert str(reason) == f"{EBS} CSI driver is not installed on the node"


def test_the_causes_have_the_names_of_the_kep() -> None:
    assert (Cause.CSI_NODE_MISSING, Cause.CSI_DRIVER_MISSING, Cause.MAX_VOLUME_COUNT) == (
        "CSINodeMissing",
        "CSIDriverMissingOnNode",
        "MaxVolumeCountExceeded",
    )


def test_a_volume_that_is_in_use_on_the_node_needs_its_driver_too() -> None:
    objects = [*CLUSTER, WITHOUT_DRIVERS, OPTED_IN, pod("other", on=NODE, pvcs=["data"])]

    assert answer(NodeVolumeLimits(), WANTS, objects) == MISSING


def test_a_missing_driver_goes_before_an_error_of_a_pod_on_the_node() -> None:
    broken = pod("broken", on=NODE, ephemeral=["scratch"])
    objects = [*CLUSTER, csinode(NODE, {LOCAL: 5}), OPTED_IN, broken, pvc("broken-scratch")]

    assert answer(NodeVolumeLimits(), WANTS, objects) == MISSING


IN_TREE = VolumeSource(
    name="disk", aws_elastic_block_store=AWSElasticBlockStoreSource(volume_id="vol-1")
)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([WITHOUT_DRIVERS], MISSING, id="where there is a CSINode to say so"),
        pytest.param([], FITS, id="but not where there is none: it is no CSI volume there"),
    ],
)
def test_in_tree_volumes_need_the_driver_that_took_over(objects, expected) -> None:
    asking = pod("web", volumes=[IN_TREE])

    assert answer(NodeVolumeLimits(), asking, [node(NODE), OPTED_IN, *objects]) == expected


def test_an_unbound_claim_needs_the_driver_of_its_class() -> None:
    objects = [
        node(NODE),
        WITHOUT_DRIVERS,
        OPTED_IN,
        storage_class("csi", EBS),
        pvc("data", storage_class="csi"),
    ]

    assert answer(NodeVolumeLimits(), WANTS, objects) == MISSING


def test_a_provisioner_that_is_no_driver_can_be_opted_in_by_its_name() -> None:
    """A quirk of upstream: it takes any provisioner for a driver."""
    static = "kubernetes.io/no-provisioner"
    objects = [
        node(NODE),
        csidriver(static, opt_in=True),
        storage_class("static", static),
        pvc("data", storage_class="static"),
    ]

    assert answer(NodeVolumeLimits(), WANTS, objects) == (
        f"U: {static} CSI driver is not installed on the node"
    )
