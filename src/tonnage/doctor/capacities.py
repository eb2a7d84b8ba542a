"""Storage capacity of nodes that do not exist yet: `capacity.checks` as findings."""

from collections.abc import Iterator

from tonnage.capacity import checks
from tonnage.capacity.desired import CapacityInputs
from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import Finding
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects import quantities, selectors
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.objects.phrases import listed
from tonnage.objects.storage import CSIDriver, CSIStorageCapacity, PersistentVolume, StorageClass


def without_templates(evidence: Evidence) -> Iterator[Finding]:
    """Of no concern where only our own autoscaler runs: it learns from live nodes."""
    others = [
        program
        for program in evidence.programs
        if program.does == "autoscaler" and not program.ours
    ]
    if not others and not evidence.inputs.groups:
        return
    for one in checks.uncovered(_world(evidence), ((INSTANCE_TYPE,),)):
        yield Finding(
            code="TON701",
            severity="error" if others else "info",
            object=f"StorageClass {one.storage_class}",
            message=f"{one.provisioner} publishes what nodes have left, and nothing for new nodes"
            f" of {listed(list(one.groups))}",
            facts={"groups": list(one.groups)},
        )


def matching_nothing(evidence: Evidence) -> Iterator[Finding]:
    for one in checks.unmatched(_world(evidence)):
        yield Finding(
            code="TON702",
            severity="warning",
            object=_named(one),
            message="meant for new nodes, and matches those of no group",
        )


def far_off(evidence: Evidence) -> Iterator[Finding]:
    for one in checks.differing(_world(evidence)):
        less = quantities.exact(one.live) < quantities.exact(one.published)
        if less and _in_use(evidence, one.node, one.object.storage_class_name):
            # What is missing is what volumes have taken: a new disk has it.
            continue
        yield Finding(
            code="TON703",
            severity="warning",
            object=_named(one.object),
            message=f"says {one.published} for a new node; {one.node} has {one.live} free",
            facts={"published": one.published, "live": one.live, "node": one.node},
        )


def not_published(evidence: Evidence) -> Iterator[Finding]:
    for one in checks.unpublished(_world(evidence)):
        yield Finding(
            code="TON704",
            severity="warning",
            object=f"StorageClass {one.storage_class}",
            message=f"annotated with {one.annotation}, and nothing is published for new nodes"
            + (f": {one.problem}" if one.problem else ""),
            facts={"annotation": one.annotation},
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


def _world(evidence: Evidence) -> CapacityInputs:
    return CapacityInputs(
        classes=tuple(evidence.of(StorageClass)),
        drivers=tuple(evidence.of(CSIDriver)),
        nodes=tuple(evidence.inputs.nodes.values()),
        node_groups=tuple(evidence.inputs.groups),
        capacities=tuple(evidence.of(CSIStorageCapacity)),
    )


def _named(obj: CSIStorageCapacity) -> str:
    return f"CSIStorageCapacity {obj.metadata.key}"
