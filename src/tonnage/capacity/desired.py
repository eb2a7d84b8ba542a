"""What should be published, from everything that is known, and what stands in the way."""

from collections.abc import Container, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from tonnage.capacity import conventions, node_kinds, observed_sizes, wishes
from tonnage.capacity.conventions import OURS, Convention, Pair
from tonnage.capacity.node_kinds import Grouping, GroupKey, NodeKind
from tonnage.capacity.observed_sizes import LEARNED_ANNOTATION, LabelIndex
from tonnage.capacity.wishes import Size, Wish, Wishes
from tonnage.errors import InputError
from tonnage.groups.model import TEMPLATE_NODE_LABEL, Group
from tonnage.objects import quantities
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.objects.meta import ObjectMeta, Record
from tonnage.objects.nodes import Node
from tonnage.objects.phrases import listed
from tonnage.objects.storage import CSIDriver, CSIStorageCapacity, StorageClass


class Rules(Record, frozen=True, kw_only=True):
    """What the operator has settled: where objects are, what makes groups, whose names are used."""

    namespace: str
    groupings: tuple[Grouping, ...] = ((INSTANCE_TYPE,),)
    convention: Convention = OURS


class CapacityInputs(Record, frozen=True, kw_only=True):
    """What is known of the cluster. `capacities` are those of all namespaces."""

    classes: tuple[StorageClass, ...] = ()
    nodes: tuple[Node, ...] = ()
    node_groups: tuple[Group, ...] = ()
    drivers: tuple[CSIDriver, ...] = ()
    capacities: tuple[CSIStorageCapacity, ...] = ()


class ProblemReason(StrEnum):
    """What may be wrong; also the reasons of events."""

    INVALID = "CapacityTemplateInvalid"
    UNKNOWN = "CapacityTemplateSizeUnknown"
    CONFLICT = "CapacityTemplateConflict"
    IGNORED = "CapacityTemplateIgnored"
    NODE_GROUP = "NodeGroupWithoutLabel"
    REAL_NODE = "TemplateLabelOnRealNode"


class CapacityProblem(Record, frozen=True, kw_only=True):
    """Something an operator should know; `about` is a StorageClass, a Node, or nothing of these."""

    reason: ProblemReason
    message: str
    about: StorageClass | Node | None = None


class SizeSource(StrEnum):
    """Where a size comes from."""

    ANNOTATION = "annotation"
    LIVE = "live"
    TEMPLATE = "template"
    REMEMBERED = "remembered"


class Sized(NamedTuple):
    """A size, and what of it was learned: that is noted, whatever else is said about the size."""

    size: Size
    source: SizeSource
    learned: Size | None = None


class DesiredCapacity(NamedTuple):
    """One object that should be there."""

    object: CSIStorageCapacity
    pair: Pair
    source: SizeSource


class Desired(NamedTuple):
    """Entries by name. Objects of a class in `kept` stay as they are: what it asks is unclear."""

    entries: dict[str, DesiredCapacity]
    kept: frozenset[str]
    problems: tuple[CapacityProblem, ...]


def desired(world: CapacityInputs, rules: Rules) -> Desired:
    """What there should be. Nothing that is wrong with one class or group touches another."""
    problems: list[CapacityProblem] = []
    asking, kept = _asking(world.classes, rules.convention, problems)
    kinds, unreached = node_kinds.kinds_of(world.nodes, world.node_groups, rules.groupings)
    if asking:
        problems.extend(_unreached(unreached, rules))
        problems.extend(_ignored(asking, world.drivers))
        problems.extend(_marked(world.nodes))
    theirs = [
        obj
        for obj in world.capacities
        if obj.storage_class_name in asking and not is_ours(obj, rules)
    ]
    sizing = _Sizing(world, rules, theirs=theirs)
    found: dict[Pair, Sized] = {}
    for name, (storage_class, asked) in asking.items():
        unknown = []
        for group, kind in kinds.items():
            wish = asked.of(group)
            if wish is None:
                continue
            sized = sizing.of((name, group), wish, kind)
            if sized is not None:
                found[name, group] = sized
            else:
                unknown.append(node_kinds.shown(group))
        if unknown:
            problems.append(_unknown(storage_class, unknown))
    names = rules.convention.names(found)
    problems.extend(_conflicts(theirs, kinds, found, {n: c for n, (c, _) in asking.items()}))
    entries = {
        names[pair]: DesiredCapacity(
            _object(names[pair], pair, sized, rules=rules), pair, sized.source
        )
        for pair, sized in found.items()
    }
    return Desired(entries, kept, tuple(problems))


