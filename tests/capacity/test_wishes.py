"""The annotation: a quantity, `auto`, or a map of groups."""

import pytest

from tonnage.capacity import wishes
from tonnage.capacity.node_kinds import GroupKey
from tonnage.capacity.wishes import Size, Wish
from tonnage.errors import InputError

M5: GroupKey = (("type", "m5"),)
BOTH: GroupKey = (("type", "m5"), ("zone", "a"))


def of(text: str, group: GroupKey = M5) -> Wish | None:
    return wishes.parse(text).of(group)


def fixed(capacity: str, largest: str | None = None) -> Wish:
    return Wish(size=Size(capacity=capacity, maximum_volume_size=largest))


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("1800Gi", fixed("1800Gi")),
        (" 1e12 ", fixed("1e12")),
        ("auto", Wish(learned=True)),
        ("none", None),
        ('{"m5": "75G", "*": "100G"}', fixed("75G")),
        ("m5: 75G\nc5: 50G", fixed("75G")),
        ("c5: 50G", None),
        ('{"*": 50G, m5: none}', None),
        ('{"*": 50G, "type=m5": 60G, m5: 70G}', fixed("60G")),
        ('{"*": {capacity: 3Ti, maximumVolumeSize: 1Ti}}', fixed("3Ti", "1Ti")),
        ('{"*": {resource: ephemeral-storage}}', Wish(resource="ephemeral-storage")),
        ('{"*": {capacity: auto, resource: x}}', Wish(learned=True, resource="x")),
        ('{"*": 1099511627776}', fixed("1099511627776")),
    ],
)
def test_what_is_asked_for_a_group(text: str, wish: Wish | None) -> None:
    assert of(text) == wish


def test_a_group_of_several_labels_is_named_by_its_values_or_in_any_order_by_its_labels() -> None:
    assert of('{"m5,a": 1Gi}', BOTH) == fixed("1Gi")
    assert of('{"zone=a, type=m5": 2Gi}', BOTH) == fixed("2Gi")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no digits|expected a number"),
        ("lots", "capacity: quantity 'lots'"),
        ("-1Gi", "expected 0 or more"),
        ("{m5: ", "expected a quantity, auto or a map"),
        ("{}", "expected a quantity, auto or a map"),
        ("m5: [1Gi]", "group m5: capacity: expected a quantity"),
        ("m5: {size: 1Gi}", "group m5: expected some of .* not size"),
        ("m5: {maximumVolumeSize: 1Gi}", "group m5: expected a capacity or a resource"),
        ("m5: {capacity: 1Gi, resource: x}", "not both"),
        ("m5: {capacity: 1Gi, maximumVolumeSize: x}", "maximumVolumeSize: quantity 'x'"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wishes.parse(text)
