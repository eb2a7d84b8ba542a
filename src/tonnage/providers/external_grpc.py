"""Node groups behind upstream's gRPC protocol: any provider written for it works here.

The protocol says nothing of CSI drivers. A server may add a CSINode to a template (a field of
ours); for all others the limits come from what is learned of nodes, the catalogue and overrides.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tonnage.clock import Clock
from tonnage.errors import InputError, ProviderCause, ProviderError
from tonnage.groups.model import Group
from tonnage.objects.codec import UNDECODABLE
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import MOST_NODES, GroupTemplate
from tonnage.objects.storage import CSINode
from tonnage.providers import sizes
from tonnage.providers.external_grpc_config import ExternalGrpcConfig
from tonnage.providers.protocol import ErrorClass, GroupOptions, Instance, InstanceError

if TYPE_CHECKING:
    from tonnage.providers.protos import externalgrpc_pb2 as wire

SERVICE = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
LARGEST_ANSWER = 128 << 20
OUT_OF_RESOURCES = 1
"""The error class of upstream's that means a lack of machines; all others mean something else."""

_AT_ONCE = 16
"""Requests under way at the same time."""


class _Known(NamedTuple):
    group: Group
    instances: tuple[Instance, ...]
    options: GroupOptions


class ExternalGrpcProvider:
    """`nodes` gives the nodes of the cluster, to be told apart by group.

    A group the server does not tell everything about is listed and cannot grow; the others are
    not affected. What the server answers is not believed where it cannot be.
    """

    def __init__(
        self, config: ExternalGrpcConfig, *, nodes: Callable[[], Iterable[Node]], clock: Clock
    ) -> None:
        self._grpc, self._wire = _packages()
        self._config = config
        self._nodes = nodes
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._problems: tuple[str, ...] = ()
        self._node_named: dict[str, Node] = {}
        self._without: set[str] = set()
        """Optional methods that the server does not have."""
        self._channel = self._open()
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def close(self) -> None:
        await self._channel.close()

    # Looking.

    async def refresh(self) -> None:
        await self._call("Refresh")
        told = await self._call("NodeGroups")
        nodes = list(self._nodes())
        described = _distinct(told.nodeGroups)
        states = await asyncio.gather(*(self._state(one.id) for one in described))
        by_id = {node.spec.provider_id or node.metadata.name: node for node in nodes}
        claimed = {
            instance.id: one.id
            for one, state in zip(described, states, strict=True)
            for instance in state.instances
        }
        problems = _unusable(told.nodeGroups)
        members = await self._members(by_id, claimed, problems)
        self._node_named = {node.metadata.name: node for node in nodes}
        self._known = {
            one.id: _known(one, state, [n for n, group in members.items() if group == one.id])
            for one, state in zip(described, states, strict=True)
        }
        self._problems = tuple(problems)

    async def groups(self) -> Sequence[Group]:
        return [known.group for known in self._known.values()]

    async def problems(self) -> Sequence[str]:
        return self._problems

    async def instances(self, group: str) -> Sequence[Instance]:
        self._group(group)
        return await self._instances(group)

    async def template(self, group: str) -> GroupTemplate | None:
        self._group(group)
        answer = await self._optional("NodeGroupTemplateNodeInfo", id=group)
        if answer is None or not answer.nodeBytes:
            return None
        return _template(group, answer)

    async def price(self, group: str) -> float | None:
        """What the server says an hour of the template's node costs."""
        template, now = await self.template(group), self._clock.now()
        answer = await self._optional(
            "PricingNodePrice",
            node=self._named(template.node) if template is not None else None,
            startTimestamp=now,
            endTimestamp=now + timedelta(hours=1),
        )
        # A server that knows no prices leaves the field out, which on the wire is 0.
        return None if answer is None or answer.price == 0 else float(answer.price)

    async def options(self, group: str) -> GroupOptions:
        self._group(group)
        return self._known[group].options

    # Changing.

    async def increase(self, group: str, delta: int) -> None:
        known = self._group(group)
        sizes.check_increase(known, delta)
        await self._call("NodeGroupIncreaseSize", change=True, id=group, delta=delta)
        self._retarget(known, known.target + delta)

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        known = self._group(group)
        instances = self._known[group].instances
        sizes.check_own(known, nodes, instances=[instance.id for instance in instances])
        leaving = {
            instance.node or instance.id for instance in instances if instance.state == "deleting"
        }
        going = [name for name in dict.fromkeys(nodes) if name not in leaving]
        sizes.check_deletion(known, going)
        if not going:
            return
        meant = [self._meant(name) for name in going]
        await self._call("NodeGroupDeleteNodes", change=True, id=group, nodes=meant)
        self._retarget(known, known.target - len(going), leaving=set(going))

    async def decrease_target(self, group: str, delta: int) -> None:
        known = self._group(group)
        there = sum(instance.state == "running" for instance in self._known[group].instances)
        sizes.check_decrease(known, delta, there=there)
        await self._call("NodeGroupDecreaseTargetSize", change=True, id=group, delta=-delta)
        self._retarget(known, known.target - delta)

    # Parts of looking.

    async def _state(self, group: str) -> "_State":
        """The changing facts of a group; what could not be learned is a problem."""
        try:
            size = await self._call("NodeGroupTargetSize", id=group)
            instances = await self._instances(group)
            options = await self._options(group)
        except ProviderError as error:
            return _State(None, (), None, f"group {group}: not scaled: {error}")
        if not 0 <= size.targetSize <= MOST_NODES:
            problem = f"group {group}: not scaled: the server says its size is {size.targetSize}"
            return _State(None, instances, options, problem)
        return _State(size.targetSize, instances, options, "")

    async def _instances(self, group: str) -> tuple[Instance, ...]:
        answer = await self._call("NodeGroupNodes", id=group)
        by_id = {node.spec.provider_id: node.metadata.name for node in self._nodes()}
        return tuple(_instance(one, by_id.get(one.id, "")) for one in _distinct(answer.instances))

    async def _options(self, group: str) -> "wire.NodeGroupAutoscalingOptions | None":
        defaults = _defaults(self._wire)
        answer = await self._optional("NodeGroupGetOptions", id=group, defaults=defaults)
        if answer is None or not answer.HasField("nodeGroupAutoscalingOptions"):
            return None
        return answer.nodeGroupAutoscalingOptions

    async def _members(
        self, by_id: dict[str, Node], claimed: dict[str, str], problems: list[str]
    ) -> dict[str, str]:
        """The group of each node by name; the server is asked of those no instance stands for."""
        found = {node.metadata.name: claimed[one] for one, node in by_id.items() if one in claimed}
        others = [node for one, node in by_id.items() if one not in claimed]
        answers = await asyncio.gather(*(self._group_of(node, problems) for node in others))
        for node, group in zip(others, answers, strict=True):
            if group:
                found[node.metadata.name] = group
        return found

    async def _group_of(self, node: Node, problems: list[str]) -> str:
        """What the server says; if it cannot say it of this node, what it said last."""
        name = node.metadata.name
        try:
            answer = await self._call("NodeGroupForNode", node=self._named(node))
        except ProviderError as error:
            if error.retryable:
                raise
            problems.append(f"node {name}: the server does not say which group it is of: {error}")
            known = (one.group for one in self._known.values() if name in one.group.nodes)
            return next((group.id for group in known), "")
        return str(answer.nodeGroup.id)

    def _meant(self, name: str) -> "wire.ExternalGrpcNode":
        """A registered node by its name, a machine without one by its id."""
        node = self._node_named.get(name)
        return (
            self._named(node) if node else self._wire.ExternalGrpcNode(providerID=name, name=name)
        )

    def _named(self, node: Node) -> "wire.ExternalGrpcNode":
        return self._wire.ExternalGrpcNode(
            providerID=node.spec.provider_id,
            name=node.metadata.name,
            labels=node.metadata.labels,
            annotations=node.metadata.annotations,
        )

    def _group(self, name: str) -> Group:
        known = self._known.get(name)
        if known is None:
            raise ProviderError(f"there is no group {name}")
        return known.group

    def _retarget(self, group: Group, target: int, *, leaving: Iterable[str] = ()) -> None:
        gone = set(leaving)
        known = self._known[group.id]
        self._known[group.id] = known._replace(
            group=msgspec.structs.replace(group, target=target),
            instances=tuple(
                msgspec.structs.replace(instance, state="deleting")
                if {instance.node, instance.id} & gone
                else instance
                for instance in known.instances
            ),
        )

    # The wire.

    def _open(self) -> Any:
        config, grpc = self._config, self._grpc
        limits = [("grpc.max_receive_message_length", LARGEST_ANSWER)]
        secrets = config.secrets()
        if secrets is None:
            return grpc.aio.insecure_channel(config.address, limits)
        trusted = grpc.ssl_channel_credentials(secrets.ca, secrets.key, secrets.certificate)
        return grpc.aio.secure_channel(config.address, trusted, limits)

    async def _call(self, method: str, *, change: bool = False, **fields: Any) -> Any:
        """What the server answers to a request with these fields."""
        told = self._wire.DESCRIPTOR.services_by_name["CloudProvider"].methods_by_name[method]
        request = getattr(self._wire, told.input_type.name)
        ask = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=getattr(self._wire, told.output_type.name).FromString,
        )
        async with self._limit:
            try:
                return await ask(request(**fields), timeout=self._config.grpc_timeout)
            except self._grpc.RpcError as error:
                text = f"{self._config.address}: {method}: {error.code().name}: {error.details()}"
                cause = _cause(error.code().name, change=change)
                raise _RpcError(text, cause=cause, status=error.code().name) from error

    async def _optional(self, method: str, **fields: Any) -> Any:
        """The answer, or `None` from a server that does not have the method."""
        if method in self._without:
            return None
        try:
            return await self._call(method, **fields)
        except _RpcError as error:
            if error.status != "UNIMPLEMENTED":
                raise
            self._without.add(method)
            return None


