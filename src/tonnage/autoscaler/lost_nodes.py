"""No node is known, though the provider has machines that nodes should have come from."""

from typing import NamedTuple

from tonnage.autoscaler.provider_state import ProviderState
from tonnage.autoscaler.world import ClusterView
from tonnage.clock import Clock
from tonnage.objects.nodes import Node


class Loss(NamedTuple):
    """`hold` is why nothing is to be decided, if the loss is not believed."""

    hold: str = ""
    problems: tuple[str, ...] = ()


class LostNodes:
    """That all nodes are lost is believed in the end, unless pods are known to have nodes.

    Without that, a cluster whose first machines come to nothing would never get another.
    """

    def __init__(self, world: ClusterView, *, clock: Clock) -> None:
        self._world = world
        self._clock = clock
        self._since: float | None = None

    def look(self, provided: ProviderState, *, after: float) -> Loss:
        """Believe it `after` so many seconds."""
        running = sum(one.running for machines in provided.machines.values() for one in machines)
        if len(self._world.cache(Node)) or not running:
            self._since = None
            return Loss()
        if self._since is None:
            self._since = self._clock.monotonic()
        found = f"no node is known, and the provider has {running} machines running"
        seconds = self._clock.monotonic() - self._since
        if seconds < after or self._world.pods_by_node:
            return Loss(hold=found)
        return Loss(problems=(f"{found} for {seconds:.0f} s: they are taken to be lost",))
