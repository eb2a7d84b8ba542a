"""TaintToleration: which tolerations open a tainted node."""

import pytest

from tests.rules.asking import FITS, answer, reasons, version
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import Toleration
from tonnage.rules.causes import Cause
from tonnage.rules.taint_toleration import TaintToleration
from tonnage.testing.builders import node, pod

REFUSED = "UU: node(s) had untolerated taint(s)"
DEDICATED = Taint(key="dedicated", value="db", effect="NoSchedule")
EVICTING = Taint(key="dedicated", value="db", effect="NoExecute")
DISCOURAGING = Taint(key="dedicated", value="db", effect="PreferNoSchedule")
COMPARING = version("1.37", {"TaintTolerationComparisonOperators": True})


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        pytest.param((), (), FITS, id="a node without taints takes any pod"),
        pytest.param((DEDICATED,), (), REFUSED, id="a NoSchedule taint must be tolerated"),
        pytest.param((EVICTING,), (), REFUSED, id="a NoExecute taint must be tolerated"),
        pytest.param((DISCOURAGING,), (), FITS, id="a PreferNoSchedule taint need not be"),
        pytest.param(
            (DEDICATED,),
            (Toleration(key="dedicated", operator="Equal", value="db"),),
            FITS,
            id="key and value agree",
        ),
        pytest.param(
            (DEDICATED,),
            (Toleration(key="dedicated", value="db"),),
            FITS,
            id="no operator means Equal",
        ),
        pytest.param(
            (DEDICATED,),
            (Toleration(key="dedicated", value="web"),),
            REFUSED,
            id="the values differ",
        ),
        pytest.param(
            (DEDICATED,),
            (Toleration(key="gpu", operator="Exists"),),
            REFUSED,
            id="the keys differ",
        ),
        pytest.param(
            (DEDICATED,),
            (Toleration(key="dedicated", operator="Exists"),),
            FITS,
            id="Exists needs no value",
        ),
        pytest.param(
            (DEDICATED,),
            (Toleration(key="dedicated", operator="Exists", effect="NoExecute"),),
            REFUSED,
            id="a toleration of another effect does not count",
        ),
        pytest.param(
            (DEDICATED, EVICTING),
            (Toleration(key="dedicated", operator="Exists"),),
            FITS,
            id="a toleration without an effect is for all of them",
        ),
        pytest.param(
            (DEDICATED, Taint(key="gpu", effect="NoSchedule")),
            (Toleration(key="dedicated", operator="Exists"),),
            REFUSED,
            id="every taint must be tolerated",
        ),
        pytest.param(
            (DEDICATED,), (Toleration(operator="Exists"),), FITS, id="Exists without a key is all"
        ),
        pytest.param(
            (DEDICATED,),
            (Toleration(value="db"),),
            FITS,
            id="Equal without a key still compares values, and they agree",
        ),
        pytest.param(
            (DEDICATED,),
            (Toleration(value="web"),),
            REFUSED,
            id="Equal without a key still compares values, and they differ",
        ),
        pytest.param(
            (DEDICATED,),
            (Toleration(key="dedicated", operator="Like", value="db"),),
            REFUSED,
            id="an operator nobody knows tolerates nothing",
        ),
    ],
)
def test_taints_need_tolerations(taints, tolerations, expected) -> None:
    asking = pod("web", tolerations=tolerations)

    assert answer(TaintToleration(), asking, [node("n1", taints=taints)]) == expected


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        pytest.param("Gt", "1", "5", FITS, id="5 is greater than 1"),
        pytest.param("Gt", "5", "5", REFUSED, id="5 is not greater than 5"),
        pytest.param("Lt", "9", "5", FITS, id="5 is less than 9"),
        pytest.param("Lt", "5", "5", REFUSED, id="5 is not less than 5"),
        pytest.param("Gt", "one", "5", REFUSED, id="a bound that is no number tolerates nothing"),
        pytest.param("Lt", "9", "five", REFUSED, id="a taint that is no number is not tolerated"),
        pytest.param("Lt", "09", "5", REFUSED, id="leading zeros are no number"),
        pytest.param("Gt", "-7", "-5", FITS, id="numbers may be negative"),
    ],
)
def test_comparisons_work_behind_their_gate(operator, bound, value, expected) -> None:
    asking = pod("web", tolerations=[Toleration(key="tier", operator=operator, value=bound)])
    tainted = node("n1", taints=[Taint(key="tier", value=value, effect="NoSchedule")])

    assert answer(TaintToleration(), asking, [tainted], of=COMPARING) == expected


def test_comparisons_tolerate_nothing_without_their_gate() -> None:
    asking = pod("web", tolerations=[Toleration(key="tier", operator="Gt", value="1")])
    tainted = node("n1", taints=[Taint(key="tier", value="5", effect="NoSchedule")])

    assert answer(TaintToleration(), asking, [tainted]) == REFUSED


def test_the_first_taint_that_is_not_tolerated_is_named() -> None:
    asking = pod("web", tolerations=[Toleration(key="dedicated", operator="Exists")])
    tainted = node(
        "n1",
        taints=[DEDICATED, Taint(key="a", effect="NoExecute"), Taint(key="b", effect="NoSchedule")],
    )
    (reason,) = reasons(TaintToleration(), asking, [tainted])

    assert reason.cause is Cause.TAINT_NOT_TOLERATED
    assert reason.facts == {"key": "a", "value": "", "effect": "NoExecute"}
