"""A real API server keeps what the embedded one keeps, case by case."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.contracts.cluster import ClusterContract, ContractContext
from tests.e2e.connections import connected
from tests.e2e.controlplane import API_SERVER, ControlPlane
from tonnage.clock import Clock, SystemClock
from tonnage.cluster.client import Client


class TestRealServer(ClusterContract):
    @pytest.fixture(autouse=True)
    def _on(self, cluster: ControlPlane) -> None:
        cluster.mend()
        self._cluster = cluster

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[Client, Clock]]:
        async with connected(self._cluster.kubeconfig()) as client:
            yield client, SystemClock()

    async def forget(self, stage: ContractContext) -> None:  # noqa: ARG002 - it forgets everything
        """What an API server remembers for watches does not outlive it."""
        await asyncio.to_thread(self._cluster.restart, API_SERVER)
