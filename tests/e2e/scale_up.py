"""A stage for the autoscaler: node groups, somebody who plays their nodes, and `tonnage run`."""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.e2e import deployed, manifests
from tests.e2e.autoscaler import Autoscaler, Settings
from tests.e2e.background import Background
from tests.e2e.connections import connected
from tests.e2e.controlplane import NO_KUBELET, wait_until
from tests.e2e.gate import Gate
from tests.e2e.history import History, Placed
from tests.e2e.manifests import Manifest
from tests.e2e.processes import Watchdog
from tests.e2e.workspace import Workspace
from tonnage.clock import SystemClock
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.records import ConfigMap
from tonnage.embedded.world import EmbeddedWorld
from tonnage.embedded.world.behaviour import Delay, DriverBehaviour, WorldBehaviour
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from tonnage.providers.kwok_objects import CSI_NODE_ANNOTATION, GROUP_LABEL

DRIVER = "disk.example.com"
STORAGE_CLASS = "disk"
PATIENCE = 240.0
"""Seconds that anything may take; long, because only what fails ever takes them."""
QUICK: dict[str, object] = {
    "scanInterval": 1,
    "batchWindow": 0.5,
    # Pods that come together are decided on together, however slowly they come.
    "batchWindowMax": 120,
    "claimBindWait": 0,
}
"""Settings of an autoscaler that nobody has to wait for."""


