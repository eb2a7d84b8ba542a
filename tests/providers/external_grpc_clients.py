"""A provider that asks a gRPC server on this machine."""

from collections.abc import Sequence
from typing import Any

from tonnage.clock import SystemClock
from tonnage.objects.nodes import Node
from tonnage.providers.external_grpc import ExternalGrpcProvider
from tonnage.providers.external_grpc_config import ExternalGrpcConfig


def client(port: int, nodes: Sequence[Node] = (), **more: Any) -> ExternalGrpcProvider:
    config = ExternalGrpcConfig(address=f"127.0.0.1:{port}", **more)
    return ExternalGrpcProvider(config, nodes=lambda: nodes, clock=SystemClock())
