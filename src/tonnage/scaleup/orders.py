"""Orders in which groups of pods are packed. First fit is only as good as its order."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tonnage.groups.model import Template
from tonnage.objects import resources
from tonnage.scaleup.podgroups import PodGroup


def by_size(groups: Sequence[PodGroup], template: Template) -> list[PodGroup]:
    """Upstream's order: the largest share of the template's CPU and memory first."""
    has = resources.allocatable(template.node)
    return sorted(groups, key=lambda group: -_share(group, has, ("cpu", "memory")))


def by_rank(groups: Sequence[PodGroup]) -> list[PodGroup]:
    """Those that an attempt before this one left out first; else as they are."""
    return sorted(groups, key=lambda group: group.rank)


def by_scarcest(groups: Sequence[PodGroup], template: Template) -> list[PodGroup]:
    """The largest share of whatever is scarcest first, attach slots and pods included."""
    return sorted(groups, key=lambda group: -max(_shares(group, template)))


def by_total(groups: Sequence[PodGroup], template: Template) -> list[PodGroup]:
    """The largest sum of shares first, attach slots and pods included."""
    return sorted(groups, key=lambda group: -sum(_shares(group, template)))


def choosy_first(groups: Sequence[PodGroup], template: Template) -> list[PodGroup]:
    """Pods that keep together or apart before those that go anywhere; then by size."""
    return sorted(by_size(groups, template), key=lambda group: not group.interacting)


ALL = (by_size, by_scarcest, by_total, choosy_first)


def _shares(group: PodGroup, template: Template) -> list[float]:
    """What one pod takes of an empty node: of each resource, driver and disk."""
    has = resources.allocatable(template.node)
    shares = [
        amount / has[name]
        for name, amount in group.sample.pod_class.requests.items()
        if amount and has.get(name)
    ]
    shares.append(1 / has["pods"] if has["pods"] else 0.0)
    drivers = template.csinode.spec.drivers if template.csinode is not None else ()
    limits = {driver.name: driver.limit for driver in drivers}
    for driver, slots in group.footprint.slots.items():
        limit = limits.get(driver)
        if limit:
            shares.append(slots / limit)
    disks = {room.storage_class: room.capacity for room in template.storage}
    for name, size in group.footprint.storage.items():
        if disks.get(name):
            shares.append(size / disks[name])
    return shares


def _share(group: PodGroup, has: dict[str, int], names: tuple[str, ...]) -> float:
    return sum(group.requests(name) / has[name] for name in names if has[name])


ExistingOrder: TypeAlias = Callable[[PodGroup], tuple[int, ...]]
"""By what pods of one priority are sorted that fill the nodes there are."""


def as_they_came(_: PodGroup) -> tuple[int, ...]:
    return ()


def smallest_first(group: PodGroup) -> tuple[int, ...]:
    slots, stored = sum(group.footprint.slots.values()), sum(group.footprint.storage.values())
    return (slots, stored, group.requests("cpu"), group.requests("memory"))


def largest_first(group: PodGroup) -> tuple[int, ...]:
    return tuple(-one for one in smallest_first(group))