def is_ours(obj: CSIStorageCapacity, rules: Rules) -> bool:
    return obj.metadata.namespace == rules.namespace and rules.convention.owns(obj)


def opted_in(storage_class: StorageClass, convention: Convention) -> bool:
    """Whether a class asks for objects, be it wrongly."""
    wanted = convention.provisioner
    return convention.annotation in storage_class.metadata.annotations and (
        not wanted or storage_class.provisioner == wanted
    )


def _asking(
    classes: Iterable[StorageClass], convention: Convention, problems: list[CapacityProblem]
) -> tuple[dict[str, tuple[StorageClass, Wishes]], frozenset[str]]:
    asking: dict[str, tuple[StorageClass, Wishes]] = {}
    kept = set()
    for storage_class in sorted(classes, key=lambda one: one.metadata.name):
        if not opted_in(storage_class, convention):
            continue
        name = storage_class.metadata.name
        try:
            asking[name] = (
                storage_class,
                wishes.parse(storage_class.metadata.annotations[convention.annotation]),
            )
        except InputError as error:
            kept.add(name)
            message = f"annotation {convention.annotation}: {error}; its objects stay as they are"
            problems.append(
                CapacityProblem(reason=ProblemReason.INVALID, about=storage_class, message=message)
            )
    return asking, frozenset(kept)


class _Sizing:
    """Sizes of pairs: what is asked for, declared, seen now or earlier, or offered."""

    def __init__(
        self, world: CapacityInputs, rules: Rules, *, theirs: Sequence[CSIStorageCapacity]
    ) -> None:
        self._seen = observed_sizes.sizes_of_nodes(theirs, world.nodes)
        self._remembered: dict[Pair, Size] = {}
        for obj in world.capacities:
            pair = conventions.pair_of(obj)
            size = observed_sizes.remembered(obj)
            if pair is not None and size is not None and is_ours(obj, rules):
                self._remembered[pair] = size

    def of(self, pair: Pair, wish: Wish, kind: NodeKind) -> Sized | None:
        if wish.size is not None:
            return Sized(wish.size, SizeSource.ANNOTATION)
        found = None
        if wish.learned:
            found = _declared(kind, pair[0]) or self._learned(pair, kind)
        if found is None and wish.resource:
            found = _offered(kind, wish.resource)
        if found is None or wish.maximum_volume_size is None:
            return found
        size = Size(capacity=found.size.capacity, maximum_volume_size=wish.maximum_volume_size)
        return found._replace(size=size)

    def _learned(self, pair: Pair, kind: NodeKind) -> Sized | None:
        """The most that was ever seen free, as volumes only take from what a new node has."""
        sizes = self._seen.get(pair[0], {})
        live: Size | None = None
        for node in kind.nodes:
            if node in sizes:
                live = observed_sizes.larger(live, sizes[node])
        memory = self._remembered.get(pair)
        if live is None:
            return Sized(memory, SizeSource.REMEMBERED, memory) if memory is not None else None
        most = observed_sizes.larger(memory, live)
        return Sized(most, SizeSource.LIVE, most)


def _declared(kind: NodeKind, class_name: str) -> Sized | None:
    """What templates say of the class itself; live nodes only show what they have left."""
    sizes = [
        Size(capacity=one.capacity, maximum_volume_size=one.maximum_volume_size)
        for template in kind.templates
        for one in template.storage_capacity
        if one.storage_class_name == class_name
    ]
    return _least(sizes)


