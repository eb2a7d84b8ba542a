"""How much space live nodes were seen to have, read off the objects that drivers publish."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tonnage.capacity.wishes import Size
from tonnage.objects import quantities, selectors
from tonnage.objects.meta import LabelSelector, Quantity
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSIStorageCapacity

LEARNED_ANNOTATION = "tonnage.dev/learned-capacity"
"""On an object whose size was learned: it outlives the nodes it was learned from."""


class LabelIndex:
    """Label sets under names; a selector looks at few of them."""

    def __init__(self, labelled: Mapping[str, Mapping[str, str]]) -> None:
        self._labelled = labelled
        self._by_key: dict[str, dict[str, list[str]]] = {}

    def matching(self, selector: LabelSelector | None) -> list[str]:
        """Names of what the selector matches; an invalid one matches nothing."""
        if selector is None or not selectors.is_valid(selector):
            return []
        return [
            name
            for name in self._candidates(selector)
            if selectors.matches(selector, self._labelled[name])
        ]

    def _candidates(self, selector: LabelSelector) -> list[str]:
        lists = [
            [name for value in sorted(values) for name in self._under(key).get(value, ())]
            for key, values in selectors.accepted_values(selector).items()
        ]
        return min(lists, key=len) if lists else list(self._labelled)

    def _under(self, key: str) -> dict[str, list[str]]:
        index = self._by_key.get(key)
        if index is None:
            found: defaultdict[str, list[str]] = defaultdict(list)
            for name, labels in self._labelled.items():
                if key in labels:
                    found[labels[key]].append(name)
            index = self._by_key[key] = dict(found)
        return index


def sizes_of_nodes(
    capacities: Iterable[CSIStorageCapacity], nodes: Iterable[Node]
) -> dict[str, dict[str, Size]]:
    """By class and node, what objects that are about a single node say of it."""
    index = LabelIndex({node.metadata.name: node.metadata.labels for node in nodes})
    found: defaultdict[str, dict[str, Size]] = defaultdict(dict)
    for obj in capacities:
        size = size_of(obj)
        matched = index.matching(obj.node_topology) if size is not None else []
        if size is not None and len(matched) == 1:
            sizes = found[obj.storage_class_name]
            sizes[matched[0]] = larger(sizes.get(matched[0]), size)
    return found


def size_of(obj: CSIStorageCapacity) -> Size | None:
    """What an object says; None if it says nothing that can be read."""
    capacity = obj.capacity if obj.capacity is not None else obj.maximum_volume_size
    if capacity is None or not readable(capacity):
        return None
    largest = obj.maximum_volume_size
    if largest is not None and not readable(largest):
        largest = None
    return Size(capacity=capacity, maximum_volume_size=largest)


def larger(one: Size | None, other: Size) -> Size:
    """The better of two views of an empty node: of free space, the most that was seen."""
    if one is None:
        return other
    largest = _most(one.maximum_volume_size, other.maximum_volume_size)
    capacity = _most(one.capacity, other.capacity)
    assert capacity is not None
    return Size(capacity=capacity, maximum_volume_size=largest)


def noted(size: Size) -> str:
    """A learned size as it is kept in the annotation."""
    largest = size.maximum_volume_size
    return f"{size.capacity}/{largest}" if largest is not None else str(size.capacity)


def remembered(obj: CSIStorageCapacity) -> Size | None:
    """The size that was learned when the object was published, if it was."""
    capacity, _, largest = obj.metadata.annotations.get(LEARNED_ANNOTATION, "").partition("/")
    if not capacity or not readable(capacity) or (largest and not readable(largest)):
        return None
    return Size(capacity=capacity, maximum_volume_size=largest or None)


def same(one: Quantity | None, other: Quantity | None) -> bool:
    """Whether two quantities are the same amount, however they are written."""
    if one is None or other is None:
        return one is other
    if not (readable(one) and readable(other)):
        return one == other
    return quantities.exact(one) == quantities.exact(other)


def _most(one: Quantity | None, other: Quantity | None) -> Quantity | None:
    if one is None or other is None:
        return one if other is None else other
    return one if quantities.exact(one) >= quantities.exact(other) else other


def readable(quantity: Quantity) -> bool:
    """Whether it is a quantity at all: not everything that is read has been checked."""
    try:
        quantities.exact(quantity)
    except quantities.QuantityError:
        return False
    return True
