"""A cluster on a loopback API server, a provider that can be told to fail, and replicas on both."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.cluster.apiserver import ApiServer, Json
from tests.cluster.programs import running
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.program import AutoscalerProgram, AutoscalerSettings
from tonnage.objects import codec, kinds
from tonnage.objects.meta import Condition, LabelSelector, ObjectMeta
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.providers.declarative import DeclarativeProvider
from tonnage.providers.protocol import Instance
from tonnage.service import workers
from tonnage.service.config_file import ConfigFile
from tonnage.service.workers import Worker
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

DRIVER = "ebs.csi.aws.com"
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CSINODES = "/apis/storage.k8s.io/v1/csinodes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
STATUS = f"{CONFIG_MAPS}/cluster-autoscaler-status"
STATE = f"{CONFIG_MAPS}/tonnage-state"
GROUP_LABEL = "group"

_NODE = next(row for row in kinds.ALL if row.type is Node)


def group(
    name: str = "g", *, most: int = 40, least: int = 0, limit: int | None = 10, cpu: str = "4"
) -> NodeGroup:
    """A group whose template has the driver with a limit, or no driver for `None`."""
    csinode = builders.csinode("t", {DRIVER: limit}) if limit is not None else None
    return NodeGroup(
        metadata=ObjectMeta(name=name),
        spec=NodeGroupSpec(
            min_size=least,
            max_size=most,
            node_selector=LabelSelector(match_labels={GROUP_LABEL: name}),
            template=GroupTemplate(
                node=builders.node("t", cpu=cpu, labels={GROUP_LABEL: name}), csi_node=csinode
            ),
        ),
    )


class Cloud(DeclarativeProvider):
    """Sees the nodes that are really there, notes what is asked of it, and fails on request."""

    def __init__(self, server: ApiServer, *groups: NodeGroup) -> None:
        super().__init__(groups or (group(),))
        self._server = server
        self.asked: list[tuple[str, str, int]] = []
        self.deleted: list[str] = []
        self.machines: dict[str, list[Instance]] = {}
        """Instead of what would be told of a group's machines."""
        self.before_increase: Callable[[], Awaitable[None]] | None = None
        self.refresh_fails: Exception | None = None
        self.refreshed = 0

    async def refresh(self) -> None:
        self.refreshed += 1
        if self.refresh_fails is not None:
            raise self.refresh_fails
        found = [
            codec.decode(msgspec.json.encode(obj), _NODE)
            for path, obj in sorted(self._server.objects.items())
            if path.startswith(f"{NODES}/")
        ]
        if self.refreshed == 1:
            self._groups = {}  # only now does a group know how many nodes it has
        self.observe([one for one in found if isinstance(one, Node)])

    async def instances(self, group: str) -> Sequence[Instance]:
        told = await super().instances(group)
        return self.machines.get(group, told)

    async def increase(self, group: str, delta: int) -> None:
        if self.before_increase is not None:
            await self.before_increase()
        await super().increase(group, delta)
        self.asked.append(("increase", group, delta))

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        if group in self.machines:
            self._set_target(self._groups[group], self._groups[group].target - len(nodes))
            self.machines[group] = [
                one for one in self.machines[group] if (one.node or one.id) not in nodes
            ]
        else:
            await super().delete(group, nodes)
        self.asked.append(("delete", group, len(nodes)))
        self.deleted.extend(nodes)

    async def decrease_target(self, group: str, delta: int) -> None:
        await super().decrease_target(group, delta)
        self.asked.append(("decrease", group, delta))

    def target(self, name: str = "g") -> int:
        return self._groups[name].target


class LosesAnswers(Cloud):
    """Does what it is asked, and never says so."""

    async def increase(self, group: str, delta: int) -> None:
        await super().increase(group, delta)
        await asyncio.Event().wait()


def started(server: ApiServer) -> None:
    """What every cluster here has: a storage class whose volumes come with their first user."""
    put(server, CLASSES, builders.storage_class("fast", DRIVER))


def put(server: ApiServer, collection: str, obj: object) -> None:
    server.put(collection, msgspec.to_builtins(obj))


