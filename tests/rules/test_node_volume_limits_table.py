"""NodeVolumeLimits: upstream's own table of attach limits, row by row."""

from collections.abc import Iterable, Mapping

import msgspec
import pytest

from tests.rules.asking import FITS, SKIPPED, answer, version
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.volume_sources import AWSElasticBlockStoreSource, VolumeSource
from tonnage.rules.node_volume_limits import NodeVolumeLimits
from tonnage.testing.builders import attachment, csinode, node, pod, pv, pvc, storage_class

EBS = "ebs.csi.aws.com"
GCE = "pd.csi.storage.gke.io"
IN_TREE = "kubernetes.io/aws-ebs"
HOSTPATH = "kubernetes.io/hostpath"
EXCEEDED = "U: node(s) exceed max volume count"
NODE = "n1"
GATE_OFF = version("1.37", {"VolumeLimitScaling": False})


def claims_of(driver: str) -> list[PersistentVolumeClaim]:
    return [pvc(f"csi-{driver}-{i}", volume=f"csi-{driver}-{i}") for i in range(4)]


def volume_of(driver: str, claim: PersistentVolumeClaim) -> PersistentVolume:
    name = claim.metadata.name
    if driver == IN_TREE:
        return pv(name, source=ebs_disk(name), claim=claim)
    if driver == HOSTPATH:
        return pv(name, claim=claim)
    return pv(name, driver=driver, claim=claim)


def ebs_disk(volume_id: str) -> VolumeSource:
    return VolumeSource(
        name="disk", aws_elastic_block_store=AWSElasticBlockStoreSource(volume_id=volume_id)
    )


def fixture(drivers: Iterable[str], limits: Mapping[str, int | None] | None) -> list[object]:
    """The cluster of upstream's table: four bound claims of each driver, and three odd ones."""
    drivers = tuple(drivers)
    claims = {driver: claims_of(driver) for driver in drivers}
    return [
        node(NODE),
        *(claim for found in claims.values() for claim in found),
        *(volume_of(driver, claim) for driver, found in claims.items() for claim in found),
        pvc("csi-4", storage_class="csi-sc"),
        pvc("csi-5"),
        pvc("csi-6", volume="missing-in-action", storage_class="csi-sc"),
        storage_class("csi-sc", drivers[0]),
        *([csinode(NODE, limits)] if limits is not None else []),
    ]


def user(name: str, *claims: str, inline: str = "") -> Pod:
    return pod(name, pvcs=claims, volumes=[ebs_disk(inline)] if inline else [])


RUN = user("run", f"csi-{EBS}-3")
E1 = user("e1", f"csi-{EBS}-0")
E2 = user("e2", f"csi-{EBS}-1", f"csi-{EBS}-2")
PEND = user("pend", "csi-4")
PEND2 = user("pend2", "csi-4")
NO_CLASS = user("no-class", "csi-5")
NO_VOLUME = user("no-volume", "csi-6")
G2 = user("g2", f"csi-{GCE}-1", f"csi-{GCE}-2")
T1 = user("t1", f"csi-{IN_TREE}-0")
T2 = user("t2", f"csi-{IN_TREE}-1", f"csi-{IN_TREE}-2")
HP = user("hp", f"csi-{HOSTPATH}-0")
INLINE = user("inline", inline="aws-inline1")
INLINE_SAME = user("inline-same", inline=f"csi-{EBS}-1")
EPHEMERAL = pod("abc", namespace="test", uid="12345", ephemeral=["xyz"])
EPHEMERAL2 = pod("abc", namespace="test", uid="12345II", ephemeral=["x", "y"])


def owned(name: str, by: Pod | None) -> PersistentVolumeClaim:
    return pvc(name, namespace="test", storage_class="csi-sc", owner=by)


XYZ = owned("abc-xyz", EPHEMERAL)
NOT_FOUND = 'UU: looking up PVC test/abc-xyz: persistentvolumeclaim "abc-xyz" not found'
PLAIN = (VolumeSource(name="config"), VolumeSource(name="secret"))


def bound(one: Pod) -> Pod:
    spec = msgspec.structs.replace(one.spec, node_name=NODE)
    return msgspec.structs.replace(one, spec=spec)


