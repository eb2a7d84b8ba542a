"""What a StorageClass asks for with its annotation: how much space a new node of each group has.

    1800Gi                                      the same for every group
    auto                                        what the template of the node group declares for the
                                                class, or live nodes of the group were seen to have
    {"m5d.large": 75G, "*": auto}               by group; a group that is not named has no object
    {"*": {capacity: 3600Gi, maximumVolumeSize: 1800Gi}}
    {"*": {resource: ephemeral-storage}}        what the template of the node group offers of it

A group is named by its label's value or, where that is not enough, by `key=value,key=value`.
"""

from fractions import Fraction
from typing import Any

from tonnage.capacity.node_kinds import GroupKey, full_name
from tonnage.errors import InputError
from tonnage.files import yamltext
from tonnage.objects import quantities
from tonnage.objects.meta import Quantity, Record

AUTO = "auto"
NONE = "none"
EVERY = "*"
_FIELDS = ("capacity", "maximumVolumeSize", "resource")


class Size(Record, frozen=True, kw_only=True):
    """Space of a new node, and the largest volume it can have where that is less."""

    capacity: Quantity
    maximum_volume_size: Quantity | None = None


class Wish(Record, frozen=True, kw_only=True):
    """For one group: a size, or where it is to come from; what is `learned` goes first."""

    size: Size | None = None
    learned: bool = False
    resource: str = ""
    maximum_volume_size: Quantity | None = None


class Wishes(Record, frozen=True, kw_only=True):
    """For all groups of a class."""

    by_group: dict[str, Wish | None]

    def of(self, group: GroupKey) -> Wish | None:
        """What is asked for a group; None for no object."""
        values = ",".join(value for _, value in group)
        for name in (full_name(group), values, EVERY):
            if name in self.by_group:
                return self.by_group[name]
        return None


def parse(text: str) -> Wishes:
    """Read an annotation; what is wrong with it is an `InputError`."""
    stripped = text.strip()
    if not stripped.startswith("{") and ":" not in stripped:
        return Wishes(by_group={EVERY: _wish(stripped, where="")})
    try:
        documents = [one.value for one in yamltext.read(stripped.encode())]
    except yamltext.YamlError as error:
        raise InputError(f"expected a quantity, auto or a map of groups: {error}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict) or not documents[0]:
        raise InputError("expected a quantity, auto or a map of groups")
    return Wishes(
        by_group={_normal(name): _wish(value, where=name) for name, value in documents[0].items()}
    )


def _normal(name: str) -> str:
    """Several labels in the order in which groups have them."""
    if "=" not in name:
        return name
    return ",".join(sorted(part.strip() for part in name.split(",")))


def _wish(value: Any, *, where: str) -> Wish | None:
    place = f"group {where}: " if where else ""
    if isinstance(value, dict):
        return _detailed(value, place)
    if value == NONE:
        return None
    if value == AUTO:
        return Wish(learned=True)
    return Wish(size=Size(capacity=_quantity(value, f"{place}capacity")))


def _detailed(value: dict[str, Any], place: str) -> Wish:
    unknown = sorted(set(value) - set(_FIELDS))
    if unknown or not value:
        named = f", not {', '.join(unknown)}" if unknown else ""
        raise InputError(f"{place}expected some of {', '.join(_FIELDS)}{named}")
    capacity, resource = value.get("capacity"), value.get("resource", "")
    if not isinstance(resource, str):
        raise InputError(f"{place}resource: expected the name of a resource")
    largest = value.get("maximumVolumeSize")
    if largest is not None:
        largest = _quantity(largest, f"{place}maximumVolumeSize")
    if capacity is not None and capacity != AUTO:
        if resource:
            raise InputError(f"{place}expected a capacity or a resource, not both")
        return Wish(
            size=Size(capacity=_quantity(capacity, f"{place}capacity"), maximum_volume_size=largest)
        )
    if capacity is None and not resource:
        raise InputError(f"{place}expected a capacity or a resource")
    return Wish(learned=capacity == AUTO, resource=resource, maximum_volume_size=largest)


def _quantity(value: Any, field: str) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{field}: expected a quantity such as 1800Gi")
    try:
        amount = quantities.exact(value)
    except quantities.QuantityError as error:
        raise InputError(f"{field}: {error}") from None
    if amount < 0 or amount > Fraction(quantities.LARGEST):
        raise InputError(f"{field}: quantity {value!r}: expected 0 or more, and below 2^63 bytes")
    return value if isinstance(value, str) else str(value)