def put_pod(
    server: ApiServer,
    name: str,
    *,
    claims: Sequence[str] = (),
    cpu: str = "100m",
    on: str = "",
    unschedulable: bool = True,
    annotations: dict[str, str] | None = None,
    **more: Any,
) -> None:
    """A pod the scheduler found no node for, unless it is `on` one."""
    for claim in claims:
        put(server, CLAIMS, builders.pvc(claim, storage_class="fast"))
    pod = builders.pod(name, cpu=cpu, pvcs=claims, on=on, **more)
    told = {**pod.metadata.annotations, **(annotations or {})}
    metadata = msgspec.structs.replace(pod.metadata, annotations=told)
    pod = msgspec.structs.replace(pod, metadata=metadata)
    if unschedulable and not on:
        condition = Condition(type="PodScheduled", status="False", reason="Unschedulable")
        status = msgspec.structs.replace(pod.status, conditions=(condition,))
        pod = msgspec.structs.replace(pod, status=status)
    put(server, PODS, pod)


def put_node(
    server: ApiServer,
    clock: VirtualClock,
    name: str,
    *,
    of: str = "g",
    drivers: dict[str, int | None] | None = None,
    ready: bool = True,
    labels: dict[str, str] | None = None,
    age: float = 0.0,
) -> None:
    """A node of a group with its CSINode, which lists the driver unless told otherwise.

    One that is not ready keeps pods off, as the control plane would see to.
    """
    taints = () if ready else (Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"),)
    node = builders.node(name, labels={GROUP_LABEL: of, **(labels or {})}, taints=taints)
    born = clock.now().timestamp() - age
    time = _time(born)
    condition = Condition(
        type="Ready", status="True" if ready else "False", last_transition_time=time
    )
    node = msgspec.structs.replace(
        node,
        metadata=msgspec.structs.replace(node.metadata, creation_timestamp=time),
        status=msgspec.structs.replace(node.status, conditions=(condition,)),
    )
    put(server, NODES, node)
    listed = {DRIVER: 10} if drivers is None else drivers
    put(server, CSINODES, builders.csinode(name, listed))


def _time(seconds: float) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def a_program(
    server: ApiServer,
    cloud: Cloud,
    clock: VirtualClock,
    *,
    identity: str = "a",
    config: Path | None = None,
    elect: bool = False,
    dry_run: bool = False,
    once: bool = False,
    measured: bool = True,
    worker: Worker = workers.here,
    **settings: object,
) -> AutoscalerProgram:
    return AutoscalerProgram(
        server.client(clock),
        lambda _: cloud,
        config=ConfigFile(config, AutoscalerConfig, given={"claimBindWait": 0, **settings}),
        settings=AutoscalerSettings(
            identity=identity,
            address="127.0.0.1:0",
            debug_address="127.0.0.1:0",
            leader_elect=elect,
            dry_run=dry_run,
            once=once,
            measured=measured,
        ),
        server_version="v1.37.0",
        clock=clock,
        rng=random.Random(identity),
        new_id=_ids(identity),
        worker=worker,
    )


def _ids(identity: str) -> Callable[[], str]:
    numbers = iter(range(10**9))
    return lambda: f"{identity}{next(numbers)}"


@asynccontextmanager
async def autoscaling(
    server: ApiServer, cloud: Cloud, clock: VirtualClock, **settings: Any
) -> AsyncIterator[AutoscalerProgram]:
    """A replica that runs and knows the cluster."""
    program = a_program(server, cloud, clock, **settings)
    async with running(program, server, clock):
        await settled(program, clock)
        yield program


async def settled(program: AutoscalerProgram, clock: VirtualClock) -> None:
    while program.autoscaler.report is None or program.autoscaler.report.plan is None:
        await clock.sleep(0.5)


def status(server: ApiServer) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(server.objects[STATUS]["data"]["status"])
    return found


def events(server: ApiServer, reason: str) -> list[Json]:
    return [
        obj
        for path, obj in server.objects.items()
        if "/events/" in path and obj["reason"] == reason
    ]


def metric(program: AutoscalerProgram, name: str, **labels: str) -> float | None:
    return program.metrics.registry.get_sample_value(name, labels)
