"""Calls to one CSI driver over its unix socket: who it is, whether it is well, its number.

Every call has a deadline of its own and a connection of its own: it is made about once a minute,
and a connection that was opened to a socket that is gone would only have to be found out.
"""

import random
from pathlib import Path
from typing import Any

import grpc
import msgspec
from google.protobuf.message import Message

from tonnage.clock import Clock
from tonnage.cluster.backoff import Backoff
from tonnage.errors import TonnageError
from tonnage.nodeagent.protos import csi_pb2, pluginregistration_pb2
from tonnage.objects.meta import Record

CSI_PLUGIN = "CSIPlugin"
MOST_VOLUMES = 2**31 - 1
"""A bigger number is cut to this one, as the kubelet does: a CSINode holds no other."""

_GET_INFO = "/pluginregistration.Registration/GetInfo"
_PLUGIN_INFO = "/csi.v1.Identity/GetPluginInfo"
_PROBE = "/csi.v1.Identity/Probe"
_CAPABILITIES = "/csi.v1.Node/NodeGetCapabilities"
_NODE_INFO = "/csi.v1.Node/NodeGetInfo"

_WORTH_REPEATING = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


class DriverError(TonnageError):
    """A driver did not answer, or not as it should."""


class CsiPatience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for an answer, and how often to ask."""

    timeout: float = 10.0
    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 5.0


class Registration(Record, frozen=True, kw_only=True):
    """What a plugin tells the kubelet of itself."""

    type: str
    name: str
    endpoint: Path


class Answer(Record, frozen=True, kw_only=True):
    """What a driver says of itself and its node."""

    name: str
    version: str
    node_id: str
    max_volumes: int
    """As it was given: 0 and less are no number, see `beliefs`."""
    capabilities: tuple[str, ...] = ()


class CsiCaller:
    """Asks drivers, with the same patience for all."""

    def __init__(self, *, clock: Clock, rng: random.Random, patience: CsiPatience) -> None:
        self._clock = clock
        self._rng = rng
        self._patience = patience

    async def registration(self, socket: Path) -> Registration:
        """What the plugin behind a registration socket is, and where it answers."""
        told = await self._call(
            socket,
            _GET_INFO,
            pluginregistration_pb2.InfoRequest(),
            pluginregistration_pb2.PluginInfo,
        )
        endpoint = Path(told.endpoint.removeprefix("unix://")) if told.endpoint else socket
        return Registration(type=told.type, name=told.name, endpoint=endpoint)

    async def ask(self, registered: Registration) -> Answer:
        """Everything we want to know of a driver; an error if any of it is not told."""
        socket = registered.endpoint
        info = await self._call(
            socket, _PLUGIN_INFO, csi_pb2.GetPluginInfoRequest(), csi_pb2.GetPluginInfoResponse
        )
        if info.name != registered.name:
            raise DriverError(
                f"{socket}: registered as {registered.name!r}, but calls itself {info.name!r}"
            )
        probe = await self._call(socket, _PROBE, csi_pb2.ProbeRequest(), csi_pb2.ProbeResponse)
        if probe.HasField("ready") and not probe.ready.value:
            raise DriverError(f"{registered.name}: says that it is not ready")
        able = await self._call(
            socket,
            _CAPABILITIES,
            csi_pb2.NodeGetCapabilitiesRequest(),
            csi_pb2.NodeGetCapabilitiesResponse,
        )
        node = await self._call(
            socket, _NODE_INFO, csi_pb2.NodeGetInfoRequest(), csi_pb2.NodeGetInfoResponse
        )
        if not node.node_id:
            raise DriverError(f"{registered.name}: NodeGetInfo: the id of the node is empty")
        return Answer(
            name=info.name,
            version=info.vendor_version,
            node_id=node.node_id,
            max_volumes=min(node.max_volumes_per_node, MOST_VOLUMES),
            capabilities=tuple(_names(able)),
        )

    async def _call(self, socket: Path, method: str, request: Message, answer: Any) -> Any:
        backoff = Backoff(
            self._rng, first=self._patience.first_wait, most=self._patience.longest_wait
        )
        while True:
            try:
                return await self._attempt(socket, method, request, answer)
            except grpc.aio.AioRpcError as error:
                problem = f"{error.code().name}: {error.details()}"
                final = error.code() not in _WORTH_REPEATING
            except TimeoutError:
                problem = f"no answer within {self._patience.timeout:g} s"
                final = False
            wait = backoff.next()
            if final or backoff.failures >= self._patience.attempts:
                raise DriverError(f"{socket}: {method.rpartition('/')[2]}: {problem}")
            await self._clock.sleep(wait)

    async def _attempt(self, socket: Path, method: str, request: Message, answer: Any) -> Any:
        # "unix:" and an absolute path; a proxy of the environment has no business here.
        options = [("grpc.enable_http_proxy", 0)]
        async with grpc.aio.insecure_channel(f"unix:{socket.absolute()}", options) as channel:
            call = channel.unary_unary(
                method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            async with self._clock.timeout(self._patience.timeout):
                return await call(request)


def _names(told: csi_pb2.NodeGetCapabilitiesResponse) -> list[str]:
    types = csi_pb2.NodeServiceCapability.RPC.Type
    known = types.values()
    return sorted(
        types.Name(capability.rpc.type)
        for capability in told.capabilities
        if capability.rpc.type in known
    )
