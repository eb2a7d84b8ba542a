"""Upstream's own cases for NodeVolumeLimits, held against the reference.

Volumes `EBS-0` to `EBS-3` (and the same for the other drivers) exist and are bound;
`waiting` is an unbound claim of a class of the first driver, `classless` an unbound one
without a class, `lost-volume` one whose volume is gone.
"""

from collections.abc import Iterable
from typing import NamedTuple

import pytest

from tonnage.objects.pods import Pod
from tonnage.objects.volume_sources import AWSElasticBlockStoreSource, VolumeSource
from tonnage.testing import builders
from tonnage.testing.reference import ReferenceCluster
from tonnage.testing.reference.outcomes import (
    SKIP,
    AttemptError,
    PluginRefusal,
    unresolvable,
    unschedulable,
)
from tonnage.testing.reference.volume_attachment import node_volume_limits

EBS = "ebs.csi.aws.com"
GCE = "pd.csi.storage.gke.io"
OLD = "kubernetes.io/aws-ebs"
HOSTPATH = "kubernetes.io/hostpath"
NODE = "node-for-max-pd-test-1"
NO_LIMIT = "no limit"
NO_CSINODE = "no CSINode"

FITS = None
TOO_MANY = unschedulable("node(s) exceed max volume count")
MISSING = unresolvable('looking up PVC default/abc-xyz: persistentvolumeclaim "abc-xyz" not found')


def using(name: str, *claims: str) -> Pod:
    return builders.pod(name, pvcs=claims, on=NODE)


def inline(name: str, volume_id: str, *others: VolumeSource) -> Pod:
    source = VolumeSource(
        name="disk", aws_elastic_block_store=AWSElasticBlockStoreSource(volume_id=volume_id)
    )
    return builders.pod(name, volumes=(*others, source), on=NODE)


CONFIG = (VolumeSource(name="config"), VolumeSource(name="secret"))
RUN = using("run", f"{EBS}-3")
E1 = using("e1", f"{EBS}-0")
E2 = using("e2", f"{EBS}-1", f"{EBS}-2")
WAITING = using("waiting", "waiting")
WAITING_TOO = using("waiting-too", "waiting")
CLASSLESS = using("classless", "classless")
LOST = using("lost", "lost-volume")
G2 = using("g2", f"{GCE}-1", f"{GCE}-2")
OLD1 = using("old1", f"{OLD}-0")
OLD2 = using("old2", f"{OLD}-1", f"{OLD}-2")
HOST = using("host", f"{HOSTPATH}-0")
INLINE = inline("inline", "aws-inline1")
INLINE_SAME = inline("inline-same", f"{EBS}-1")
EPHEMERAL = builders.pod("abc", ephemeral=["xyz"], on=NODE)
EPHEMERAL_TWO = builders.pod("abc", ephemeral=["x", "y"], on=NODE)


class Case(NamedTuple):
    sentence: str
    new: Pod
    present: Iterable[Pod]
    drivers: tuple[str, ...]
    limit: int | str
    expected: PluginRefusal | None
    attached: int = 0
    owned: Pod | None = None


CASES = [
    Case("its own attached volume counts twice", E1, (), (EBS,), 2, TOO_MANY, attached=2),
    Case("one attached volume leaves room", E1, (), (EBS,), 2, FITS, attached=1),
    Case("the fourth of four fits", E1, (RUN, E2), (EBS,), 4, FITS),
    Case("the fourth of two does not", E1, (RUN, E2), (EBS,), 2, TOO_MANY),
    Case("without a limit all fit", E1, (RUN, E2), (EBS,), NO_LIMIT, FITS),
    Case("an unbound claim counts", E1, (WAITING, E2), (EBS,), 2, TOO_MANY),
    Case("a shared one counts once", E1, (WAITING, WAITING_TOO, E2), (EBS,), 4, FITS),
    Case("a lost volume counts by its class", E1, (LOST, E2), (EBS,), 2, TOO_MANY),
    Case("without a class it does not", E1, (RUN, CLASSLESS), (EBS,), 2, FITS),
    Case("other drivers do not help", E1, (G2, E2), (EBS, GCE), 2, TOO_MANY),
    Case("other drivers do not hurt", G2, (E2, RUN), (EBS, GCE), 2, FITS),
    Case("in-tree volumes count", OLD1, (OLD2,), (OLD, EBS), 2, TOO_MANY),
    Case("but not without a CSINode", INLINE, (OLD2,), (OLD, EBS), NO_CSINODE, FITS),
    Case("unbound in-tree claims count", WAITING, (OLD2,), (OLD, EBS), 2, TOO_MANY),
    Case("in-tree without a limit fits", OLD1, (OLD2,), (OLD, EBS), NO_LIMIT, FITS),
    Case("what cannot migrate is not counted", HOST, (E2,), (HOSTPATH, EBS), 2, FITS),
    Case("inline in-tree volumes count", INLINE, (OLD2,), (OLD, EBS), 2, TOO_MANY),
    Case("in-tree and CSI share slots", OLD1, (E2,), (OLD, EBS), 2, TOO_MANY),
    Case("inline beside both is one too many", INLINE, (E2, OLD1), (OLD, EBS), 3, TOO_MANY),
    Case("the same disk inline is the same", INLINE_SAME, (E2, OLD1), (OLD, EBS), 3, FITS),
    Case("CSI and in-tree share slots", E1, (OLD2,), (OLD, EBS), 2, TOO_MANY),
    Case("an ephemeral claim must exist", EPHEMERAL, (), (EBS,), NO_LIMIT, MISSING),
    Case(
        "an ephemeral claim of its own fits",
        EPHEMERAL, (), (EBS,), NO_LIMIT, FITS, owned=EPHEMERAL,
    ),
    Case("and counts", EPHEMERAL, (RUN, E2), (EBS,), 2, TOO_MANY, owned=EPHEMERAL),
    Case("also on the node", E1, (RUN, EPHEMERAL_TWO), (EBS,), 2, TOO_MANY, owned=EPHEMERAL_TWO),
    Case("among others", E1, (RUN, EPHEMERAL, E2), (EBS,), 3, TOO_MANY, owned=EPHEMERAL),
    Case("and fits below five", E1, (RUN, EPHEMERAL, E2), (EBS,), 5, FITS, owned=EPHEMERAL),
    Case(
        "other volumes do not matter",
        inline("mixed", "aws-inline1", *CONFIG), (OLD2,), (OLD, EBS), 2, TOO_MANY,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.sentence for case in CASES])
