"""Every disagreement, and no others."""

import pytest

from tonnage.groups import catalogue
from tonnage.nodeagent import limit_drift
from tonnage.nodeagent.limit_drift import DriftKind, View

EBS = catalogue.EBS

TABLE = [
    (
        "all agree",
        View(
            driver=EBS, published=25, answered=25, believed=25, machine=25, registered=True,
            kubelet=25, attached=25,
        ),
        {},
    ),
    (
        "the driver says 0",
        View(driver=EBS, published=25, answered=0, believed=25),
        {DriftKind.NO_NUMBER: 0},
    ),
    (
        "the driver says less than is believed",
        View(driver=EBS, published=25, answered=12, believed=25),
        {DriftKind.FORGETS: 13},
    ),
    (
        "the driver says more than the machine has room for",
        View(driver=EBS, published=23, answered=26, believed=26, machine=23),
        {DriftKind.ABOVE_MACHINE: 3},
    ),
    (
        "more than the default of a driver with flags is no disagreement",
        View(driver="csi.vsphere.vmware.com", published=255, answered=255, machine=59),
        {},
    ),
    (
        "the kubelet has another number",
        View(driver=EBS, published=24, registered=True, kubelet=26),
        {DriftKind.KUBELET: 2},
    ),
    (
        "the kubelet has none",
        View(driver=EBS, published=24, registered=True),
        {DriftKind.KUBELET_UNLIMITED: 0},
    ),
    ("the kubelet does not know the driver", View(driver=EBS, published=24), {}),
    ("nothing is published, nobody has a number", View(driver=EBS, registered=True), {}),
    ("more are attached", View(driver=EBS, published=6, attached=8), {DriftKind.OVERFULL: 2}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("view", "kinds"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_drift(view: View, kinds: dict[DriftKind, int]) -> None:
    assert {one.kind: one.by for one in limit_drift.found(view)} == kinds


def test_a_message_begins_with_the_driver() -> None:
    (found,) = limit_drift.found(View(driver=EBS, published=24, registered=True, kubelet=26))
    assert found.message == "ebs.csi.aws.com: the CSINode says 26, 24 is right"
