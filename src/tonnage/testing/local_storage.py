"""Local storage laid over a random scenario: drivers that publish capacity, disks, templates."""

from collections.abc import Iterable, Iterator

import msgspec

from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup, StorageCapacity
from tonnage.objects.storage import CSIDriver, CSIStorageCapacity, PersistentVolumeClaim
from tonnage.testing import builders
from tonnage.testing.clusters.dice import Dice
from tonnage.testing.clusters.storage import EBS, LOCAL, ZONES

_SIZES = ("1Gi", "2Gi", "3Gi", "7Gi", "20Gi")
_TEMPLATE_NODE = "cluster-autoscaler.kubernetes.io/template-node"


def laid_over(dice: Dice, objects: Iterable[KubeObject]) -> Iterator[KubeObject]:
    """The objects with capacity checked for the class `local`, and sometimes for `ebs` by zone.

    Claims get different sizes, and half of them are of the class `local` then.
    """
    zonal = dice.chance(0.25)
    checked = {LOCAL, EBS} if zonal else {LOCAL}
    for obj in objects:
        match obj:
            case CSIDriver() if obj.metadata.name in checked:
                checked.discard(obj.metadata.name)
                yield _checking(obj)
            case CSIStorageCapacity() if obj.storage_class_name in ("local", "ebs"):
                pass
            case PersistentVolumeClaim() if not obj.spec.volume_name:
                size = dice.pick(("1Gi", "1Gi", "2Gi", "3Gi"))
                yield _sized(obj, size, local=dice.chance(0.5))
            case Node():
                yield obj
                if dice.chance(0.8):
                    yield _disk(dice, obj.metadata.name)
            case NodeGroup() if dice.chance(0.6):
                yield _furnished(dice, obj)
            case _:
                yield obj
    for driver in sorted(checked):
        yield _checking(builders.csidriver(driver))
    if zonal:
        for zone in dice.some(ZONES, least=2):
            free = dice.pick(("4Gi", "9Gi", "50Gi"))
            topology = {builders.ZONE: zone}
            yield builders.capacity(f"ebs-{zone}", "ebs", free=free, topology=topology)
    if dice.chance(0.3):
        published = builders.capacity("templates", "local", free=dice.pick(_SIZES))
        yield msgspec.structs.replace(published, node_topology=_of_templates(dice))


def _of_templates(dice: Dice) -> LabelSelector:
    """Template nodes with a certain disk, by labels or by expressions."""
    disk = dice.pick(("ssd", "hdd"))
    if dice.chance(0.5):
        return builders.selecting({_TEMPLATE_NODE: "true", "disk": disk})
    return builders.selecting(
        {},
        LabelRequirement(key=_TEMPLATE_NODE, operator="Exists"),
        LabelRequirement(key="disk", operator=dice.pick(("In", "NotIn")), values=(disk,)),
    )


def _checking(driver: CSIDriver) -> CSIDriver:
    spec = msgspec.structs.replace(driver.spec, storage_capacity=True)
    return msgspec.structs.replace(driver, spec=spec)


def _sized(claim: PersistentVolumeClaim, size: str, *, local: bool) -> PersistentVolumeClaim:
    resources = msgspec.structs.replace(claim.spec.resources, requests={"storage": size})
    name = "local" if local else claim.spec.storage_class_name
    spec = msgspec.structs.replace(claim.spec, resources=resources, storage_class_name=name)
    return msgspec.structs.replace(claim, spec=spec)


def _disk(dice: Dice, node: str) -> CSIStorageCapacity:
    largest = dice.weighted({None: 4, dice.pick(_SIZES): 1})
    topology = {"kubernetes.io/hostname": node}
    return builders.capacity(
        f"local-{node}", "local", free=dice.pick(_SIZES), largest=largest, topology=topology
    )


def _furnished(dice: Dice, group: NodeGroup) -> NodeGroup:
    if group.spec.template is None:
        return group
    room = StorageCapacity(storage_class_name="local", capacity=dice.pick(_SIZES))
    template = msgspec.structs.replace(group.spec.template, storage_capacity=(room,))
    return msgspec.structs.replace(
        group, spec=msgspec.structs.replace(group.spec, template=template)
    )
