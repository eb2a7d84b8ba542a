"""All of it put together: caches, drivers, rounds and HTTP, until somebody says stop."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.events import Recorder
from tonnage.errors import ClusterError
from tonnage.nodeagent.agent import Agent
from tonnage.nodeagent.config import NodeAgentConfig, NodeAgentSettings
from tonnage.nodeagent.csi import CsiCaller
from tonnage.nodeagent.drivers import Drivers
from tonnage.nodeagent.metrics import NodeAgentMetrics
from tonnage.nodeagent.node_objects import NodeObjects
from tonnage.service import lifecycle
from tonnage.service.cache_metrics import CacheCollector
from tonnage.service.config_file import ConfigFile
from tonnage.service.status_server import StatusServer

_ONCE_WITHIN = 60.0
"""Seconds for the caches to fill when there is to be only one round."""
_STUCK_AFTER = 300.0


class NodeAgentProgram:
    """The agent of one node. Its parts are there to be asked; `run` brings them to life."""

    def __init__(
        self,
        client: Client,
        *,
        config: ConfigFile[NodeAgentConfig],
        settings: NodeAgentSettings,
        clock: Clock,
        rng: random.Random,
        new_id: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._news = asyncio.Event()
        self.metrics = NodeAgentMetrics()
        self.recorder = Recorder(
            client,
            component="tonnage-node-agent",
            instance=settings.node_name,
            clock=clock,
            new_id=new_id,
        )
        self.surroundings = NodeObjects(client, settings.node_name, clock=clock, rng=rng)
        self.drivers = Drivers(
            settings.kubelet_dir / "plugins_registry",
            CsiCaller(clock=clock, rng=rng, patience=config.current.patience),
            clock=clock,
            rng=rng,
            changed=self._news.set,
            pace=config.current.pace,
        )
        self.agent = Agent(
            settings,
            self.surroundings,
            self.drivers,
            client=client,
            config=config,
            clock=clock,
            recorder=self.recorder,
            metrics=self.metrics,
            news=self._news,
        )
        self.metrics.registry.register(CacheCollector(self.surroundings.mirror))
        self.server = StatusServer(
            settings.address,
            alive=self.unhealthy,
            ready=self.unready,
            registry=self.metrics.registry,
            documents={"/status": self.agent.document},
        )

    async def run(self) -> None:
        """Until cancelled; one round and no HTTP if that is all that is wanted."""
        async with AsyncExitStack() as stack:
            helpers = [self.surroundings.mirror.run(), self.recorder.run()]
            if not self._settings.once:
                await stack.enter_async_context(self.server.listening())
                helpers.append(self.drivers.run())
            await stack.enter_async_context(lifecycle.beside(*helpers))
            await (self._one_round() if self._settings.once else self.agent.run())

    async def _one_round(self) -> None:
        try:
            async with self._clock.timeout(_ONCE_WITHIN):
                await self.agent.ready()
        except TimeoutError:
            raise ClusterError(
                f"nothing is known of node {self._settings.node_name} after {_ONCE_WITHIN:g} s: "
                + "; ".join(one.last_error for one in self.surroundings.mirror.status)
            ) from None
        if self.surroundings.node is None:
            raise ClusterError(f"there is no node {self._settings.node_name!r}")
        await self.drivers.once()
        await self.agent.round()
        await self.recorder.flush()

    def unhealthy(self) -> str:
        """Whether the process had better be started again."""
        idle = self._clock.monotonic() - self.agent.looked_at
        if not self.unready() and idle > _STUCK_AFTER:
            return f"Error: last look {idle:.0f} s ago"
        return ""

    def unready(self) -> str:
        """Whether the caches are not full yet."""
        return "" if self.surroundings.complete else "not synced"
