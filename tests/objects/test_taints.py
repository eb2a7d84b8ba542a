import pytest

from tonnage.objects.nodes import Taint
from tonnage.objects.pods import Toleration
from tonnage.objects.taints import tolerates, untolerated

DEDICATED = Taint(key="dedicated", value="db", effect="NoSchedule")


@pytest.mark.parametrize(
    ("why", "toleration", "expected"),
    [
        ("equal value", Toleration(key="dedicated", operator="Equal", value="db"), True),
        ("no operator means equal", Toleration(key="dedicated", value="db"), True),
        ("other value", Toleration(key="dedicated", value="web"), False),
        ("any value", Toleration(key="dedicated", operator="Exists"), True),
        ("other key", Toleration(key="gpu", operator="Exists"), False),
        ("any key and value", Toleration(operator="Exists"), True),
        ("any key, the value still counts", Toleration(value="db"), True),
        ("any key, other value", Toleration(operator="Equal"), False),
        ("same effect", Toleration(operator="Exists", effect="NoSchedule"), True),
        ("other effect", Toleration(operator="Exists", effect="NoExecute"), False),
        ("unknown operator", Toleration(key="dedicated", operator="In", value="db"), False),
    ],
)
def test_a_toleration_covers_a_taint(why, toleration, expected):
    assert tolerates(toleration, DEDICATED) is expected, why


@pytest.mark.parametrize(
    ("operator", "bound", "actual", "expected"),
    [
        ("Lt", "10", "9", True),
        ("Lt", "10", "10", False),
        ("Gt", "10", "11", True),
        ("Gt", "-5", "0", True),
        ("Gt", "9", "10", True),
        ("Gt", "09", "10", False),
        ("Gt", "+9", "10", False),
        ("Gt", "-0", "10", False),
        ("Gt", "", "10", False),
        ("Gt", "9", "ten", False),
        ("Gt", "9", "9223372036854775807", True),
        ("Gt", "9", "9223372036854775808", False),
    ],
)
def test_comparisons_want_plain_64_bit_integers(operator, bound, actual, expected):
    toleration = Toleration(key="sla", operator=operator, value=bound)
    taint = Taint(key="sla", value=actual, effect="NoSchedule")
    assert tolerates(toleration, taint, comparison_operators=True) is expected


def test_comparisons_cover_nothing_while_their_gate_is_off():
    toleration = Toleration(key="sla", operator="Gt", value="1")
    taint = Taint(key="sla", value="2", effect="NoSchedule")
    assert not tolerates(toleration, taint)
    assert untolerated([taint], [toleration]) == taint
    assert untolerated([taint], [toleration], comparison_operators=True) is None


def test_the_first_untolerated_taint_is_named():
    tolerated = Taint(key="a", effect="NoSchedule")
    first, second = Taint(key="b", effect="NoExecute"), Taint(key="c", effect="NoSchedule")
    tolerations = [Toleration(key="a", operator="Exists")]
    assert untolerated([tolerated, first, second], tolerations) == first


def test_one_of_several_tolerations_is_enough():
    tolerations = (t for t in [Toleration(key="x"), Toleration(operator="Exists")])
    assert untolerated([DEDICATED, Taint(key="c", effect="NoExecute")], tolerations) is None


@pytest.mark.parametrize("effect", ["PreferNoSchedule", "", "Other"])
def test_other_effects_keep_no_pod_away(effect):
    assert untolerated([Taint(key="a", effect=effect)], []) is None
