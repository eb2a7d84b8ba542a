"""Storage capacity of nodes that do not exist yet, whoever publishes it."""

from collections.abc import Iterator
from fractions import Fraction

from tonnage.capacity import conventions, desired, node_kinds, observed_sizes, wishes
from tonnage.capacity.observed_sizes import LabelIndex
from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import Finding
from tonnage.errors import InputError
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects import quantities, selectors
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.objects.phrases import listed
from tonnage.objects.storage import CSIDriver, CSIStorageCapacity, PersistentVolume, StorageClass

MUCH = Fraction(1, 10)
"""A size that is off by more than this part of it differs much."""


def without_templates(evidence: Evidence) -> Iterator[Finding]:
    """Of no concern where only our own autoscaler runs: it learns from live nodes."""
    others = [
        program
        for program in evidence.programs
        if program.does == "autoscaler" and not program.ours
    ]
    if not others and not evidence.inputs.groups:
        return
    for storage_class, groups in _uncovered(evidence):
        yield Finding(
            code="TON701",
            severity="error" if others else "info",
            object=f"StorageClass {storage_class.metadata.name}",
            message=f"{storage_class.provisioner} publishes what nodes have left, and nothing for"
            f" new nodes of {listed(groups)}",
            facts={"groups": groups},
        )


def matching_nothing(evidence: Evidence) -> Iterator[Finding]:
    """Objects for imagined nodes that match no group's: no node nor template has the labels."""
    index = LabelIndex(_samples(evidence))
    for obj in _of_templates(evidence):
        if not index.matching(obj.node_topology):
            yield Finding(
                code="TON702",
                severity="warning",
                object=_named(obj),
                message="meant for new nodes, and matches those of no group",
            )


def far_off(evidence: Evidence) -> Iterator[Finding]:
    """Objects for imagined nodes whose size is far from the most that a live node has.

    Nodes in use show less than a new one has: where all of a group are, the published size may
    well be right.
    """
    nodes = evidence.inputs.nodes.values()
    of_nodes = (one for one in evidence.of(CSIStorageCapacity) if not _is_of_templates(one))
    per_node = observed_sizes.sizes_of_nodes(of_nodes, nodes)
    labelled = {
        node.metadata.name: {**node.metadata.labels, TEMPLATE_NODE_LABEL: "true"} for node in nodes
    }
    index = LabelIndex(labelled)
    for obj in _of_templates(evidence):
        told = observed_sizes.size_of(obj)
        sizes = per_node.get(obj.storage_class_name, {})
        there = [name for name in index.matching(obj.node_topology) if name in sizes]
        if told is None or not there:
            continue
        node = max(there, key=lambda name: quantities.exact(sizes[name].capacity))
        published, live = quantities.exact(told.capacity), quantities.exact(sizes[node].capacity)
        if abs(published - live) <= MUCH * max(published, live):
            continue
        if live < published and _in_use(evidence, node, obj.storage_class_name):
            # What is missing is what volumes have taken: a new disk has it.
            continue
        facts = {"published": told.capacity, "live": sizes[node].capacity, "node": node}
        yield Finding(
            code="TON703",
            severity="warning",
            object=_named(obj),
            message="says {published} for a new node; {node} has {live} free".format_map(facts),
            facts=facts,
        )


def not_published(evidence: Evidence) -> Iterator[Finding]:
    """Classes with an annotation for nothing, by whichever convention they ask."""
    served = {template.storage_class_name for template in _of_templates(evidence)}
    for storage_class in evidence.of(StorageClass):
        for convention in conventions.BY_NAME.values():
            name, annotation = storage_class.metadata.name, convention.annotation
            if name in served or not desired.opted_in(storage_class, convention):
                continue
            problem = ""
            try:
                asked = wishes.parse(storage_class.metadata.annotations[annotation])
            except InputError as error:
                problem = f": {error}"
            else:
                if not any(asked.by_group.values()):
                    continue
            yield Finding(
                code="TON704",
                severity="warning",
                object=f"StorageClass {name}",
                message=f"annotated with {annotation}, and nothing is published for new nodes"
                f"{problem}",
                facts={"annotation": annotation},
            )


def label_on_real_nodes(evidence: Evidence) -> Iterator[Finding]:
    for name, node in evidence.inputs.nodes.items():
        if TEMPLATE_NODE_LABEL in node.metadata.labels:
            yield Finding(
                code="TON705",
                severity="error",
                object=f"Node {name}",
                message=f"it has the label {TEMPLATE_NODE_LABEL}, and is a real node",
            )


def _uncovered(evidence: Evidence) -> Iterator[tuple[StorageClass, list[str]]]:
    """Classes with per-node capacity that an autoscaler cannot scale up for, and the groups."""
    capacities, nodes = evidence.of(CSIStorageCapacity), evidence.inputs.nodes.values()
    looked_at = {one.metadata.name for one in evidence.of(CSIDriver) if one.spec.storage_capacity}
    per_node = observed_sizes.sizes_of_nodes(capacities, nodes)
    kinds, _ = node_kinds.kinds_of(nodes, evidence.inputs.groups, ((INSTANCE_TYPE,),))
    index = LabelIndex({node_kinds.full_name(group): kind.sample for group, kind in kinds.items()})
    for storage_class in evidence.of(StorageClass):
        name = storage_class.metadata.name
        if storage_class.provisioner not in looked_at or name not in per_node:
            continue
        covered = {
            group
            for obj in capacities
            if obj.storage_class_name == name
            for group in index.matching(obj.node_topology)
        }
        # Only where nodes have such disks would new ones have them.
        groups = [
            node_kinds.shown(group)
            for group, kind in kinds.items()
            if node_kinds.full_name(group) not in covered
            and any(node in per_node[name] for node in kind.nodes)
        ]
        if groups:
            yield storage_class, groups


def _samples(evidence: Evidence) -> dict[str, dict[str, str]]:
    """Labels of imagined nodes, after every node and every template there is."""
    found = {
        f"node {name}": node_kinds.imagined(node.metadata.labels, name=name)
        for name, node in evidence.inputs.nodes.items()
    }
    for group in evidence.inputs.groups:
        template = group.provider_template
        if template is not None:
            meta = template.node.metadata
            found[f"group {group.id}"] = node_kinds.imagined(meta.labels, name=meta.name)
    return found


def _of_templates(evidence: Evidence) -> list[CSIStorageCapacity]:
    return [one for one in evidence.of(CSIStorageCapacity) if _is_of_templates(one)]


def _is_of_templates(obj: CSIStorageCapacity) -> bool:
    return selectors.requires(obj.node_topology, TEMPLATE_NODE_LABEL)


def _in_use(evidence: Evidence, node: str, storage_class: str) -> bool:
    """Whether a volume of the class lies on the node."""
    labels = evidence.inputs.nodes[node].metadata.labels
    return any(
        selectors.node_matches(affinity.required, labels, node)
        for volume in evidence.of(PersistentVolume)
        if volume.spec.storage_class_name == storage_class
        and (affinity := volume.spec.node_affinity) is not None
        and affinity.required is not None
    )


def _named(obj: CSIStorageCapacity) -> str:
    return f"CSIStorageCapacity {obj.metadata.key}"
