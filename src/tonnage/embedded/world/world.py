"""All parts of the world together, on one API server."""

import asyncio
import random

from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import Client
from tonnage.cluster.mirror import Mirror
from tonnage.embedded.world import controllers
from tonnage.embedded.world.attach_detach import AttachDetach
from tonnage.embedded.world.behaviour import SeededChance, WorldBehaviour
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
        self._nodes, self._csi_nodes = mirror.add(Node), mirror.add(CSINode)
        self._pods, self._on_nodes = (pods := mirror.add(Pod)), PodsOnNodes(pods)
        claims, volumes = mirror.add(PersistentVolumeClaim), mirror.add(PersistentVolume)
        classes, attachments = mirror.add(StorageClass), mirror.add(VolumeAttachment)
        # Caches tell their listeners in the order in which those came: indexes come first.
        mounts = None
        if behaviour.controllers:
            storage = StorageIndex(
                claims=claims,
                volumes=volumes,
                classes=classes,
                csi_drivers=mirror.add(CSIDriver),
            )
            mounts = self._control(storage, attachments)
        self.kubelets = Kubelets(
            context,
            nodes=self._nodes,
            pods=pods,
            on_nodes=self._on_nodes,
            event_writer=event_writer,
            mounts=mounts,
        )
        self.drivers = DriverRegistrations(context, nodes=self._nodes, csi_nodes=self._csi_nodes)
        # The others need no orders: they live on what their caches tell them.
        space = LocalCapacity(
            context, nodes=self._nodes, csi_nodes=self._csi_nodes, volumes=volumes, classes=classes
        )
        ExternalProvisioner(
            context,
            nodes=self._nodes,
            csi_nodes=self._csi_nodes,
            claims=claims,
            volumes=volumes,
            classes=classes,
            space=space,
            event_writer=event_writer,
        )
        ExternalAttacher(context, attachments=attachments, limit=self.drivers.real_limit)

    async def run(self) -> None:
        """Once; a world that goes on after a pause is a new one, and finds what is there."""
        async with asyncio.TaskGroup() as tasks:
            self._chores.open(tasks)
            tasks.create_task(self._mirror.run())
            tasks.create_task(self._event_writer.run())

    def _control(self, storage: StorageIndex, attachments: Cache[VolumeAttachment]) -> MountChecks:
        """The kube-controller-manager's part."""
        context, pods = self._context, self._pods
        uses, index = PodVolumes(storage, pods=pods), AttachmentIndex(attachments)
        AttachDetach(
            context,
            storage=storage,
            uses=uses,
            index=index,
            attachments=attachments,
            pods=pods,
            event_writer=self._event_writer,
        )
        ClaimBinder(
            context,
            pods=pods,
            claims=storage.claims,
            volumes=storage.volumes,
            classes=storage.classes,
        )
        NodeLifecycle(context, nodes=self._nodes, on_nodes=self._on_nodes)
        controllers.begin(
            context, self._mirror, nodes=self._nodes, pods=pods, claims=storage.claims
        )
        return MountChecks(
            storage,
            uses=uses,
            index=index,
            on_nodes=self._on_nodes,
            csi_nodes=self._csi_nodes,
            attachments=attachments,
        )
