"""How much storage of its own a node that does not exist yet will have, class by class.

Drivers publish capacity for nodes that run. For the next node of a group it comes from the first
of these: the provider's template, an object published for template nodes, the group's live nodes,
what those had when there were any. What is declared comes before what live nodes show, because
these tell what they have left, not what they began with.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tonnage.groups.inputs import Inputs
from tonnage.groups.model import (
    LIVE,
    PROVIDER,
    PUBLISHED,
    REMEMBERED,
    TEMPLATE_NODE_LABEL,
    Group,
    StorageRoom,
    Template,
)
from tonnage.groups.templates import Templates
from tonnage.objects import quantities, selectors
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate
from tonnage.objects.storage import CSIStorageCapacity, PersistentVolume, StorageClass
from tonnage.snapshot import storage_ledger
from tonnage.snapshot.open_volumes import affinity_of
from tonnage.snapshot.storage import StorageState
from tonnage.snapshot.storage_ledger import POOL_ANNOTATION, Room


def furnish(built: Templates, inputs: Inputs) -> Templates:
    """The templates with the storage their nodes would have, also those to be remembered."""
    storage = inputs.cluster.snapshot.storage
    classes = storage_ledger.tracked(storage)
    if not classes:
        return built
    published = _Published(storage, classes)
    found = dict(built.by_group)
    remembered = dict(built.memory.groups)
    for group in inputs.groups:
        past = inputs.memory.groups.get(group.id)
        before = past.template.storage if past is not None else ()
        template = found.get(group.id)
        host_keys = (HOSTNAME, *(template.host_keys if template is not None else ()))
        members = [inputs.nodes[name] for name in group.nodes if name in inputs.nodes]
        live = _best(room for node in members for room in published.of_node(node, host_keys))
        if template is not None:
            sources = _sources(group, template, published, live, before)
            rooms = tuple(room for room in sources if room.storage_class in classes)
            found[group.id] = msgspec.structs.replace(template, storage=_first_of_each(rooms))
        kept = remembered.get(group.id)
        if kept is not None:
            seen = _first_of_each((*_from(live, REMEMBERED), *before))
            remembered[group.id] = msgspec.structs.replace(
                kept, template=msgspec.structs.replace(kept.template, storage=seen)
            )
    return msgspec.structs.replace(
        built,
        by_group=found,
        memory=msgspec.structs.replace(built.memory, groups=remembered),
    )


def _sources(
    group: Group,
    template: Template,
    published: "_Published",
    live: Iterable[Room],
    before: Iterable[StorageRoom],
) -> Iterator[StorageRoom]:
    yield from _from(_declared(group.provider_template), PROVIDER)
    yield from _from(published.for_template(template.node), PUBLISHED)
    yield from _from(live, LIVE)
    yield from before


def _declared(template: GroupTemplate | None) -> Iterator[Room]:
    for one in template.storage_capacity if template is not None else ():
        capacity = quantities.value(one.capacity)
        size = one.maximum_volume_size
        yield Room(
            one.storage_class_name, capacity, capacity if size is None else quantities.value(size)
        )


def _from(rooms: Iterable[Room], source: str) -> Iterator[StorageRoom]:
    for name, capacity, largest in rooms:
        yield StorageRoom(storage_class=name, capacity=capacity, largest=largest, source=source)


def _first_of_each(rooms: Iterable[StorageRoom]) -> tuple[StorageRoom, ...]:
    found: dict[str, StorageRoom] = {}
    for room in rooms:
        found.setdefault(room.storage_class, room)
    return tuple(found[name] for name in sorted(found))


def _best(rooms: Iterable[Room]) -> list[Room]:
    """For each class the most that any node has: what others lack, something else has taken."""
    found: dict[str, Room] = {}
    for room in rooms:
        other = found.get(room.storage_class, room)
        found[room.storage_class] = Room(
            room.storage_class,
            max(room.capacity, other.capacity),
            max(room.largest, other.largest),
        )
    return list(found.values())


def _together(rooms: Iterable[Room]) -> list[Room]:
    """Several of one class on one node are several disks."""
    found: dict[str, Room] = {}
    for room in rooms:
        other = found.get(room.storage_class, Room(room.storage_class, 0, 0))
        found[room.storage_class] = Room(
            room.storage_class,
            room.capacity + other.capacity,
            max(room.largest, other.largest),
        )
    return list(found.values())


class _Published:
    """Capacity objects of the classes, found by a label and value of the nodes they speak of.

    Those for template nodes that no value leads to, say because they only exclude some, are looked
    at one by one.
    """

    def __init__(self, storage: StorageState, classes: Mapping[str, StorageClass]) -> None:
        self._classes = classes
        self._by_label: dict[tuple[str, str], list[CSIStorageCapacity]] = defaultdict(list)
        self._of_templates: dict[tuple[str, str], list[CSIStorageCapacity]] = defaultdict(list)
        self._of_any_template: list[CSIStorageCapacity] = []
        for name in classes:
            for capacity in storage.capacities_of(name):
                self._keep(capacity)
        self._volumes: dict[tuple[str, str, str], int] = defaultdict(int)
        if self._by_label:
            for volume in storage.volumes.values():
                if volume.class_name in classes:
                    self._keep_volume(volume)

    def for_template(self, node: Node) -> list[Room]:
        """What is published for template nodes like this one, each class from the best object."""
        labels = node.metadata.labels
        led_to = (
            template for label in labels.items() for template in self._of_templates.get(label, ())
        )
        return _best(_rooms(_matching((*led_to, *self._of_any_template), node)))

    def of_node(self, node: Node, host_keys: Sequence[str]) -> Iterator[Room]:
        """What a node that runs had when it was empty, by objects that speak of it alone."""
        here = {key: node.metadata.labels[key] for key in host_keys if key in node.metadata.labels}
        led_to = (one for label in here.items() for one in self._by_label.get(label, ()))
        left = _together(_rooms(_matching(led_to, node)))
        for room in left:
            sharing = [other for other in left if self._share(room, other)]
            taken = max(
                sum(self._volumes.get((one.storage_class, *label), 0) for one in sharing)
                for label in here.items()
            )
            whole = room.largest >= room.capacity
            largest = room.capacity + taken if whole else room.largest
            yield Room(room.storage_class, room.capacity + taken, largest)

    def _share(self, one: Room, other: Room) -> bool:
        """As in the ledger: classes of a driver share a pool by name, or if they have the same."""
        first, second = self._classes[one.storage_class], self._classes[other.storage_class]
        if first.provisioner != second.provisioner:
            return False
        named = [each.metadata.annotations.get(POOL_ANNOTATION) for each in (first, second)]
        return named[0] == named[1] if any(named) else one.capacity == other.capacity

    def _keep(self, capacity: CSIStorageCapacity) -> None:
        topology = capacity.node_topology
        if topology is None or not selectors.is_valid(topology):
            return
        accepted = selectors.accepted_values(topology)
        if not selectors.requires(topology, TEMPLATE_NODE_LABEL):
            for key, values in accepted.items():
                if len(values) == 1:
                    self._by_label[key, next(iter(values))].append(capacity)
            return
        accepted.pop(TEMPLATE_NODE_LABEL, None)
        if not accepted:
            self._of_any_template.append(capacity)
            return
        key, values = next(iter(accepted.items()))
        for value in values:
            self._of_templates[key, value].append(capacity)

    def _keep_volume(self, volume: PersistentVolume) -> None:
        affinity = affinity_of(volume)
        if affinity is None or len(affinity.node_selector_terms) != 1:
            return
        size = quantities.value(volume.spec.capacity.get("storage", 0))
        for expression in affinity.node_selector_terms[0].match_expressions:
            if expression.operator == "In" and len(expression.values) == 1:
                self._volumes[volume.class_name, expression.key, expression.values[0]] += size


def _matching(capacities: Iterable[CSIStorageCapacity], node: Node) -> Iterator[CSIStorageCapacity]:
    for capacity in {id(one): one for one in capacities}.values():
        if selectors.matches(capacity.node_topology, node.metadata.labels):
            yield capacity


def _rooms(capacities: Iterable[CSIStorageCapacity]) -> Iterator[Room]:
    rooms = (storage_ledger.room_of(capacity) for capacity in capacities)
    return (room for room in rooms if room is not None)