def test_counts_as_upstream_does(case: Case) -> None:
    cluster = _cluster(case)
    stance = node_volume_limits(cluster, case.new)

    assert stance.check is not None
    assert stance.check(cluster.nodes[NODE]) == case.expected


def test_a_foreign_claim_fails_the_attempt() -> None:
    case = Case("", EPHEMERAL, (), (EBS,), NO_LIMIT, None)
    cluster = _cluster(case, builders.pvc("abc-xyz", storage_class="csi-sc"))
    stance = node_volume_limits(cluster, EPHEMERAL)

    assert stance.check is not None
    with pytest.raises(AttemptError, match=r"PVC default/abc-xyz was not created for pod"):
        stance.check(cluster.nodes[NODE])


def test_a_pod_without_volumes_to_attach_is_passed_over() -> None:
    cluster = _cluster(Case("", EPHEMERAL, (), (EBS,), 2, None))

    assert node_volume_limits(cluster, builders.pod("plain", volumes=CONFIG)) == SKIP


@pytest.mark.parametrize(
    ("gate", "csi_node", "opt_in", "expected"),
    [
        pytest.param(True, {}, None, FITS, id="a driver that did not opt in may be missing"),
        pytest.param(True, {}, False, FITS, id="a driver that opted out may be missing"),
        pytest.param(True, {}, True, "missing", id="an opted-in driver may not be missing"),
        pytest.param(False, {}, True, FITS, id="without the gate nothing is enforced"),
        pytest.param(True, {EBS: 2}, True, FITS, id="an opted-in driver that is there is fine"),
        pytest.param(True, {EBS: None}, True, FITS, id="being there needs no limit"),
        pytest.param(True, {}, "no object", FITS, id="without a CSIDriver nothing is enforced"),
        pytest.param(True, None, True, "missing", id="without a CSINode the driver is missing"),
        pytest.param(True, {GCE: 2}, True, "missing", id="another driver does not stand in"),
    ],
)
def test_opt_in(
    gate: bool, csi_node: dict[str, int | None] | None, opt_in: bool | str | None, expected: object
) -> None:
    claim = builders.pvc("data", volume="data")
    objects: list[object] = [
        builders.node("n1"),
        claim,
        builders.pv("data", driver=EBS, claim=claim),
    ]
    if csi_node is not None:
        objects.append(builders.csinode("n1", csi_node))
    if opt_in is None or isinstance(opt_in, bool):
        objects.append(builders.csidriver(EBS, opt_in=opt_in))
    cluster = ReferenceCluster(objects, gates={"VolumeLimitScaling": gate})
    stance = node_volume_limits(cluster, builders.pod("db", pvcs=["data"]))

    missing = unschedulable(f"{EBS} CSI driver is not installed on the node")
    assert stance.check is not None
    assert stance.check(cluster.nodes["n1"]) == (missing if expected == "missing" else expected)


def test_the_gap_of_the_opt_in_is_in_tree_volumes_on_nodes_without_a_csinode() -> None:
    cluster = ReferenceCluster([builders.node(NODE), builders.csidriver(EBS, opt_in=True)])
    stance = node_volume_limits(cluster, INLINE)

    assert stance.check is not None
    assert stance.check(cluster.nodes[NODE]) is None


def _cluster(case: Case, *more: object) -> ReferenceCluster:
    drivers = case.drivers
    objects: list[object] = [
        builders.node(NODE),
        builders.storage_class("csi-sc", drivers[0]),
        builders.pvc("waiting", storage_class="csi-sc"),
        builders.pvc("classless"),
        builders.pvc("lost-volume", storage_class="csi-sc", volume="missing-in-action"),
        *more,
    ]
    for driver in drivers:
        for name in (f"{driver}-{number}" for number in range(4)):
            claim = builders.pvc(name, volume=name)
            source = VolumeSource()
            if driver == OLD:
                disk = AWSElasticBlockStoreSource(volume_id=name)
                source = VolumeSource(aws_elastic_block_store=disk)
            is_csi = driver in (EBS, GCE)
            objects += [
                claim,
                builders.pv(name, driver=driver if is_csi else "", source=source, claim=claim),
            ]
        objects += [
            builders.attachment(f"{driver}-{number}", NODE, attacher=driver)
            for number in range(case.attached)
        ]
    if case.owned is not None:
        objects += [
            builders.pvc(
                f"{case.owned.metadata.name}-{volume.name}",
                storage_class="csi-sc",
                owner=case.owned,
            )
            for volume in case.owned.spec.volumes
        ]
    if case.limit != NO_CSINODE:
        count = case.limit if isinstance(case.limit, int) else None
        objects.append(builders.csinode(NODE, dict.fromkeys(drivers, count)))
    cluster = ReferenceCluster(objects, gates={"VolumeLimitScaling": False})
    for pod in case.present:
        cluster.place(pod, NODE)
    return cluster