class _State(NamedTuple):
    target: int | None
    instances: tuple[Instance, ...]
    options: "wire.NodeGroupAutoscalingOptions | None"
    problem: str


class _RpcError(ProviderError):
    def __init__(self, message: str, *, cause: ProviderCause, status: str) -> None:
        super().__init__(message, cause=cause)
        self.status = status


def _known(one: "wire.NodeGroup", state: _State, nodes: list[str]) -> _Known:
    target = state.target
    problems = [state.problem] if state.problem else []
    most = one.maxSize
    if target is None:
        # Whoever does not know the size must not change it.
        target = most = len(nodes)
    elif one.minSize < 0 or most < one.minSize:
        problems.append(
            f"group {one.id}: not scaled: sizes from {one.minSize} to {most} make no sense"
        )
        most = target
    options = state.options
    group = Group(
        id=one.id,
        min_size=max(one.minSize, 0),
        max_size=most,
        target=target,
        nodes=tuple(nodes),
        all_or_nothing=options is not None and options.zeroOrMaxNodeScaling,
        problems=tuple(problems),
    )
    return _Known(group, state.instances, _own(options) if options is not None else GroupOptions())


_UTILIZATION = 0.5
_UNNEEDED, _UNREADY, _PROVISION = 600, 1200, 900
"""Upstream's defaults. They are sent, and what comes back the same is no setting of the group's."""


