"""Orders in which groups of pods are packed. First fit is only as good as its order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tonnage.scaleup.pod_groups import PodGroup


class Shares:
    """What pods take of an empty node: the part of its capacity, for everything that is counted."""

    def __init__(
        self, capacity: Mapping[str, int], amounts: Callable[[PodGroup], Mapping[str, int]]
    ) -> None:
        self._capacity = capacity
        self._amounts = amounts

    def of(self, group: PodGroup) -> Iterator[float]:
        """One pod's share of each resource that it takes."""
        capacity = self._capacity
        for name, amount in self._amounts(group).items():
            if capacity.get(name):
                yield amount / capacity[name]

    def size(self, group: PodGroup) -> float:
        """Of CPU and memory, as upstream compares pods."""
        has = self._capacity
        return sum(group.requests(name) / has[name] for name in ("cpu", "memory") if has.get(name))


def by_size(groups: Sequence[PodGroup], shares: Shares) -> list[PodGroup]:
    """Upstream's order: the largest share of the template's CPU and memory first."""
    return sorted(groups, key=lambda group: -shares.size(group))


def by_rank(groups: Sequence[PodGroup]) -> list[PodGroup]:
    """Those that an attempt before this one left out first; else as they are."""
    return sorted(groups, key=lambda group: group.rank)


def by_scarcest(groups: Sequence[PodGroup], shares: Shares) -> list[PodGroup]:
    """The largest share of whatever is scarcest first, attach slots and pods included."""
    return sorted(groups, key=lambda group: -max(shares.of(group), default=0.0))


def by_total(groups: Sequence[PodGroup], shares: Shares) -> list[PodGroup]:
    """The largest sum of shares first, attach slots and pods included."""
    return sorted(groups, key=lambda group: -sum(shares.of(group)))


def choosy_first(groups: Sequence[PodGroup], shares: Shares) -> list[PodGroup]:
    """Pods that keep together or apart before those that go anywhere; then by size."""
    return sorted(by_size(groups, shares), key=lambda group: not group.interacting)


ALL = (by_size, by_scarcest, by_total, choosy_first)

_TRIED_UP_TO = 400
"""Groups; of more the first order is taken."""


def best(
    groups: Sequence[PodGroup], shares: Shares, worth: Callable[[list[PodGroup]], tuple[int, int]]
) -> list[PodGroup]:
    """The order of least worth among all; of those that are no different, only one is asked."""
    if len(groups) > _TRIED_UP_TO:
        return by_rank(by_size(groups, shares))
    tried = {
        tuple(map(id, ordered)): ordered
        for order in ALL
        if (ordered := by_rank(order(groups, shares)))
    }
    different = list(tried.values())
    return different[0] if len(different) == 1 else min(different, key=worth)


ExistingOrder: TypeAlias = Callable[[PodGroup], tuple[int, ...]]
"""By what pods of one priority are sorted that fill the nodes there are."""


def as_they_came(_: PodGroup) -> tuple[int, ...]:
    return ()


def smallest_first(group: PodGroup) -> tuple[int, ...]:
    slots, stored = sum(group.footprint.slots.values()), sum(group.footprint.storage.values())
    return (slots, stored, group.requests("cpu"), group.requests("memory"))


def largest_first(group: PodGroup) -> tuple[int, ...]:
    return tuple(-one for one in smallest_first(group))