@pytest.mark.parametrize(
    ("asking", "running", "drivers", "limit", "attached", "claims", "expected"),
    [
        pytest.param(
            E1, [], [EBS], 2, 2, [], EXCEEDED, id="1: its own attachment is counted a second time"
        ),
        pytest.param(E1, [], [EBS], 2, 1, [], FITS, id="2: its own attachment and one slot more"),
        pytest.param(E1, [RUN, E2], [EBS], 4, 0, [], FITS, id="3: three in use, the fourth fits"),
        pytest.param(E1, [RUN, E2], [EBS], 2, 0, [], EXCEEDED, id="4: three in use, two allowed"),
        pytest.param(E1, [RUN, E2], [EBS], None, 0, [], FITS, id="5: no limit, no refusal"),
        pytest.param(E1, [PEND, E2], [EBS], 2, 0, [], EXCEEDED, id="6: an unbound claim counts"),
        pytest.param(
            E1, [PEND, PEND2, E2], [EBS], 4, 0, [], FITS, id="7: a shared unbound claim counts once"
        ),
        pytest.param(
            E1,
            [NO_VOLUME, E2],
            [EBS],
            2,
            0,
            [],
            EXCEEDED,
            id="8: a claim whose volume is missing counts by its class",
        ),
        pytest.param(
            E1, [RUN, NO_CLASS], [EBS], 2, 0, [], FITS, id="9: a claim without class does not count"
        ),
        pytest.param(
            E1, [G2, E2], [EBS, GCE], 2, 0, [], EXCEEDED, id="10: of two drivers, its own is full"
        ),
        pytest.param(
            G2, [E2, RUN], [EBS, GCE], 2, 0, [], FITS, id="11: of two drivers, the other is full"
        ),
        pytest.param(T1, [T2], [IN_TREE, EBS], 2, 0, [], EXCEEDED, id="12: in-tree volumes count"),
        pytest.param(
            INLINE, [T2], [IN_TREE, EBS], "absent", 0, [], FITS, id="13: no CSINode, no limit"
        ),
        pytest.param(
            PEND,
            [T2],
            [IN_TREE, EBS],
            2,
            0,
            [],
            EXCEEDED,
            id="14: an unbound claim of an in-tree class counts",
        ),
        pytest.param(
            T1, [T2], [IN_TREE, EBS], None, 0, [], FITS, id="15: in-tree volumes without a limit"
        ),
        pytest.param(
            HP,
            [E2],
            [HOSTPATH, EBS],
            2,
            0,
            [],
            FITS,
            id="16: what no driver took over is not counted",
        ),
        pytest.param(
            INLINE,
            [T2],
            [IN_TREE, EBS],
            2,
            0,
            [],
            EXCEEDED,
            id="17: an inline in-tree volume counts",
        ),
        pytest.param(
            T1,
            [E2],
            [IN_TREE, EBS],
            2,
            0,
            [],
            EXCEEDED,
            id="18: in-tree and CSI volumes share the driver's slots",
        ),
        pytest.param(
            INLINE,
            [E2, T1],
            [IN_TREE, EBS],
            3,
            0,
            [],
            EXCEEDED,
            id="19: inline on top of both kinds",
        ),
        pytest.param(
            INLINE_SAME,
            [E2, T1],
            [IN_TREE, EBS],
            3,
            0,
            [],
            FITS,
            id="20: an inline volume that is on the node as a CSI volume",
        ),
        pytest.param(
            E1, [T2], [IN_TREE, EBS], 2, 0, [], EXCEEDED, id="21: a CSI volume beside in-tree ones"
        ),
        pytest.param(
            EPHEMERAL,
            [],
            [EBS],
            None,
            0,
            [],
            NOT_FOUND,
            id="22: an ephemeral claim that is not there",
        ),
        pytest.param(
            EPHEMERAL,
            [],
            [EBS],
            None,
            0,
            [owned("abc-xyz", None)],
            "E: PVC test/abc-xyz was not created for pod test/abc (pod is not owner)",
            id="23: an ephemeral claim that belongs to nobody",
        ),
        pytest.param(
            EPHEMERAL, [], [EBS], None, 0, [XYZ], FITS, id="24: an ephemeral claim of its own"
        ),
        pytest.param(
            EPHEMERAL,
            [RUN, E2],
            [EBS],
            2,
            0,
            [XYZ],
            EXCEEDED,
            id="25: an ephemeral claim counts for a new pod",
        ),
        pytest.param(
            E1,
            [RUN, EPHEMERAL2],
            [EBS],
            2,
            0,
            [owned("abc-x", EPHEMERAL2), owned("abc-y", EPHEMERAL2)],
            EXCEEDED,
            id="26: ephemeral claims of a running pod count",
        ),
        pytest.param(
            E1,
            [RUN, EPHEMERAL, E2],
            [EBS],
            3,
            0,
            [XYZ],
            EXCEEDED,
            id="27 and 28: ephemeral claims and others, full",
        ),
        pytest.param(
            E1,
            [RUN, EPHEMERAL, E2],
            [EBS],
            5,
            0,
            [XYZ],
            FITS,
            id="29: ephemeral claims and others, room for one",
        ),
        pytest.param(
            pod("plain", volumes=PLAIN),
            [],
            [EBS],
            2,
            0,
            [],
            SKIPPED,
            id="30: config and secret only",
        ),
        pytest.param(
            pod("mixed", pvcs=[f"csi-{EBS}-0"], volumes=PLAIN),
            [],
            [EBS],
            2,
            0,
            [],
            FITS,
            id="31: config and secret beside a claim",
        ),
        pytest.param(
            pod("abc", namespace="test", uid="12345", ephemeral=["xyz"], volumes=PLAIN),
            [],
            [EBS],
            None,
            0,
            [],
            NOT_FOUND,
            id="32: config and secret beside an ephemeral claim that is not there",
        ),
        pytest.param(
            pod("mixed", volumes=[*PLAIN, ebs_disk("aws-inline1")]),
            [T2],
            [IN_TREE, EBS],
            2,
            0,
            [],
            EXCEEDED,
            id="33: config and secret beside an inline volume",
        ),
    ],
)
def test_upstreams_table(asking, running, drivers, limit, attached, claims, expected) -> None:
    """Every driver has the limit (`None`: listed without one; absent: no CSINode)."""
    limits = None if limit == "absent" else dict.fromkeys(drivers, limit)
    objects = [
        *fixture(drivers, limits),
        *claims,
        *(bound(one) for one in running),
        *(
            attachment(f"csi-{driver}-{number}", NODE, attacher=driver)
            for driver in drivers
            for number in range(attached)
        ),
    ]

    assert answer(NodeVolumeLimits(), asking, objects, of=GATE_OFF) == expected
