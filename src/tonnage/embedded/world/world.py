"""All parts of the world together, on one API server."""

import asyncio
import random

from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.mirror import Mirror
from tonnage.embedded.world import controllers
from tonnage.embedded.world.attach_detach import AttachDetach
from tonnage.embedded.world.behaviour import SeededChance, WorldBehaviour
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.claim_binder import ClaimBinder
from tonnage.embedded.world.drivers import DriverRegistrations
from tonnage.embedded.world.event_writer import EventWriter
from tonnage.embedded.world.external_attacher import ExternalAttacher
from tonnage.embedded.world.external_provisioner import ExternalProvisioner
from tonnage.embedded.world.keyed_tasks import KeyedTasks, WorldContext
from tonnage.embedded.world.kubelets import Kubelets
from tonnage.embedded.world.local_capacity import LocalCapacity
from tonnage.embedded.world.mounts import MountChecks
from tonnage.embedded.world.node_lifecycle import NodeLifecycle
from tonnage.embedded.world.pod_index import PodsOnNodes
from tonnage.embedded.world.pod_volumes import AttachmentIndex, PodVolumes, StorageIndex
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)


class EmbeddedWorld:
    """`run` plays until cancelled; `kubelets` and `drivers` take further orders meanwhile."""

    def __init__(
        self, client: Client, clock: Clock, behaviour: WorldBehaviour, rng: random.Random
    ) -> None:
        chance = SeededChance(rng)
        self._chores = KeyedTasks(clock=clock, chance=chance)
        self._mirror = mirror = Mirror(client, clock=clock, rng=rng)
        self._context = context = WorldContext(client, clock, behaviour, chance, self._chores)
        self._event_writer = event_writer = EventWriter(context)
        self._caches = caches = WorldCaches(
            nodes=mirror.add(Node),
            csi_nodes=mirror.add(CSINode),
            pods=mirror.add(Pod),
            claims=mirror.add(PersistentVolumeClaim),
            volumes=mirror.add(PersistentVolume),
            classes=mirror.add(StorageClass),
            attachments=mirror.add(VolumeAttachment),
        )
        # Caches tell their listeners in the order in which those came: indexes come first.
        on_nodes = PodsOnNodes(caches.pods)
        mounts = self._control(on_nodes) if behaviour.controllers else None
        self.kubelets = Kubelets(
            context, caches, on_nodes=on_nodes, event_writer=event_writer, mounts=mounts
        )
        self.drivers = DriverRegistrations(context, caches)
        # The others need no orders: they live on what their caches tell them.
        space = LocalCapacity(context, caches)
        ExternalProvisioner(context, caches, space=space, event_writer=event_writer)
        ExternalAttacher(context, caches, limit=self.drivers.real_limit)

    async def run(self) -> None:
        """Once; a world that goes on after a pause is a new one, and finds what is there."""
        async with asyncio.TaskGroup() as tasks:
            self._chores.open(tasks)
            tasks.create_task(self._mirror.run())
            tasks.create_task(self._event_writer.run())

    def _control(self, on_nodes: PodsOnNodes) -> MountChecks:
        """The kube-controller-manager's part."""
        context, caches = self._context, self._caches
        storage = StorageIndex(caches, self._mirror.add(CSIDriver))
        uses, index = PodVolumes(caches, storage), AttachmentIndex(caches.attachments)
        AttachDetach(
            context,
            caches,
            storage=storage,
            uses=uses,
            index=index,
            event_writer=self._event_writer,
        )
        ClaimBinder(context, caches)
        NodeLifecycle(context, nodes=caches.nodes, on_nodes=on_nodes)
        controllers.begin(context, caches, self._mirror)
        return MountChecks(caches, storage=storage, uses=uses, index=index, on_nodes=on_nodes)
