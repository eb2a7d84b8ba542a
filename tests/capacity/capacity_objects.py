"""A cluster with local disks: what the tests of this directory are about."""

from collections.abc import Mapping

import msgspec

from tonnage.capacity.changes import Create, Delete, Patch, Replace, Step, changes
from tonnage.capacity.conventions import OURS
from tonnage.capacity.desired import CapacityInputs, Desired, ProblemReason, Rules, desired
from tonnage.capacity.node_kinds import GroupKey
from tonnage.groups.model import Group
from tonnage.objects.labels import HOSTNAME, INSTANCE_TYPE
from tonnage.objects.meta import ObjectMeta, Quantity
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate, StorageCapacity
from tonnage.objects.storage import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.testing import builders

DRIVER = "disk.example.com"
NAMESPACE = "tonnage-system"
RULES = Rules(namespace=NAMESPACE)


def a_class(
    name: str = "fast",
    asks: str | None = "100Gi",
    *,
    annotation: str = OURS.annotation,
    driver: str = DRIVER,
) -> StorageClass:
    made = builders.storage_class(name, driver)
    annotations = {annotation: asks} if asks is not None else {}
    return msgspec.structs.replace(made, metadata=ObjectMeta(name=name, annotations=annotations))


def a_node(name: str, instance: str = "m5", **labels: str) -> Node:
    return builders.node(name, labels={INSTANCE_TYPE: instance, **labels})


def its_disk(node: str, free: Quantity, *, of: str = "fast", largest: Quantity | None = None) -> (
    CSIStorageCapacity
):  # fmt: skip
    """What an external-provisioner publishes for one node."""
    made = builders.capacity(
        f"csisc-{of}-{node}", of, free=free, largest=largest, topology={HOSTNAME: node},
        namespace="driver",
    )  # fmt: skip
    labels = {
        "csi.storage.k8s.io/drivername": DRIVER,
        "csi.storage.k8s.io/managed-by": f"external-provisioner-{node}",
    }
    return msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, labels=labels)
    )


def a_group(
    name: str,
    instance: str | None = "m5",
    *,
    offers: Mapping[str, Quantity] | None = None,
    declares: Mapping[str, Quantity] | None = None,
    nodes: tuple[str, ...] = (),
) -> Group:
    """A node group whose template has the instance type, or no template for None."""
    template = None
    if instance is not None:
        node = builders.node("t", labels={INSTANCE_TYPE: instance}, allocatable=dict(offers or {}))
        stored = tuple(
            StorageCapacity(storage_class_name=one, capacity=size)
            for one, size in (declares or {}).items()
        )
        template = GroupTemplate(node=node, storage_capacity=stored)
    return Group(id=name, max_size=10, target=0, provider_template=template, nodes=nodes)


def driver() -> CSIDriver:
    return builders.csidriver(DRIVER, storage_capacity=True)


def world(*objects: object) -> CapacityInputs:
    def of(kind: type) -> tuple[object, ...]:
        return tuple(one for one in objects if isinstance(one, kind))

    return CapacityInputs(
        classes=of(StorageClass),  # type: ignore[arg-type]
        nodes=of(Node),  # type: ignore[arg-type]
        node_groups=of(Group),  # type: ignore[arg-type]
        drivers=(*of(CSIDriver), driver()),  # type: ignore[arg-type]
        capacities=of(CSIStorageCapacity),  # type: ignore[arg-type]
    )


def sizes(wanted: Desired) -> dict[tuple[str, str], str]:
    """By class and the values of the group."""
    return {
        (entry.pair[0], _values(entry.pair[1])): str(entry.object.capacity)
        for entry in wanted.entries.values()
    }


def reasons(wanted: Desired) -> list[ProblemReason]:
    return [one.reason for one in wanted.problems]


def stored(obj: CSIStorageCapacity, **meta: object) -> CSIStorageCapacity:
    """An object as the server has it."""
    given = {"uid": f"uid-{obj.metadata.name}", "resource_version": "1", **meta}
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **given))


def published(*objects: object, rules: Rules = RULES) -> list[CSIStorageCapacity]:
    """Everything that is desired in a world, as if it had been published."""
    entries = desired(world(*objects), rules).entries.values()
    return [stored(entry.object) for entry in entries]


def steps(*objects: object, rules: Rules = RULES) -> list[Step]:
    """What is to be done in a world."""
    now = world(*objects)
    there = {
        one.metadata.name: one
        for one in now.capacities
        if one.metadata.namespace == rules.namespace
    }
    return changes(desired(now, rules), there, rules).steps


def kinds(found: list[Step]) -> list[str]:
    names: dict[type, str] = {
        Create: "create", Patch: "patch", Replace: "replace", Delete: "delete",
    }  # fmt: skip
    return [names[type(one)] for one in found]


def _values(group: GroupKey) -> str:
    return ",".join(value for _, value in group)
