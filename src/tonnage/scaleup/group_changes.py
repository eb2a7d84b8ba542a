"""What if a node group had other bounds or another price: changes of its declaration alone.

Nothing else of the cluster is touched, so that a snapshot of it can be used again.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from tonnage.errors import InputError
from tonnage.objects import quantities
from tonnage.objects.phrases import near_names
from tonnage.objects.scenarios import MOST_NODES, NodeGroup, NodeGroupSpec

FORMS = ("max-size=GROUP:N", "min-size=GROUP:N", "price=GROUP:AMOUNT")


class SetMaxSize(NamedTuple):
    """The group may have so many nodes; a smallest size above it follows."""

    group: str
    size: int

    def spec(self, before: NodeGroupSpec) -> NodeGroupSpec:
        smallest = min(before.min_size, self.size)
        return msgspec.structs.replace(before, max_size=self.size, min_size=smallest)


class SetMinSize(NamedTuple):
    """The group has at least so many nodes; a largest size below it follows."""

    group: str
    size: int

    def spec(self, before: NodeGroupSpec) -> NodeGroupSpec:
        largest = max(before.max_size, self.size)
        return msgspec.structs.replace(before, min_size=self.size, max_size=largest)


class SetPrice(NamedTuple):
    """A node of the group costs so much in an hour."""

    group: str
    price: str

    def spec(self, before: NodeGroupSpec) -> NodeGroupSpec:
        return msgspec.structs.replace(before, price_per_hour=self.price)


GroupChange: TypeAlias = SetMaxSize | SetMinSize | SetPrice


def parse(text: str) -> GroupChange | None:
    """A change written as one of `FORMS`; none if it is not about a group."""
    name, _, value = text.partition("=")
    group, _, amount = value.rpartition(":")
    if name in ("max-size", "min-size"):
        if group and amount.isascii() and amount.isdigit() and int(amount) <= MOST_NODES:
            size = int(amount)
            return SetMaxSize(group, size) if name == "max-size" else SetMinSize(group, size)
        raise InputError(
            f"what-if {text}: expected {name}=GROUP:N with a whole number N of at most"
            f" {MOST_NODES:,}, such as {name}=db-large:10"
        )
    if name == "price":
        if group and _is_price(amount):
            return SetPrice(group, amount)
        raise InputError(
            f"what-if {text}: expected price=GROUP:AMOUNT with an amount for an hour, such as"
            " price=db-large:0.504"
        )
    return None


def apply(groups: Iterable[NodeGroup], change: GroupChange) -> list[NodeGroup]:
    """The groups after the change; the one it names has to be among them."""
    found = list(groups)
    names = [one.metadata.name for one in found]
    if change.group not in names:
        near = near_names(change.group, names)
        hint = f"; near matches: {', '.join(near)}" if near else ""
        raise InputError(f"what-if: no node group {change.group!r} in the input{hint}")
    return [
        msgspec.structs.replace(one, spec=change.spec(one.spec))
        if one.metadata.name == change.group
        else one
        for one in found
    ]


def _is_price(text: str) -> bool:
    try:
        return quantities.exact(text) >= 0
    except ValueError:
        return False
