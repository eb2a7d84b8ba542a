"""The contract of providers, for every kind of group that has Machines."""

import asyncio
from collections.abc import Sequence

import msgspec

from tests.providers.clusterapi.management import KEYS, ManagementCluster
from tonnage.clock import SystemClock
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate, NodeGroup
from tonnage.providers.clusterapi import ClusterApiProvider
from tonnage.providers.clusterapi.annotations import CPU, CSI_DRIVER, MEMORY, PRICE
from tonnage.providers.protocol import GroupOptions, Instance, Provider
from tonnage.testing.provider_contract import ReadingProviderContract


class ShortNames:
    """The contract calls groups by their bare name."""

    def __init__(self, provider: ClusterApiProvider, prefix: str) -> None:
        self._provider = provider
        self._prefix = prefix

    def _id(self, group: str) -> str:
        return f"{self._prefix}{group}"

    async def refresh(self) -> None:
        await self._provider.refresh()

    async def groups(self) -> Sequence[Group]:
        return [
            msgspec.structs.replace(one, id=one.id.removeprefix(self._prefix))
            for one in await self._provider.groups()
        ]

    async def problems(self) -> Sequence[str]:
        return await self._provider.problems()

    async def instances(self, group: str) -> Sequence[Instance]:
        return await self._provider.instances(self._id(group))

    async def template(self, group: str) -> GroupTemplate | None:
        return await self._provider.template(self._id(group))

    async def price(self, group: str) -> float | None:
        return await self._provider.price(self._id(group))

    async def options(self, group: str) -> GroupOptions:
        return await self._provider.options(self._id(group))

    async def increase(self, group: str, delta: int) -> None:
        await self._provider.increase(self._id(group), delta)

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        await self._provider.delete(self._id(group), nodes)

    async def decrease_target(self, group: str, delta: int) -> None:
        await self._provider.decrease_target(self._id(group), delta)


class TestMachineDeployment(ReadingProviderContract):
    kind = "MachineDeployment"
    owner = "MachineSet"

    async def make(self, groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> Provider:  # noqa: ARG002 - they are named by the groups
        management = self._management = ManagementCluster(SystemClock())
        for group in groups:
            name, spec = group.metadata.name, group.spec
            target = spec.target_size if spec.target_size is not None else len(spec.nodes)
            management.group(
                name,
                kind=self.kind,
                replicas=target,
                sizes=(spec.min_size, spec.max_size),
                annotations=_annotations(group),
            )
            for node in spec.nodes:
                management.machine(node, owner=name, kind=self.owner)
        return ShortNames(management.provider(), f"{self.kind}/fleet/")

    async def spoil(self, group: str) -> None:
        patch = {"metadata": {"annotations": {KEYS.max_size: "many"}}}
        self._management.change(self.kind, group, patch)
        # The watch has to tell; it does so within the process.
        await asyncio.sleep(0.02)


class TestMachineSet(TestMachineDeployment):
    kind = "MachineSet"


class TestMachinePool(TestMachineDeployment):
    kind = "MachinePool"
    owner = "MachinePool"


def _annotations(group: NodeGroup) -> dict[str, str]:
    found = {}
    if group.spec.price_per_hour is not None:
        found[PRICE] = str(group.spec.price_per_hour)
    template = group.spec.template
    if template is not None:
        offered = template.node.status.allocatable
        found |= {CPU: str(offered["cpu"]), MEMORY: str(offered["memory"])}
        if template.csi_node is not None:
            drivers = template.csi_node.spec.drivers
            found[CSI_DRIVER] = ",".join(f"{one.name}={one.limit or 0}" for one in drivers)
    return found
