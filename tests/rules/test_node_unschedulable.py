"""NodeUnschedulable: who may go to a cordoned node."""

import pytest

from tests.rules.asking import FITS, answer
from tonnage.objects.pods import Toleration
from tonnage.rules.node_unschedulable import NodeUnschedulable
from tonnage.testing.builders import node, pod

CORDON = "node.kubernetes.io/unschedulable"
REFUSED = "UU: node(s) were unschedulable"


@pytest.mark.parametrize(
    ("unschedulable", "tolerations", "expected"),
    [
        pytest.param(False, (), FITS, id="a node that is not cordoned takes any pod"),
        pytest.param(True, (), REFUSED, id="a cordoned node takes no ordinary pod"),
        pytest.param(
            True,
            (Toleration(key=CORDON, operator="Exists", effect="NoSchedule"),),
            FITS,
            id="a pod that tolerates the cordon goes there",
        ),
        pytest.param(
            True,
            (Toleration(key=CORDON),),
            FITS,
            id="the taint of a cordon has an empty value, which an empty toleration equals",
        ),
        pytest.param(
            True,
            (Toleration(key=CORDON, value="x"),),
            REFUSED,
            id="another value does not tolerate the cordon",
        ),
        pytest.param(
            True,
            (Toleration(key=CORDON, operator="Exists", effect="NoExecute"),),
            REFUSED,
            id="a cordon is NoSchedule: tolerating NoExecute is not enough",
        ),
        pytest.param(
            True, (Toleration(operator="Exists"),), FITS, id="who tolerates everything goes there"
        ),
    ],
)
def test_a_cordon_keeps_pods_away(unschedulable, tolerations, expected) -> None:
    asking = pod("web", tolerations=tolerations)

    assert (
        answer(NodeUnschedulable(), asking, [node("n1", unschedulable=unschedulable)]) == expected
    )