def _offered(kind: NodeKind, resource: str) -> Sized | None:
    sizes = []
    for template in kind.templates:
        status = template.node.status
        offered = {**status.capacity, **status.allocatable}
        if resource not in offered:
            return None
        sizes.append(Size(capacity=offered[resource]))
    return _least(sizes)


def _least(sizes: Sequence[Size]) -> Sized | None:
    """Where templates of a group differ: what every new node has."""
    if not sizes or not all(observed_sizes.readable(size.capacity) for size in sizes):
        return None
    return Sized(min(sizes, key=lambda size: quantities.exact(size.capacity)), SizeSource.TEMPLATE)


def _object(name: str, pair: Pair, sized: Sized, *, rules: Rules) -> CSIStorageCapacity:
    size, learned = sized.size, sized.learned
    noted = {LEARNED_ANNOTATION: observed_sizes.noted(learned)} if learned is not None else {}
    return CSIStorageCapacity(
        metadata=ObjectMeta(
            name=name,
            namespace=rules.namespace,
            labels=rules.convention.labels(pair),
            annotations=noted,
        ),
        storage_class_name=pair[0],
        node_topology=conventions.selector(pair[1]),
        capacity=size.capacity,
        maximum_volume_size=size.maximum_volume_size,
    )


def _unreached(node_groups: Sequence[str], rules: Rules) -> Iterable[CapacityProblem]:
    if node_groups:
        keys = " or ".join("+".join(grouping) for grouping in rules.groupings)
        message = (
            f"no nodes, and no template with label {keys}: nothing is published for node groups"
            f" {listed(node_groups)}"
        )
        yield CapacityProblem(reason=ProblemReason.NODE_GROUP, message=message)


def _ignored(
    asking: dict[str, tuple[StorageClass, Wishes]], drivers: Iterable[CSIDriver]
) -> Iterable[CapacityProblem]:
    looked_at = {driver.metadata.name for driver in drivers if driver.spec.storage_capacity}
    for storage_class, _ in asking.values():
        if storage_class.provisioner not in looked_at:
            yield CapacityProblem(
                reason=ProblemReason.IGNORED,
                about=storage_class,
                message=f"CSIDriver {storage_class.provisioner} is missing or its"
                " spec.storageCapacity is not true: no scheduler looks at capacity objects",
            )


def _marked(nodes: Iterable[Node]) -> Iterable[CapacityProblem]:
    for node in nodes:
        if node.metadata.labels.get(TEMPLATE_NODE_LABEL) == "true":
            message = (
                f"label {TEMPLATE_NODE_LABEL} belongs on imagined nodes only: this real one is"
                " taken to have the space of a new one"
            )
            yield CapacityProblem(reason=ProblemReason.REAL_NODE, about=node, message=message)


def _unknown(storage_class: StorageClass, groups: Sequence[str]) -> CapacityProblem:
    message = (
        f"no size is known for groups {listed(groups)}: no live node was seen with capacity of"
        " its own, and no template offers what is asked for"
    )
    return CapacityProblem(reason=ProblemReason.UNKNOWN, about=storage_class, message=message)


def _conflicts(
    theirs: Iterable[CSIStorageCapacity],
    kinds: dict[GroupKey, NodeKind],
    wanted: Container[Pair],
    classes: dict[str, StorageClass],
) -> Iterable[CapacityProblem]:
    """Objects of others that match the same imagined nodes: whichever is larger counts."""
    by_name = {node_kinds.full_name(group): group for group in kinds}
    index = LabelIndex({name: kinds[group].sample for name, group in by_name.items()})
    for obj in theirs:
        name = obj.storage_class_name
        matched = [
            node_kinds.shown(by_name[each])
            for each in index.matching(obj.node_topology)
            if (name, by_name[each]) in wanted
        ]
        if matched:
            meta = obj.metadata
            message = (
                f"CSIStorageCapacity {meta.key} is published by somebody else and"
                f" matches imagined nodes too: groups {listed(matched)}"
            )
            yield CapacityProblem(
                reason=ProblemReason.CONFLICT, about=classes[name], message=message
            )