def _defaults(wire: ModuleType) -> Any:
    options = wire.NodeGroupAutoscalingOptions(
        scaleDownUtilizationThreshold=_UTILIZATION, scaleDownGpuUtilizationThreshold=_UTILIZATION
    )
    options.scaleDownUnneededDuration.FromSeconds(_UNNEEDED)
    options.scaleDownUnreadyDuration.FromSeconds(_UNREADY)
    options.MaxNodeProvisionDuration.FromSeconds(_PROVISION)
    return options


def _own(options: "wire.NodeGroupAutoscalingOptions") -> GroupOptions:
    def unless(value: float, default: float) -> float | None:
        return value if value > 0 and value != default else None

    def seconds(field: str, default: int) -> float | None:
        if not options.HasField(field):
            return None
        return unless(getattr(options, field).ToMilliseconds() / 1000, default)

    return GroupOptions(
        scale_down_utilization_threshold=unless(
            options.scaleDownUtilizationThreshold, _UTILIZATION
        ),
        scale_down_gpu_utilization_threshold=unless(
            options.scaleDownGpuUtilizationThreshold, _UTILIZATION
        ),
        scale_down_unneeded_time=seconds("scaleDownUnneededDuration", _UNNEEDED),
        scale_down_unready_time=seconds("scaleDownUnreadyDuration", _UNREADY),
        max_node_provision_time=seconds("MaxNodeProvisionDuration", _PROVISION),
        ignore_daemonsets_utilization=options.ignoreDaemonSetsUtilization or None,
    )


