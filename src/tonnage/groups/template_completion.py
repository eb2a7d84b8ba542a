"""What a copy of a node or a provider's word leaves out of a template, and others know.

A CSINode read a moment too early lists no driver, a provider may know of none at all: drivers that
the group's other nodes or its provider list win over their absence. Then each driver gets its
limit, and the node the labels its drivers would set. None of this is upstream's.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

import msgspec

from tonnage.groups import drivers, limits, node_sanitiser, topology
from tonnage.groups.drivers import DriverEvidence, UsualDrivers
from tonnage.groups.limit_lessons import Lesson, Lessons
from tonnage.groups.limit_votes import Vote
from tonnage.groups.limits import Learned
from tonnage.groups.memory import RememberedDriver
from tonnage.groups.model import (
    CATALOGUE,
    LEARNED,
    LIVE,
    OVERRIDE,
    PROVIDER,
    REMEMBERED,
    UNKNOWN,
    Group,
    Limit,
    Template,
)
from tonnage.objects import limit_keys
from tonnage.objects.nodes import Node
from tonnage.objects.phrases import listed
from tonnage.objects.scenarios import LimitOverrides
from tonnage.objects.storage import (
    MIGRATED_PLUGINS_ANNOTATION,
    CSINode,
    CSINodeSpec,
    NodeDriver,
)

_SHOWN = 3

RegisteredNodes: TypeAlias = Callable[[], Iterable[limits.Registered]]


class CompletionContext:
    """What the rest of the cluster teaches, worked out when it is first asked for."""

    def __init__(
        self,
        registered: RegisteredNodes,
        wanted: tuple[str, ...],
        *,
        own_keys: Mapping[str, str],
        lessons: Iterable[Lesson] = (),
        usual: UsualDrivers,
    ) -> None:
        self._look = registered
        self.wanted = wanted
        self.own_keys = own_keys
        self.lessons = Lessons(lessons)
        self.usual = usual

    @cached_property
    def learned(self) -> Learned:
        return Learned(self._registered)

    @cached_property
    def migrated_plugins(self) -> str:
        """The in-tree plugins whose migration most nodes announce, as they write it."""
        announced = Counter(
            one.csinode.metadata.annotations.get(MIGRATED_PLUGINS_ANNOTATION, "")
            for one in self._registered
        )
        return announced.most_common(1)[0][0] if announced else ""

    @cached_property
    def _registered(self) -> tuple[limits.Registered, ...]:
        return tuple(self._look())


class _Known(msgspec.Struct, frozen=True):
    """Everything that is known about the drivers of one group's next node."""

    group: Group
    template: Template
    evidence: DriverEvidence
    past: dict[str, RememberedDriver]
    votes: Mapping[str, Vote]
    overrides: Mapping[str, int]
    surroundings: CompletionContext

    @property
    def own(self) -> dict[str, NodeDriver]:
        """Drivers that the group itself is known for, the better witness first."""
        found = drivers.by_name(self.template.csinode)
        for name, driver in (*self.evidence.seen.items(), *self.provided.items()):
            found.setdefault(name, driver)
        for name in self.evidence.expected:
            remembered = self.past.get(name)
            if remembered is not None:
                keys = remembered.topology_keys
                found.setdefault(name, NodeDriver(name=name, topology_keys=keys))
        for name in self.overrides:
            found.setdefault(name, NodeDriver(name=name, topology_keys=topology.KEYS.get(name, ())))
        return found

    @property
    def provided(self) -> dict[str, NodeDriver]:
        provider = self.group.provider_template
        return drivers.by_name(provider.csi_node if provider is not None else None)

    def elsewhere(self, driver: str) -> NodeDriver | None:
        kind = limits.instance_type(self.template.node)
        live = self.surroundings.learned.elsewhere(kind, driver, self.group.id)
        if live is not None and live.limit is not None:
            return live
        return self.surroundings.lessons.limit(kind, driver) or live

    def ceiling(self, driver: str) -> int | None:
        kind = limits.instance_type(self.template.node)
        return self.surroundings.lessons.ceiling(kind, driver)

    def told(self, driver: str, *, is_own: bool) -> Iterator[Limit]:
        """What is told of a limit, in order; the later ones are worked out only if reached.

        Where a machine of this type refused a volume, no number but the operator's goes above it.
        """
        yield from limits.listed_in(self.overrides, driver, OVERRIDE)
        ceiling = self.ceiling(driver)
        for limit in self._reported(driver, is_own=is_own):
            if ceiling is not None and limit.count is not None and limit.count > ceiling:
                yield Limit(driver=driver, count=ceiling, source=LEARNED)
            yield limit

    def _reported(self, driver: str, *, is_own: bool) -> Iterator[Limit]:
        """What nodes, the provider and the catalogue say, and at last where a machine refused.

        Where the group's nodes had time to register a driver and list others instead, it will not
        be on the next one either, whatever is known of the machine.
        """
        absent = self.evidence.conclusive and not is_own
        vote = self.votes.get(driver)
        if vote is not None and not absent:
            slots, votes, voters, _, key = vote
            yield Limit(
                driver=driver, count=slots, source=LIVE, votes=votes, voters=voters, key=key
            )
        if self.template.source == LIVE and self.template.csinode is not None:
            listing = limits.listing(self.template.csinode.spec.drivers)
            yield from limits.listed_in(listing, driver, LIVE)
        seen = dict.fromkeys(self.evidence.seen)
        yield from limits.listed_in(seen, driver, LIVE)
        yield from limits.listed_in(limits.listing(self.provided.values()), driver, PROVIDER)
        if absent:
            return
        if self.group.provider_template is not None:
            yield from self._by_key(self.group.provider_template.node, driver, PROVIDER)
        if driver in self.past:
            yield Limit(driver=driver, count=self.past[driver].count, source=REMEMBERED)
        if self.template.source == REMEMBERED:
            yield from self._by_key(self.template.node, driver, REMEMBERED)
        learned = self.elsewhere(driver)
        if learned is not None:
            yield Limit(driver=driver, count=learned.limit, source=LEARNED)
        number = limits.from_catalogue(driver, self.template.node)
        if number is not None:
            yield Limit(driver=driver, count=number, source=CATALOGUE)
        ceiling = self.ceiling(driver)
        if ceiling is not None:
            yield Limit(driver=driver, count=ceiling, source=LEARNED)

    def _by_key(self, node: Node, driver: str, source: str) -> Iterator[Limit]:
        """What the resources of a node that is described say of a limit."""
        resources = node.status.allocatable or node.status.capacity
        told = limit_keys.published(resources, (driver,), self.surroundings.own_keys).get(driver)
        if told is not None:
            yield Limit(driver=driver, count=told.slots, source=source, key=told.key)


