"""What is wrong with capacity objects in a cluster, whoever publishes them: for inspections.

All are plain questions about objects at hand; none needs the controller to run.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from tonnage.capacity import conventions, desired, node_kinds, observed_sizes, wishes
from tonnage.capacity.desired import CapacityInputs
from tonnage.capacity.node_kinds import Grouping
from tonnage.capacity.observed_sizes import LabelIndex
from tonnage.errors import InputError
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects import quantities, selectors
from tonnage.objects.meta import Quantity, Record
from tonnage.objects.storage import CSIStorageCapacity

MUCH = Fraction(1, 10)
"""A size that is off by more than this part of it differs much."""


class Uncovered(Record, frozen=True, kw_only=True):
    """A class with capacity of single nodes, and groups whose imagined nodes have none."""

    storage_class: str
    provisioner: str
    groups: tuple[str, ...]


class Differing(Record, frozen=True, kw_only=True):
    """An object for imagined nodes, and the most that a live node of the same kind has free."""

    object: CSIStorageCapacity
    published: Quantity
    live: Quantity
    node: str


class Unpublished(Record, frozen=True, kw_only=True):
    """A class that asks for objects for imagined nodes, and has none.

    `problem` is what is wrong with its annotation.
    """

    storage_class: str
    annotation: str
    problem: str = ""


def unmatched(world: CapacityInputs) -> list[CSIStorageCapacity]:
    """Objects for imagined nodes that match no group's: no node nor template has the labels."""
    index = LabelIndex(_samples(world))
    return [obj for obj in _of_templates(world.capacities) if not index.matching(obj.node_topology)]


def uncovered(world: CapacityInputs, groupings: Sequence[Grouping]) -> list[Uncovered]:
    """Classes with per-node capacity that an autoscaler cannot scale up for, and the groups."""
    looked_at = {driver.metadata.name for driver in world.drivers if driver.spec.storage_capacity}
    per_node = observed_sizes.sizes_of_nodes(world.capacities, world.nodes)
    kinds, _ = node_kinds.kinds_of(world.nodes, world.node_groups, groupings)
    index = LabelIndex({node_kinds.full_name(group): kind.sample for group, kind in kinds.items()})
    found = []
    for storage_class in world.classes:
        name = storage_class.metadata.name
        if storage_class.provisioner not in looked_at or name not in per_node:
            continue
        covered = {
            group
            for obj in world.capacities
            if obj.storage_class_name == name
            for group in index.matching(obj.node_topology)
        }
        # Only where nodes have such disks would new ones have them.
        groups = tuple(
            node_kinds.shown(group)
            for group, kind in kinds.items()
            if node_kinds.full_name(group) not in covered
            and any(node in per_node[name] for node in kind.nodes)
        )
        if groups:
            found.append(
                Uncovered(storage_class=name, provisioner=storage_class.provisioner, groups=groups)
            )
    return found


def unpublished(world: CapacityInputs) -> list[Unpublished]:
    """Classes with an annotation for nothing, by whichever convention they ask."""
    served = {template.storage_class_name for template in _of_templates(world.capacities)}
    found = []
    for storage_class in world.classes:
        for convention in conventions.BY_NAME.values():
            name, annotation = storage_class.metadata.name, convention.annotation
            if name in served or not desired.opted_in(storage_class, convention):
                continue
            problem = ""
            try:
                asked = wishes.parse(storage_class.metadata.annotations[annotation])
            except InputError as error:
                problem = str(error)
            else:
                if not any(asked.by_group.values()):
                    continue
            found.append(Unpublished(storage_class=name, annotation=annotation, problem=problem))
    return found


def differing(world: CapacityInputs) -> list[Differing]:
    """Template objects whose size is far from the most that a live node they stand for has.

    Nodes in use show less than a new one has: where all of a group are, the published size may
    well be right.
    """
    per_node = observed_sizes.sizes_of_nodes(
        (capacity for capacity in world.capacities if not _is_of_templates(capacity)), world.nodes
    )
    labelled = {
        node.metadata.name: {**node.metadata.labels, TEMPLATE_NODE_LABEL: "true"}
        for node in world.nodes
    }
    index = LabelIndex(labelled)
    found = []
    for obj in _of_templates(world.capacities):
        published = observed_sizes.size_of(obj)
        sizes = per_node.get(obj.storage_class_name, {})
        nodes = [name for name in index.matching(obj.node_topology) if name in sizes]
        if published is None or not nodes:
            continue
        best = max(nodes, key=lambda name: quantities.exact(sizes[name].capacity))
        live = sizes[best].capacity
        gap = abs(quantities.exact(published.capacity) - quantities.exact(live))
        if gap > MUCH * max(quantities.exact(published.capacity), quantities.exact(live)):
            found.append(Differing(object=obj, published=published.capacity, live=live, node=best))
    return found


def _of_templates(capacities: Iterable[CSIStorageCapacity]) -> list[CSIStorageCapacity]:
    return [capacity for capacity in capacities if _is_of_templates(capacity)]


def _is_of_templates(obj: CSIStorageCapacity) -> bool:
    return selectors.requires(obj.node_topology, TEMPLATE_NODE_LABEL)


def _samples(world: CapacityInputs) -> dict[str, dict[str, str]]:
    """Labels of imagined nodes, after every node and every template there is."""
    found = {
        f"node {node.metadata.name}": node_kinds.imagined(
            node.metadata.labels, name=node.metadata.name
        )
        for node in world.nodes
    }
    for group in world.node_groups:
        template = group.provider_template
        if template is not None:
            meta = template.node.metadata
            found[f"group {group.id}"] = node_kinds.imagined(meta.labels, name=meta.name)
    return found
