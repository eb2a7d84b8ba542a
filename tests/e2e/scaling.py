"""A stage for the autoscaler: node groups, somebody who plays their nodes, and `tonnage run`."""

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
from tests.e2e.connecting import connected
from tests.e2e.controlplane import wait_until
from tests.e2e.gate import Gate
from tests.e2e.history import History
from tests.e2e.manifests import Manifest
from tests.e2e.processes import Watchdog
from tests.e2e.workspace import Workspace
from tonnage.clock import SystemClock
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.embedded.world import World
from tonnage.embedded.world.behaviour import Delay, DriverBehaviour, WorldBehaviour
from tonnage.objects.storage import PersistentVolume, VolumeAttachment
from tonnage.providers.kwok_objects import CSI_NODE_ANNOTATION, GROUP_LABEL

DRIVER = "disk.example.com"
STORAGE_CLASS = "disk"
QUICK: dict[str, object] = {"scanInterval": 1, "batchWindow": 0.5, "claimBindWait": 0}
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
        self.world: World
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

        async def begun() -> World:
            return World(self._client, SystemClock(), told, random.Random(1))

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
        namespace = self.work.namespace
        claim = manifests.claim(pod, STORAGE_CLASS, namespace=namespace, volume=pod)
        # The volume first: a claim for one that is not there yet is looked at again much later.
        self.work.create(
            manifests.volume(pod, STORAGE_CLASS, driver=DRIVER, claim=claim),
            claim,
            manifests.pod(pod, namespace=namespace, claims=[pod]),
        )

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
        self.wait(lambda: autoscaler.healthy, "the autoscaler is healthy")
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

    # Looking

    def see(self, look: Callable[[History], Any]) -> Any:
        return self.background.call(lambda: look(self._history))

    def running(self) -> dict[str, str]:
        """The pods that run, each with its node."""
        found: dict[str, str] = self.see(History.running)
        return found

    def uids(self) -> dict[str, str]:
        """Who the pods are: one that was deleted and made again is another."""
        found: dict[str, str] = self.see(History.uids)
        return found

    def nodes(self, group: str) -> list[str]:
        found: list[str] = self.see(lambda history: history.nodes(group))
        return found

    def ready_nodes(self, group: str) -> list[str]:
        found: list[str] = self.see(lambda history: history.nodes(group, ready=True))
        return found

    def sizes(self, group: str) -> list[int]:
        """Every size the group was asked to have, in order."""
        found: list[int] = self.see(lambda history: list(history.sizes(group)))
        return found

    def grown_to(self, group: str, size: int) -> bool:
        """Whether the group has this size, was never asked to have more, and gave nothing back."""
        sizes = self.sizes(group)
        return sizes[-1] == size and sizes == sorted(sizes)

    def wait_running(self, pods: int, *, within: float = 90.0) -> None:
        wait_until(
            lambda: len(self.running()) == pods,
            within=within,
            what=f"{pods} pods run",
            late=self._told,
        )

    def wait(self, condition: Callable[[], bool], what: str, *, within: float = 90.0) -> None:
        wait_until(condition, what=what, within=within, late=self._told)

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
        kubectl, namespace = self.cluster.kubectl, self.work.namespace
        now = ("--wait=false", "--ignore-not-found", "--grace-period=0", "--force")
        kubectl("delete", "statefulsets,pods,pvc", "--all", "-n", namespace, *now)
        kubectl("delete", "nodes", "-l", GROUP_LABEL, *now)
        kubectl("delete", "configmaps,leases", "--all", "-n", deployed.NAMESPACE, *now)
        if self._rights_taken:
            self.give_rights_back()
        self.background.run(self._remove_volumes())
        self.background.run(self._clients.aclose())

    async def _remove_volumes(self) -> None:
        """Also what somebody would still have to let go of, who plays no more after this."""
        free: dict[str, object] = {"metadata": {"finalizers": []}}
        kinds: tuple[type[Any], ...] = (VolumeAttachment, PersistentVolume)
        for kind in kinds:
            for one in (await self._client.list(kind)).items:
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(kind, one.metadata.name)
                    await self._client.patch(kind, one.metadata.name, free)


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