class Stage:
    """Where one test of the autoscaler plays; `stage` removes all of it."""

    def __init__(
        self, work: Workspace, directory: Path, *, background: Background, watchdog: Watchdog
    ) -> None:
        self.work = work
        self.cluster = work.cluster
        self._directory = directory
        self._watchdog = watchdog
        self.background = background
        self._clients = contextlib.AsyncExitStack()
        self._client: Client = background.run(
            self._clients.enter_async_context(connected(work.cluster.kubeconfig()))
        )
        self._replicas: list[Autoscaler] = []
        self._gates: list[Gate] = []
        self._rights_taken = False
        self._history = History(self._client, work.namespace)
        self.world: EmbeddedWorld
        background.start(self._history.mirror.run())
        background.run(self._history.synced())

    # Setting it up

    def play(self, *drivers: DriverBehaviour, **behaviour: object) -> None:
        """Play the kubelets of all groups, and these drivers."""
        told = WorldBehaviour(
            **{  # type: ignore[arg-type]
                "drivers": drivers,
                "start": Delay(0.5),
                "pod_start": Delay(0.2),
                "provision": Delay(0.1),
                "attach": Delay(0.1),
                "detach": Delay(0.1),
                **behaviour,
            }
        )

        async def begun() -> EmbeddedWorld:
            return EmbeddedWorld(self._client, SystemClock(), told, random.Random(1))

        self.world = self.background.run(begun())
        self.background.start(self.world.run())

    def groups(self, *groups: Manifest) -> None:
        """What may be bought from now on."""
        data = {f"{one['metadata']['name']}.yaml": json.dumps(one) for one in groups}
        self.cluster.kubectl(
            "apply", "-f", "-",
            stdin=json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": deployed.NODE_GROUPS, "namespace": deployed.NAMESPACE},
                    "data": data,
                }
            ),
        )  # fmt: skip

    def storage(self, *, opt_in: bool | None = None, driver: str = DRIVER) -> None:
        """A driver, and a class of its volumes."""
        self.work.create(
            manifests.csidriver(driver, opt_in=opt_in),
            manifests.storage_class(STORAGE_CLASS, driver),
        )

    def opt_in(self, on: bool) -> None:
        """Let the driver want pods kept off nodes without it, or not."""
        patch = json.dumps({"spec": {"preventPodSchedulingIfMissing": on}})
        self.cluster.kubectl("patch", "csidriver", DRIVER, "--type=merge", "-p", patch)

    def create_with_volume(self, pod: str) -> None:
        """A pod with a volume that exists, which nobody has to make on its node first."""
        self.work.create_with_volume(pod, driver=DRIVER, storage_class=STORAGE_CLASS)

    def take_right(self, role: str, *, resource: str, verbs: set[str]) -> None:
        """Change one of the shipped ClusterRoles."""
        self._rights_taken = True
        deployed.take_right(self.cluster, role, resource=resource, verbs=verbs)

    def give_rights_back(self) -> None:
        deployed.apply(self.cluster)
        self._rights_taken = False

    def autoscaler(
        self, settings: Settings | None = None, *, gate: Gate | None = None, **others: object
    ) -> Autoscaler:
        """A replica that leads, with settings of its own if none are given."""
        autoscaler = self.replica("tonnage", settings or self.settings(**others), gate=gate)
        autoscaler.start()
        autoscaler.wait_leading()
        self.wait_healthy(autoscaler)
        return autoscaler

    def settings(self, **settings: object) -> Settings:
        """A configuration file; what is not set is quick."""
        return Settings(self._directory / "config.yaml", {**QUICK, **settings})

    def replica(self, name: str, settings: Settings, *, gate: Gate | None = None) -> Autoscaler:
        """One that has not started yet."""
        made = Autoscaler(
            name,
            cluster=self.cluster,
            directory=self._directory,
            watchdog=self._watchdog,
            server=gate.server if gate is not None else "",
            config=settings.path,
        )
        self._replicas.append(made)
        return made

    def gate(self) -> Gate:
        gate = Gate.open(self.cluster, self.background)
        self._gates.append(gate)
        return gate

    def forget_leader(self) -> None:
        """Let the next replica start at once, instead of when the lease of a dead one expires."""
        self.cluster.kubectl("delete", "lease", "--all", "-n", deployed.NAMESPACE)

    @property
    def client(self) -> Client:
        """With all rights, to be used in the background."""
        return self._client

    # Looking

    def see(self, look: Callable[[History], Any], *kinds: type[Any]) -> Any:
        """What has been told so far; of these kinds, of all that the server has by now."""

        async def looked() -> Any:
            await self._history.caught_up(*kinds)
            return look(self._history)

        return self.background.run(looked())

    def running(self) -> dict[str, str]:
        """The pods that run, each with its node."""
        found: dict[str, str] = self.see(History.running)
        return found

    def uids(self) -> dict[str, str]:
        """Who the pods are: one that was deleted and made again is another."""
        found: dict[str, str] = self.see(History.uids)
        return found

    def nodes(self, group: str) -> list[str]:
        found: list[str] = self.see(lambda history: history.nodes(group), Node)
        return found

    def ready_nodes(self, group: str) -> list[str]:
        found: list[str] = self.see(lambda history: history.nodes(group, ready=True), Node)
        return found

    def sizes(self, group: str) -> list[int]:
        """Every size the group was asked to have, in order."""
        found: list[int] = self.see(lambda history: list(history.sizes(group)), ConfigMap)
        return found

    def placed(self) -> list[Placed]:
        """Pods that were bound, and claims whose volume was wanted on a node."""
        kinds = (Pod, PersistentVolumeClaim)
        found: list[Placed] = self.see(History.placed, *kinds)
        return found

    def too_early(self) -> list[Placed]:
        """Those that were given a node on which the driver had not registered yet."""
        kinds = (Pod, PersistentVolumeClaim, CSINode)
        found: list[Placed] = self.see(lambda history: history.too_early(DRIVER), *kinds)
        return found

    def grown_to(self, group: str, size: int) -> bool:
        """Whether the group has this size, was never asked to have more, and gave nothing back."""
        sizes = self.sizes(group)
        return sizes[-1] == size and sizes == sorted(sizes)

    def wait_running(self, pods: int, *, within: float = PATIENCE) -> None:
        wait_until(
            lambda: len(self.running()) == pods,
            within=within,
            what=f"{pods} pods run",
            late=self._told,
        )

    def wait(self, condition: Callable[[], bool], what: str, *, within: float = PATIENCE) -> None:
        wait_until(condition, what=what, within=within, late=self._told)

    def wait_healthy(self, autoscaler: Autoscaler) -> None:
        self.wait(lambda: autoscaler.healthy, f"{autoscaler.program.name} is healthy")

    def wait_registered(self, *nodes: str) -> None:
        """Until the driver has registered on these nodes."""

        def registered(history: History) -> bool:
            return all(history.has_registered(node, DRIVER) for node in nodes)

        self.wait(lambda: bool(self.see(registered)), f"{DRIVER} has registered on {nodes}")

    def wait_event(self, node: str, reason: str) -> None:
        """Until a node's event has been written, which is nothing that anybody waits for."""

        def told() -> bool:
            chosen = f"involvedObject.name={node},reason={reason}"
            return bool(
                self.cluster.kubectl("get", "events", "-A", "--field-selector", chosen, "-oname")
            )

        self.wait(told, f"an event of {node} says {reason}")

    def stays(self, condition: Callable[[], bool], *, seconds: float) -> bool:
        """Whether it is so all the while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not condition():
                return False
            time.sleep(0.1)
        return True

    def _told(self) -> str:
        return "\n".join(one.last_words() for one in self._replicas)

    # Taking it down

    def logs(self) -> list[tuple[str, str]]:
        return [(one.program.name, one.last_words()) for one in self._replicas]

    def remove(self) -> None:
        for replica in self._replicas:
            replica.program.kill()
        for gate in self._gates:
            gate.close()
        self.background.cancel()
        kubectl = self.cluster.kubectl
        kubectl("delete", "nodes", "-l", GROUP_LABEL, *NO_KUBELET)
        kubectl("delete", "configmaps,leases", "--all", "-n", deployed.NAMESPACE, *NO_KUBELET)
        if self._rights_taken:
            self.give_rights_back()
        self.background.run(self._remove_volumes())
        self.background.run(self._clients.aclose())

    async def _remove_volumes(self) -> None:
        """Also what somebody would still have to let go of, who plays no more after this."""
        free: dict[str, object] = {"metadata": {"finalizers": []}}
        kinds: tuple[type[Any], ...] = (VolumeAttachment, PersistentVolume)
        places = asyncio.Semaphore(8)

        async def removed(kind: type[Any], name: str) -> None:
            async with places:
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(kind, name)
                    await self._client.patch(kind, name, free)

        for kind in kinds:
            listing = await self._client.list(kind)
            await asyncio.gather(*(removed(kind, one.metadata.name) for one in listing.items))


@contextmanager
def stage(work: Workspace, directory: Path, *, watchdog: Watchdog) -> Iterator[Stage]:
    """A stage that is empty again afterwards."""
    with Background() as background:
        made = Stage(work, directory, background=background, watchdog=watchdog)
        try:
            yield made
        finally:
            made.remove()


# Manifests


def group(
    name: str,
    *,
    limit: int | None = None,
    most: int = 20,
    csi_node: str = "registered",
    driver: str = DRIVER,
    cpu: str = "16",
) -> Manifest:
    """A node group. With a limit, its provider says that new nodes have the driver."""
    offered = {"cpu": cpu, "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    template: Manifest = {
        "node": {
            "metadata": {"labels": {"kubernetes.io/os": "linux"}},
            "status": {"capacity": offered, "allocatable": offered},
        }
    }
    if limit is not None:
        entry = {"name": driver, "nodeID": "any", "allocatable": {"count": limit}}
        template["csiNode"] = {"spec": {"drivers": [entry]}}
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {"name": name, "annotations": {CSI_NODE_ANNOTATION: csi_node}},
        "spec": {"minSize": 0, "maxSize": most, "template": template},
    }


def old_node(name: str, *, group: str) -> Manifest:
    """A node of a group that has been ready for an hour, so that it can stand for the group."""
    made = manifests.node(name, cpu="16", labels={GROUP_LABEL: group})
    hour_ago = datetime.fromtimestamp(time.time() - 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for condition in made["status"]["conditions"]:
        condition["lastTransitionTime"] = hour_ago
    return made


def stateful_set(
    name: str, replicas: int, *, namespace: str, selector: Mapping[str, str] | None = None
) -> Manifest:
    """Pods with a claim each, all started at once."""
    labels = {"app": name}
    template = manifests.pod("any", namespace=namespace, cpu="100m", labels=labels)
    template["spec"]["nodeSelector"] = dict(selector or {})
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claim = manifests.claim("data", STORAGE_CLASS, namespace=namespace)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim["spec"]}],
        },
    }
