"""Kubelets: nodes become Ready and stay alive, their pods run, and end when they are deleted."""

import zlib
from contextlib import suppress
from functools import partial

import msgspec

from tonnage.cluster import errors
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world import csinodes, node_patches
from tonnage.embedded.world.behaviour import is_meant, is_played
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.event_writer import EventWriter
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.mounts import MountChecks
from tonnage.embedded.world.pod_index import PodKey, PodsOnNodes
from tonnage.embedded.world.run_times import RunningTimeError, running_time
from tonnage.objects import timestamps
from tonnage.objects.conditions import is_ready
from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.timestamps import rfc3339
from tonnage.objects.workloads import Lease, LeaseSpec

LEASES = "kube-node-lease"
MANAGED_ATTACH = "volumes.kubernetes.io/controller-managed-attach-detach"

_LEASE_SECONDS = 40


class Kubelets:
    """One kubelet per played node; it has started once it reported Ready for the first time."""

    def __init__(
        self,
        context: WorldContext,
        caches: WorldCaches,
        *,
        on_nodes: PodsOnNodes,
        event_writer: EventWriter,
        mounts: MountChecks | None = None,
    ) -> None:
        """With `mounts`, pods wait for their volumes."""
        self._client, self._clock, self._behaviour, self._chance, self._chores = context
        self._nodes = caches.nodes
        self._pods = caches.pods
        self._started: set[str] = set()
        self._gone: set[str] = set()
        self._on_nodes = on_nodes
        self._mounts = mounts
        self._event_writer = event_writer
        self._waiting: set[str] = set()
        if mounts is not None:
            mounts.follow(self._volumes_changed)
        caches.nodes.subscribe(self._node_changed)
        caches.pods.subscribe(self._pod_changed)

    async def report(self, name: str, *, ready: bool) -> None:
        """Say that a node is Ready, or that it is not."""
        node = await self._client.get(Node, name)
        told = node_patches.conditions(node, ready=ready, now=self._clock.now())
        status = {
            "conditions": [msgspec.to_builtins(one) for one in told],
            "addresses": [
                {"type": "Hostname", "address": name},
                {"type": "InternalIP", "address": _address(100, node.metadata.uid)},
            ],
        }
        await self._client.patch(Node, name, {"status": status}, subresource="status")

    # Nodes

    def _node_changed(self, change: Change[Node]) -> None:
        node, name = change.object, change.object.metadata.name
        if not is_played(node, self._behaviour):
            return
        if change.type is EventType.DELETED:
            self._node_deleted(name)
            return
        self._gone.discard(name)
        if name in self._started or self._never_starts(node):
            return
        self._chores.start(("node", name), partial(self._live, node))

    def _node_deleted(self, name: str) -> None:
        for what in ("node", "lease"):
            self._chores.stop((what, name))
        self._started.discard(name)
        self._gone.add(name)
        if self._behaviour.heartbeat is not None:
            self._chores.start(
                ("lease gone", name),
                partial(self._client.delete, Lease, name, namespace=LEASES),
            )
        for pod in self._on_nodes.on(name):
            self._look_after(pod)

    def _never_starts(self, node: Node) -> bool:
        behaviour = self._behaviour
        return is_meant(node, behaviour.never_start) or self._chance.befalls(
            behaviour.never_start_chance, "never start", node.metadata.name
        )

    async def _live(self, node: Node) -> None:
        name = node.metadata.name
        if not is_ready(node):
            await self._clock.sleep(self._chance.seconds(self._behaviour.start, "start", name))
            await self._chores.insist(partial(self._begin, node), "begin", name)
        self._started.add(name)
        if self._behaviour.heartbeat is not None:
            beat = partial(self._beat, node, self._behaviour.heartbeat)
            self._chores.start(("lease", name), beat)
        for pod in self._on_nodes.on(name):
            self._look_after(pod)
        await self._flap(node)

    async def _begin(self, node: Node) -> None:
        if self._behaviour.csi_node_at_start:
            await csinodes.ensure(self._client, node)
        # Without it, the attach-detach controller leaves the node alone.
        managed = {"metadata": {"annotations": {MANAGED_ATTACH: "true"}}}
        await self._client.patch(Node, node.metadata.name, managed)
        await self.report(node.metadata.name, ready=True)

    async def _flap(self, node: Node) -> None:
        name = node.metadata.name
        for flapping in self._behaviour.flapping:
            if not is_meant(node, flapping.nodes):
                continue
            turn = 0
            while True:
                turn += 1
                await self._clock.sleep(self._chance.seconds(flapping.up, "up", name, turn))
                await self._chores.insist(partial(self.report, name, ready=False), "report", name)
                await self._clock.sleep(self._chance.seconds(flapping.down, "down", name, turn))
                await self._chores.insist(partial(self.report, name, ready=True), "report", name)

    async def _beat(self, node: Node, every: float) -> None:
        name = node.metadata.name
        while True:
            now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            renewed = {"spec": {"renewTime": now, "holderIdentity": name}}
            try:
                await self._client.patch(Lease, name, renewed, namespace=LEASES)
            except errors.NotFound:
                # A young server may not have the namespace yet: then at the next beat.
                with suppress(errors.NotFound):
                    await self._client.create(Lease, _lease(node, now))
            await self._clock.sleep(every)

    # Pods

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod, meta = change.object, change.object.metadata
        if change.type is EventType.DELETED:
            self._waiting.discard(meta.uid)
            for what in ("wait", "run", "finish", "end"):
                self._chores.stop((what, meta.uid))
        elif pod.spec.node_name:
            self._look_after(pod)

    def _volumes_changed(self, key: PodKey) -> None:
        pod = self._pods.get(key[1], namespace=key[0])
        if pod is not None and pod.metadata.uid in self._waiting:
            self._look_after(pod)

    def _look_after(self, pod: Pod) -> None:
        node, uid = pod.spec.node_name, pod.metadata.uid
        leaves = pod.metadata.deletion_timestamp is not None and node in self._started
        if leaves or node in self._gone:
            for what in ("wait", "run", "finish"):
                self._chores.stop((what, uid))
            self._chores.start(("end", uid), partial(self._end, pod))
        elif node not in self._started:
            return
        elif pod.status.phase in ("", "Pending"):
            if self._mounts is not None and self._mounts.missing(pod):
                if uid not in self._waiting:
                    self._waiting.add(uid)
                    self._chores.start(("wait", uid), partial(self._wait, pod))
                absent = self._mounts.absent_driver(pod)
                if absent:
                    problem = f"driver {absent} is not registered on node {node}"
                    self._event_writer.mount_failed(pod, problem)
                return
            self._waiting.discard(uid)
            self._chores.start(("run", uid), partial(self._run, pod))
        elif pod.status.phase == "Running" and pod.spec.restart_policy not in ("", "Always"):
            self._chores.start(("finish", uid), partial(self._finish, pod))

    async def _wait(self, pod: Pod) -> None:
        """Say that the containers are being created, which they are until the volumes come."""
        meta = pod.metadata
        waiting = {"waiting": {"reason": "ContainerCreating"}}
        status = {
            "containerStatuses": [
                {**_container(container.name), "ready": False, "state": waiting}
                for container in pod.spec.containers
            ]
        }
        await self._client.patch(
            Pod, meta.name, {"status": status}, namespace=meta.namespace, subresource="status"
        )

    async def _finish(self, pod: Pod) -> None:
        """End a pod whose work is done after the time that it says it takes."""
        meta = pod.metadata
        phase, told = "Succeeded", ""
        try:
            seconds = running_time(pod)
        except RunningTimeError as problem:
            phase, seconds, told = "Failed", 0.0, str(problem)
        if seconds is None:
            return
        since = timestamps.parse(pod.status.start_time or rfc3339(self._clock.now()))
        await self._clock.sleep(since + seconds - self._clock.now().timestamp())
        at = rfc3339(self._clock.now())
        status = {
            "phase": phase,
            "message": told or None,
            "conditions": [
                msgspec.to_builtins(condition)
                for condition in pod.status.conditions
                if condition.type not in _READY
            ]
            + [{"type": type_, "status": "False", "lastTransitionTime": at} for type_ in _READY],
            "containerStatuses": [
                {
                    **_container(container.name),
                    "ready": False,
                    "state": {
                        "terminated": {
                            "exitCode": int(bool(told)),
                            "reason": "Error" if told else "Completed",
                            "finishedAt": at,
                        }
                    },
                }
                for container in pod.spec.containers
            ],
        }
        await self._client.patch(
            Pod, meta.name, {"status": status}, namespace=meta.namespace, subresource="status"
        )

    async def _run(self, pod: Pod) -> None:
        meta = pod.metadata
        about = (meta.namespace, meta.name)
        await self._clock.sleep(self._chance.seconds(self._behaviour.pod_start, "run", *about))
        newest = await self._client.get(Pod, meta.name, namespace=meta.namespace)
        if newest.metadata.uid != meta.uid or newest.metadata.deletion_timestamp is not None:
            return
        status = _running(newest, now=rfc3339(self._clock.now()))
        await self._client.patch(
            Pod, meta.name, {"status": status}, namespace=meta.namespace, subresource="status"
        )

    async def _end(self, pod: Pod) -> None:
        meta = pod.metadata
        about = (meta.namespace, meta.name)
        await self._clock.sleep(self._chance.seconds(self._behaviour.pod_stop, "end", *about))
        try:
            await self._client.delete(
                Pod, meta.name, namespace=meta.namespace, uid=meta.uid, grace_period=0
            )
        except errors.Conflict:
            return  # Another pod has taken the name, so this one has ended.


