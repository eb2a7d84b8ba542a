"""What machines of an instance type have taught: the limits they showed, and where they refused.

A limit is what most ready nodes of a type say of a driver. A ceiling is the number of volumes that
one of them held when it refused the next: the machine's own word, and better than any number that
was published. Lessons outlive the nodes they come from, until they are too old or forgotten.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

import msgspec

from tonnage.groups import limits, node_state
from tonnage.groups.policy import GroupPolicy
from tonnage.objects import attach_errors, timestamps
from tonnage.objects.meta import Record
from tonnage.objects.nodes import Node
from tonnage.objects.storage import (
    CSINode,
    NodeDriver,
    NodeDriverAllocatable,
    VolumeAttachment,
)

LIMIT = "limit"
CEILING = "ceiling"

_TypeAndDriver: TypeAlias = tuple[str, str]
_Found: TypeAlias = dict[_TypeAndDriver, "Lesson"]


class Lesson(Record, frozen=True, kw_only=True):
    """A number of volumes of a driver on an instance type: a limit or a ceiling.

    `node` is where it was seen, `seen` when it was seen last, in seconds since 1970.
    """

    instance_type: str
    driver: str
    kind: str
    count: int
    node: str
    seen: float
    topology_keys: tuple[str, ...] = ()


def renewed(
    before: Iterable[Lesson],
    *,
    nodes: Iterable[Node],
    csinodes: Iterable[CSINode],
    attachments: Collection[VolumeAttachment],
    policy: GroupPolicy,
    now: float,
    max_age: float,
) -> tuple[Lesson, ...]:
    """The lessons after another look at the cluster, without those older than `max_age` seconds.

    A refusal is looked at once, by the time of its error: volumes that are detached while it
    stands do not lower the ceiling. A ceiling is dropped when a node of the type holds more.
    """
    young = [one for one in before if now - one.seen <= max_age]
    by_name = {node.metadata.name: node for node in nodes}
    seen = _limits(by_name, csinodes, policy, now)
    found = {(one.instance_type, one.driver): one for one in young if one.kind == LIMIT} | seen
    ceilings = {(one.instance_type, one.driver): one for one in young if one.kind == CEILING}
    refused = [attachment for attachment in attachments if attach_errors.without_room(attachment)]
    if refused or ceilings:
        ceilings = _ceilings(ceilings, refused, by_name, attachments, now)
    return tuple(
        sorted(
            (*found.values(), *ceilings.values()),
            key=lambda one: (one.instance_type, one.driver, one.kind),
        )
    )


def say_the_same(one: Iterable[Lesson], other: Iterable[Lesson]) -> bool:
    """Whether lessons differ at most in when they were last seen."""

    def said(lessons: Iterable[Lesson]) -> list[Lesson]:
        return [msgspec.structs.replace(lesson, seen=0.0) for lesson in lessons]

    return said(one) == said(other)


def forgotten(
    lessons: Iterable[Lesson], *, instance_type: str = "", driver: str = ""
) -> tuple[Lesson, ...]:
    """What is left without those of a type, of a driver, or of a driver on a type."""
    return tuple(
        lesson
        for lesson in lessons
        if (instance_type and lesson.instance_type != instance_type)
        or (driver and lesson.driver != driver)
    )


class Lessons:
    """Lessons by instance type and driver."""

    def __init__(self, lessons: Iterable[Lesson] = ()) -> None:
        self._by_kind: dict[str, _Found] = defaultdict(dict)
        for lesson in lessons:
            self._by_kind[lesson.kind][lesson.instance_type, lesson.driver] = lesson

    def limit(self, instance_type: str, driver: str) -> NodeDriver | None:
        """The driver as past nodes of the type had it."""
        found = self._by_kind[LIMIT].get((instance_type, driver))
        if found is None:
            return None
        return NodeDriver(
            name=driver,
            topology_keys=found.topology_keys,
            allocatable=NodeDriverAllocatable(count=found.count),
        )

    def ceiling(self, instance_type: str, driver: str) -> int | None:
        """How many volumes a machine of the type took before it refused one."""
        found = self._by_kind[CEILING].get((instance_type, driver))
        return found.count if found is not None else None


def _limits(
    nodes: Mapping[str, Node], csinodes: Iterable[CSINode], policy: GroupPolicy, now: float
) -> _Found:
    shown: dict[_TypeAndDriver, list[tuple[int, str, NodeDriver]]] = defaultdict(list)
    for csinode in csinodes:
        name = csinode.metadata.name
        node = nodes.get(name)
        kind = limits.instance_type(node) if node is not None else ""
        if node is None or not kind or not node_state.of(node, policy).ready:
            continue
        for driver in csinode.spec.drivers:
            count = driver.limit
            # None of a machine is a fault of the driver more often than a fact.
            if count:
                shown[kind, driver.name].append((count, name, driver))
    found: _Found = {}
    for (kind, driver_name), showing in shown.items():
        typical = limits.typical(count for count, _, _ in showing)
        count, name, driver = next(one for one in showing if one[0] == typical)
        found[kind, driver_name] = Lesson(
            instance_type=kind,
            driver=driver_name,
            kind=LIMIT,
            count=count,
            node=name,
            seen=now,
            topology_keys=driver.topology_keys,
        )
    return found


def _ceilings(
    known: _Found,
    refused: Iterable[VolumeAttachment],
    nodes: Mapping[str, Node],
    attachments: Iterable[VolumeAttachment],
    now: float,
) -> _Found:
    held = Counter(
        (attachment.spec.node_name, attachment.spec.attacher)
        for attachment in attachments
        if attachment.status.attached
    )
    most: dict[_TypeAndDriver, int] = defaultdict(int)
    for (name, driver), count in held.items():
        if name in nodes:
            pair = limits.instance_type(nodes[name]), driver
            most[pair] = max(most[pair], count)
    standing = {pair: one for pair, one in known.items() if one.count >= most[pair]}
    found: _Found = {}
    for one in refused:
        name, driver = one.spec.node_name, one.spec.attacher
        kind = limits.instance_type(nodes[name]) if name in nodes else ""
        count, at = held[name, driver], _moment(one, now)
        before = standing.get((kind, driver))
        # Refusing the first volume is no matter of slots.
        if not kind or not count or count < most[kind, driver]:
            continue
        if before is not None and at <= before.seen:
            continue
        lowest = found.get((kind, driver))
        if lowest is None or count < lowest.count:
            found[kind, driver] = Lesson(
                instance_type=kind, driver=driver, kind=CEILING, count=count, node=name, seen=at
            )
    return standing | found


def _moment(refused: VolumeAttachment, now: float) -> float:
    error = refused.status.attach_error
    told = timestamps.moment(error.time) if error else None
    return now if told is None else min(told, now)