_STATES: dict[int, Any] = {1: "running", 2: "creating", 3: "deleting"}


def _instance(one: "wire.Instance", node: str) -> Instance:
    """A state the server does not say is that of a machine which runs, as upstream takes it."""
    state = _STATES.get(one.status.instanceState, "running")
    told = one.status.errorInfo
    error = None
    if told.errorCode and state != "running":
        kind: ErrorClass = (
            "outOfResources" if told.instanceErrorClass == OUT_OF_RESOURCES else "other"
        )
        error = InstanceError(error_class=kind, code=told.errorCode, message=told.errorMessage)
    return Instance(id=one.id, state=state, node=node, error=error)


def _template(group: str, answer: "wire.NodeGroupTemplateNodeInfoResponse") -> GroupTemplate:
    from tonnage.providers import corev1

    try:
        node = corev1.decode_node(answer.nodeBytes)
    except ValueError as error:
        raise ProviderError(f"group {group}: its template is no Node: {error}") from error
    if not answer.csiNode:
        return GroupTemplate(node=node)
    try:
        return GroupTemplate(node=node, csi_node=msgspec.json.decode(answer.csiNode, type=CSINode))
    except UNDECODABLE as error:
        raise ProviderError(
            f"group {group}: csiNode of its template is no CSINode: {error}"
        ) from error


def _unusable(told: Iterable["wire.NodeGroup"]) -> list[str]:
    """What is wrong with the list of groups as a whole."""
    named = Counter(one.id for one in told)
    nameless = named.pop("", 0)
    return [
        *([f"NodeGroups: {nameless} groups without an id; left out"] if nameless else []),
        *(f"NodeGroups: group {name} is there twice; the last is used"
          for name, count in named.items() if count > 1),
    ]  # fmt: skip


def _distinct(told: Iterable[Any]) -> list[Any]:
    """Those with an id, each id once: a server may say things twice."""
    return list({one.id: one for one in told if one.id}.values())


def _cause(status: str, *, change: bool) -> ProviderCause:
    if status == "RESOURCE_EXHAUSTED":
        return "outOfResources"
    if status == "ABORTED":
        return "transient"
    # After one of these nobody knows whether a change was made.
    return "transient" if status in ("UNAVAILABLE", "DEADLINE_EXCEEDED") and not change else "other"


def _packages() -> tuple[Any, Any]:
    try:
        import grpc
        import grpc.aio

        from tonnage.providers.protos import externalgrpc_pb2
    except ImportError as error:
        raise InputError(
            f"--provider externalgrpc needs the package {error.name}: install tonnage[grpc]"
        ) from error
    return grpc, externalgrpc_pb2
