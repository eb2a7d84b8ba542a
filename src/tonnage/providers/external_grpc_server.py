"""Any provider of ours as a server of upstream's protocol: an example, and what tests talk to.

    server = await serve(provider, "127.0.0.1:8086")
    await server.wait_for_termination()

cluster-autoscaler can be its client as well as `tonnage run`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import grpc
import grpc.aio
import msgspec

from tonnage.errors import ProviderError
from tonnage.providers import corev1
from tonnage.providers.external_grpc import OUT_OF_RESOURCES, SERVICE
from tonnage.providers.protocol import Instance, Provider
from tonnage.providers.protos import externalgrpc_pb2 as wire

OTHER_ERROR = 99

_Answer: TypeAlias = Callable[[Any], Awaitable[Any]]
_STATES = {"running": 1, "creating": 2, "deleting": 3}
_STATUS = {
    "transient": grpc.StatusCode.ABORTED,
    "outOfResources": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "quota": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "other": grpc.StatusCode.FAILED_PRECONDITION,
}


async def serve(
    provider: Provider, address: str, *, credentials: grpc.ServerCredentials | None = None
) -> tuple[grpc.aio.Server, int]:
    """Start answering for the provider; the server, and the port it listens on."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handlers(Servicer(provider)),))
    if credentials is None:
        port = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, credentials)
    await server.start()
    return server, port


class Servicer:
    """The methods by their names on the wire; one request at a time reaches the provider."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.one_at_a_time = asyncio.Lock()

    async def Refresh(self, _: wire.RefreshRequest) -> wire.RefreshResponse:  # noqa: N802
        await self._provider.refresh()
        return wire.RefreshResponse()

    async def Cleanup(self, _: wire.CleanupRequest) -> wire.CleanupResponse:  # noqa: N802
        return wire.CleanupResponse()

    async def GPULabel(self, _: wire.GPULabelRequest) -> wire.GPULabelResponse:  # noqa: N802
        return wire.GPULabelResponse()

    async def GetAvailableGPUTypes(  # noqa: N802
        self, _: wire.GetAvailableGPUTypesRequest
    ) -> wire.GetAvailableGPUTypesResponse:
        return wire.GetAvailableGPUTypesResponse()

    async def NodeGroups(self, _: wire.NodeGroupsRequest) -> wire.NodeGroupsResponse:  # noqa: N802
        return wire.NodeGroupsResponse(
            nodeGroups=[
                wire.NodeGroup(id=one.id, minSize=one.min_size, maxSize=one.max_size)
                for one in await self._provider.groups()
            ]
        )

    async def NodeGroupForNode(  # noqa: N802
        self, request: wire.NodeGroupForNodeRequest
    ) -> wire.NodeGroupForNodeResponse:
        for one in await self._provider.groups():
            if request.node.name in one.nodes:
                return wire.NodeGroupForNodeResponse(nodeGroup=wire.NodeGroup(id=one.id))
        return wire.NodeGroupForNodeResponse()

    async def NodeGroupTargetSize(  # noqa: N802
        self, request: wire.NodeGroupTargetSizeRequest
    ) -> wire.NodeGroupTargetSizeResponse:
        for one in await self._provider.groups():
            if one.id == request.id:
                return wire.NodeGroupTargetSizeResponse(targetSize=one.target)
        raise ProviderError(f"there is no group {request.id}")

    async def NodeGroupNodes(  # noqa: N802
        self, request: wire.NodeGroupNodesRequest
    ) -> wire.NodeGroupNodesResponse:
        found: Sequence[Instance] = await self._provider.instances(request.id)
        return wire.NodeGroupNodesResponse(instances=[_instance(one) for one in found])

    async def NodeGroupTemplateNodeInfo(  # noqa: N802
        self, request: wire.NodeGroupTemplateNodeInfoRequest
    ) -> wire.NodeGroupTemplateNodeInfoResponse:
        template = await self._provider.template(request.id)
        if template is None:
            return wire.NodeGroupTemplateNodeInfoResponse()
        csi_node = template.csi_node
        return wire.NodeGroupTemplateNodeInfoResponse(
            nodeBytes=corev1.encode_node(template.node),
            csiNode=msgspec.json.encode(csi_node) if csi_node is not None else b"",
        )

    async def NodeGroupGetOptions(  # noqa: N802
        self, request: wire.NodeGroupAutoscalingOptionsRequest
    ) -> wire.NodeGroupAutoscalingOptionsResponse:
        own = await self._provider.options(request.id)
        options = wire.NodeGroupAutoscalingOptions()
        options.CopyFrom(request.defaults)
        options.zeroOrMaxNodeScaling = any(
            one.all_or_nothing for one in await self._provider.groups() if one.id == request.id
        )
        if own.max_node_provision_time is not None:
            options.MaxNodeProvisionDuration.FromMilliseconds(
                round(own.max_node_provision_time * 1000)
            )
        return wire.NodeGroupAutoscalingOptionsResponse(nodeGroupAutoscalingOptions=options)

    async def NodeGroupIncreaseSize(  # noqa: N802
        self, request: wire.NodeGroupIncreaseSizeRequest
    ) -> wire.NodeGroupIncreaseSizeResponse:
        await self._provider.increase(request.id, request.delta)
        return wire.NodeGroupIncreaseSizeResponse()

    async def NodeGroupDeleteNodes(  # noqa: N802
        self, request: wire.NodeGroupDeleteNodesRequest
    ) -> wire.NodeGroupDeleteNodesResponse:
        await self._provider.delete(request.id, [node.name for node in request.nodes])
        return wire.NodeGroupDeleteNodesResponse()

    async def NodeGroupDecreaseTargetSize(  # noqa: N802
        self, request: wire.NodeGroupDecreaseTargetSizeRequest
    ) -> wire.NodeGroupDecreaseTargetSizeResponse:
        await self._provider.decrease_target(request.id, -request.delta)
        return wire.NodeGroupDecreaseTargetSizeResponse()


def _handlers(servicer: Servicer) -> grpc.GenericRpcHandler:
    """The methods the servicer has; the others of the service are not implemented."""
    service = wire.DESCRIPTOR.services_by_name["CloudProvider"]
    found = {}
    for method in service.methods:
        answer = getattr(servicer, method.name, None)
        if answer is not None:
            found[method.name] = grpc.unary_unary_rpc_method_handler(
                _refusing(answer, servicer.one_at_a_time),
                request_deserializer=getattr(wire, method.input_type.name).FromString,
                response_serializer=getattr(wire, method.output_type.name).SerializeToString,
            )
    return grpc.method_handlers_generic_handler(SERVICE, found)


def _refusing(answer: _Answer, lock: asyncio.Lock) -> Any:
    """What the provider refuses becomes a status with its words."""

    async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            async with lock:
                return await answer(request)
        except ProviderError as error:
            await context.abort(_STATUS[error.cause], str(error))

    return handle


def _instance(one: Instance) -> wire.Instance:
    status = wire.InstanceStatus(
        instanceState=_STATES[one.state]  # type: ignore[arg-type]
    )
    if one.error is not None:
        lacking = one.error.error_class in ("outOfResources", "quota")
        status.errorInfo.errorCode = one.error.code or one.error.error_class
        status.errorInfo.errorMessage = one.error.message
        status.errorInfo.instanceErrorClass = OUT_OF_RESOURCES if lacking else OTHER_ERROR
    return wire.Instance(id=one.id, status=status)