def _running(pod: Pod, *, now: str) -> dict[str, object]:
    """The status of a pod all of whose containers run."""
    told = ("Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready")
    others = [
        msgspec.to_builtins(condition)
        for condition in pod.status.conditions
        if condition.type not in told
    ]
    address = _address(10, pod.metadata.uid)
    return {
        "phase": "Running",
        "startTime": pod.status.start_time or now,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": others
        + [{"type": type_, "status": "True", "lastTransitionTime": now} for type_ in told],
        "containerStatuses": [
            {
                **_container(container.name),
                "ready": True,
                "started": True,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod.spec.containers
        ],
    }


_READY = ("ContainersReady", "Ready")


def _container(name: str) -> dict[str, object]:
    """What an API server wants to know of every container."""
    return {"name": name, "restartCount": 0, "image": "", "imageID": ""}


def _address(first: int, uid: str) -> str:
    """An address that follows from a uid; two may share one, which nothing here minds."""
    number = zlib.crc32(uid.encode())
    return f"{first}.{number >> 16 & 127}.{number >> 8 & 255}.{number & 255}"


def _lease(node: Node, now: str) -> Lease:
    name, uid = node.metadata.name, node.metadata.uid
    return Lease(
        metadata=ObjectMeta(
            name=name,
            namespace=LEASES,
            owner_references=(OwnerReference(api_version="v1", kind="Node", name=name, uid=uid),),
        ),
        spec=LeaseSpec(holder_identity=name, lease_duration_seconds=_LEASE_SECONDS, renew_time=now),
    )
