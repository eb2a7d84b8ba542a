"""All parts of the world together, on one API server."""

import asyncio
import random

from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.mirror import Mirror
from tonnage.embedded.world.attaching import Attacher
from tonnage.embedded.world.behaviour import Fate, WorldBehaviour
from tonnage.embedded.world.chores import Chores, Stage
from tonnage.embedded.world.drivers import DriverRegistrations
from tonnage.embedded.world.kubelets import Kubelets
from tonnage.embedded.world.volumes import Provisioner
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)


class World:
    """`run` plays until cancelled; `kubelets` and `drivers` take further orders meanwhile."""

    def __init__(
        self, client: Client, clock: Clock, behaviour: WorldBehaviour, rng: random.Random
    ) -> None:
        fate = Fate(rng)
        self._chores = Chores(clock=clock, fate=fate)
        self._mirror = mirror = Mirror(client, clock=clock, rng=rng)
        stage = Stage(client, clock, behaviour, fate, self._chores)
        nodes, csi_nodes = mirror.add(Node), mirror.add(CSINode)
        self.kubelets = Kubelets(stage, nodes=nodes, pods=mirror.add(Pod))
        self.drivers = DriverRegistrations(stage, nodes=nodes, csi_nodes=csi_nodes)
        # The other two need no orders: they live on what their caches tell them.
        Provisioner(
            stage,
            nodes=nodes,
            csi_nodes=csi_nodes,
            claims=mirror.add(PersistentVolumeClaim),
            volumes=mirror.add(PersistentVolume),
            classes=mirror.add(StorageClass),
        )
        Attacher(stage, attachments=mirror.add(VolumeAttachment))

    async def run(self) -> None:
        """Once; a world that goes on after a pause is a new one, and finds what is there."""
        async with asyncio.TaskGroup() as tasks:
            self._chores.open(tasks)
            tasks.create_task(self._mirror.run())
