"""Every provider of node groups keeps `ProviderContract`: AWS and Cluster API have own files."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from tests.cluster.apiserver import ApiServer
from tests.providers import test_kwok as kwok
from tests.providers import test_kwok_groups as kwok_groups
from tests.providers.external_grpc_clients import client
from tonnage.clock import SystemClock
from tonnage.cluster.client import Client
from tonnage.embedded.apiserver import ApiServer as EmbeddedApiServer
from tonnage.embedded.apiserver import InProcessTransport
from tonnage.embedded.cloud import CloudBehaviour, SimulatedCloud
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers import external_grpc_server
from tonnage.providers.declarative import DeclarativeProvider
from tonnage.providers.external_grpc import ExternalGrpcProvider
from tonnage.providers.measured import MeasuredProvider
from tonnage.providers.protocol import Provider
from tonnage.testing.clock import VirtualClock
from tonnage.testing.provider_contract import ProviderContract, ReadingProviderContract


class TestDeclarative(ProviderContract):
    async def make(self, groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> Provider:
        return DeclarativeProvider(groups, nodes)


class TestMeasured(ProviderContract):
    async def make(self, groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> Provider:
        inside = DeclarativeProvider(groups, nodes)
        return MeasuredProvider(inside, clock=VirtualClock(), called=lambda *_: None)


class TestSimulatedCloud(ProviderContract):
    async def make(self, groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> Provider:
        clock = VirtualClock()
        server = EmbeddedApiServer(clock=clock, rng=random.Random(1))
        client = Client(InProcessTransport(server), clock=clock, rng=random.Random(1))
        for node in nodes:
            await client.create(Node, node)
        return SimulatedCloud(client, clock, groups, CloudBehaviour(), random.Random(1))


class TestKwok(ProviderContract):
    async def make(self, groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> Provider:
        server = await self._serving(groups, nodes)
        return kwok.provider(server, SystemClock(), *groups)

    async def _serving(self, groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> ApiServer:
        """A server with these nodes, until the loop ends."""
        serving: asyncio.Future[ApiServer] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(_serve(serving))
        server = await serving
        owners = {name: group.metadata.name for group in groups for name in group.spec.nodes}
        for node in nodes:
            kwok.put_node(server, node, group=owners[node.metadata.name])
        return server


class TestKwokFromConfigMap(TestKwok, ReadingProviderContract):
    async def make(self, groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> Provider:
        self._server = server = await self._serving(groups, nodes)
        written = {group.metadata.name: kwok_groups.written(group) for group in groups}
        kwok_groups.put_groups(server, "", **written)
        return kwok_groups.from_config_map(server, SystemClock())

    async def spoil(self, group: str) -> None:
        written = self._server.objects[kwok_groups.GROUPS]
        data = written["data"]
        spoilt = {**data, group: data[group].replace("maxSize", "maxsize")}
        self._server.put(kwok_groups.GROUPS.rpartition("/")[0], {**written, "data": spoilt})


async def _serve(serving: asyncio.Future[ApiServer]) -> None:
    """Until the loop ends, which cancels this."""
    async with ApiServer() as server:
        serving.set_result(server)
        await asyncio.Event().wait()


class TestExternalGrpc(ReadingProviderContract):
    """The contract through the wire; servers of a closed loop are gone with it."""

    async def make(self, groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> Provider:
        behind = self._behind = DeclarativeProvider(groups, nodes)
        server, port = await external_grpc_server.serve(behind, "127.0.0.1:0")
        self._kept = server
        return _WithPrices(client(port, nodes), behind)

    async def spoil(self, group: str) -> None:
        known = self._behind._groups[group]
        self._behind._groups[group] = msgspec.structs.replace(known, min_size=9, max_size=1)


class _WithPrices:
    """The client, with prices of the provider behind it: on the wire they are asked for by node."""

    def __init__(self, provider: ExternalGrpcProvider, behind: DeclarativeProvider) -> None:
        self._provider = provider
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def price(self, group: str) -> float | None:
        return await self._behind.price(group)
