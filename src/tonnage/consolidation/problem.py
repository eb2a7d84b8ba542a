"""The question in whole numbers: nodes as bins, pods as items, and nodes that could be bought.

Everything that can be counted has a number: resources first, then slots of drivers, then places
that pods keep for themselves. What cannot be counted is in the masks of a kind, or is looked at
when a plan is rehearsed.
"""

from typing import NamedTuple


class ItemKind(NamedTuple):
    """Pods that are as good as each other: what one takes, and which bins and templates suit it."""

    needs: tuple[tuple[int, int], ...]
    size: float
    bins: tuple[bool, ...]
    templates: tuple[bool, ...]


class Item(NamedTuple):
    """A pod that may move; what that costs, in the money of an hour's price."""

    pod: str
    kind: int
    home: int
    cost: float


class NodeBin(NamedTuple):
    """A node that is there: what is free beside all pods on it, and its price for an hour."""

    name: str
    group: str
    price: float
    free: tuple[int, ...]
    may_go: bool


class TemplateBin(NamedTuple):
    """A node that could be bought: what an empty one has, and how many there may be."""

    group: str
    price: float
    free: tuple[int, ...]
    room: int


class Problem(NamedTuple):
    """`spare` is how many nodes each group may lose; `hours` within which moves have to pay back:
    what is saved in so many is worth as much as the moves cost."""

    kinds: tuple[ItemKind, ...]
    items: tuple[Item, ...]
    bins: tuple[NodeBin, ...]
    templates: tuple[TemplateBin, ...]
    spare: dict[str, int]
    hours: float
    cluster_room: int
    """Nodes that the cluster may grow by while old and new ones are there together."""
    least_share: float = 0.0
    """What is to be saved of the price of nodes that go, each time some are replaced."""