def complete(
    template: Template,
    *,
    group: Group,
    evidence: DriverEvidence,
    past: dict[str, RememberedDriver],
    votes: Mapping[str, Vote],
    overrides: LimitOverrides,
    surroundings: CompletionContext,
) -> tuple[Template, list[str]]:
    """The template with all drivers, limits and labels, and what is not known or odd about it."""
    kind = limits.instance_type(template.node)
    said = {**overrides.of(group.id, kind), **group.limits}
    known = _Known(group, template, evidence, past, votes, said, surroundings)
    own = known.own
    found = [
        limits.resolve(driver, known.told(driver, is_own=driver in own))
        for driver in sorted({*own, *surroundings.wanted})
    ]
    csinode = _csinode(known, own, found)
    labels = topology.derived(
        template.node.metadata.labels,
        csinode.spec.drivers,
        wanted=surroundings.wanted,
        name=template.node.metadata.name,
    )
    named = (key for key, value in labels.items() if value == template.node.metadata.name)
    expected = evidence.expected | drivers.expected_by(template.node)
    completed = msgspec.structs.replace(
        template,
        node=node_sanitiser.with_labels(template.node, labels),
        csinode=csinode,
        limits=tuple(found),
        expected_drivers=tuple(sorted(expected)),
        host_keys=(*template.host_keys, *named),
    )
    return completed, [*_unknown(found, evidence), *_odd(found, known)]


def _csinode(known: _Known, own: dict[str, NodeDriver], found: Iterable[Limit]) -> CSINode:
    """The template's CSINode with every driver that some source lists, each with its limit."""
    name = known.template.node.metadata.name
    entries: dict[str, NodeDriver] = {}
    for limit in found:
        if limit.driver not in own and limit.source == UNKNOWN:
            continue
        entry = own.get(limit.driver) or known.elsewhere(limit.driver)
        if entry is None:
            keys = topology.KEYS.get(limit.driver, ())
            entry = NodeDriver(name=limit.driver, topology_keys=keys)
        if limit.driver not in own or not entry.node_id:
            entry = msgspec.structs.replace(entry, node_id=name)
        entries[limit.driver] = drivers.with_count(entry, limit.count)
    base = known.template.csinode or node_sanitiser.csinode(CSINode(), name)
    annotations = base.metadata.annotations
    if MIGRATED_PLUGINS_ANNOTATION not in annotations and known.surroundings.migrated_plugins:
        plugins = known.surroundings.migrated_plugins
        annotations = {**annotations, MIGRATED_PLUGINS_ANNOTATION: plugins}
    return CSINode(
        metadata=msgspec.structs.replace(base.metadata, annotations=annotations),
        spec=CSINodeSpec(drivers=tuple(entries.values())),
    )


def _unknown(found: Iterable[Limit], evidence: DriverEvidence) -> Iterator[str]:
    for limit in found:
        if limit.source != UNKNOWN:
            continue
        if evidence.conclusive:
            yield f"its nodes do not register driver {limit.driver}, which pending pods want"
        else:
            yield (
                f"nothing tells how many volumes of driver {limit.driver} a new node can attach; "
                "unless the driver is opted in, any number is taken to fit"
            )


def _odd(found: Iterable[Limit], known: _Known) -> Iterator[str]:
    """Where nodes disagree about a driver that pods want, and new nodes are taken for most."""
    for limit in found:
        if limit.votes == limit.voters or limit.driver not in known.surroundings.wanted:
            continue
        odd = known.votes[limit.driver].odd
        shown = listed([f"{node} ({number})" for node, number in sorted(odd.items())], most=_SHOWN)
        yield (
            f"new nodes are taken to have {limit.count} slots of driver {limit.driver}, as"
            f" {limit.votes} of {limit.voters} nodes say; not {shown}"
        )
