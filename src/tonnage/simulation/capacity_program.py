"""The program `tonnage capacity-templates` among the others of a simulated cluster."""

import random
from collections.abc import Callable

from tonnage.capacity import sources
from tonnage.capacity.desired import Rules
from tonnage.capacity.program import Beside, CapacitySettings
from tonnage.capacity.sync import Caches
from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.mirror import Mirror
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.providers.protocol import Provider
from tonnage.service import lifecycle

_NAMESPACE = "kube-system"


async def run(
    client: Client,
    provider: Provider,
    *,
    clock: Clock,
    rng: random.Random,
    new_id: Callable[[], str],
) -> None:
    """Until cancelled, for the node groups of the provider."""
    mirror = Mirror(client, clock=clock, rng=rng)
    caches = Caches(
        classes=mirror.add(StorageClass),
        nodes=mirror.add(Node),
        drivers=mirror.add(CSIDriver),
        capacities=mirror.add(CSIStorageCapacity),
    )
    controller = Beside(
        client,
        caches,
        sources.from_provider(provider),
        settings=CapacitySettings(
            rules=Rules(namespace=_NAMESPACE), identity="capacity-templates", leader_elect=False
        ),
        clock=clock,
        rng=rng,
        new_id=new_id,
    )
    async with lifecycle.beside(mirror.run()):
        await controller.run()
