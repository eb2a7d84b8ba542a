"""The program `tonnage capacity-templates` among the others of a simulated cluster."""

import random
from collections.abc import Callable

from tonnage.capacity import sources
from tonnage.capacity.program import CapacityController, CapacitySettings
from tonnage.capacity.sync import Caches
from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.mirror import Mirror
from tonnage.providers.protocol import Provider
from tonnage.service import lifecycle


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
    controller = CapacityController(
        client,
        Caches.of(mirror.add),
        sources.from_provider(provider),
        settings=CapacitySettings(identity="capacity-templates", leader_elect=False),
        clock=clock,
        rng=rng,
        new_id=new_id,
    )
    async with lifecycle.beside(mirror.run()):
        await controller.run()
