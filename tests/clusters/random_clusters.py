"""Puts random clusters together: nodes, what is on them, and what waits."""

import msgspec

from tests.clusters import rules
from tests.clusters.dice import Dice
from tests.clusters.storage import DRIVERS, IN_TREE, REGION, ZONES, StorageMaker
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import Condition, Quantity, ResourceList
from tonnage.objects.nodes import Node
from tonnage.objects.pods import (
    Container,
    ContainerRestartRule,
    ContainerStatus,
    Pod,
    ResourceRequirements,
    VolumeMount,
)
from tonnage.objects.storage import CSINode, NodeDriver, NodeDriverAllocatable
from tonnage.objects.volume_sources import CSISource, VolumeSource
from tonnage.testing import builders

GPU = "example.com/gpu"
GATES: tuple[dict[str, bool], ...] = (
    {},
    {},
    {"VolumeLimitScaling": False},
    {"TaintTolerationComparisonOperators": True},
)
FEATURES = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
)


class RandomCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Objects as a server would have them, and the feature gates to look at them with."""

    objects: tuple[KubeObject, ...]
    gates: dict[str, bool]


def random_cluster(seed: int) -> RandomCluster:
    """A cluster of 2 to 12 nodes. A quarter of them also hold things a server should refuse."""
    dice = Dice(seed)
    odd = dice.chance(0.25)
    names = tuple(f"n{number}" for number in range(dice.between(2, 12)))
    nodes = [_node(dice, name) for name in names]
    storage = StorageMaker(dice, names, odd=odd)
    storage.add_classes()
    storage.add_drivers()
    makes = _PodMaker(dice, storage, names, odd=odd)
    pods = [makes.running(f"run-{number}") for number in range(dice.between(0, 4 * len(names)))]
    pods += [makes.pending(f"pend-{number}") for number in range(dice.between(1, 12))]
    storage.add_static_volumes()
    csi_nodes = [_csi_node(dice, name) for name in names if dice.chance(0.88)]
    return RandomCluster(
        objects=(
            builders.namespace("default", {"team": "blue"}),
            builders.namespace("other", {"team": "red"} if dice.chance(0.7) else {}),
            *nodes,
            *csi_nodes,
            *storage.objects,
            *pods,
        ),
        gates=dice.pick(GATES),
    )


def _node(dice: Dice, name: str) -> Node:
    labels = {
        "disk": dice.pick(("ssd", "hdd")),
        "gen": dice.pick(("3", "5", "9", "v9")),
        **({"topology.kubernetes.io/region": REGION} if dice.chance(0.7) else {}),
    }
    zone = dice.pick(ZONES)
    spelled = dice.weighted({"now": 12, "before": 1, "both": 1, "not": 1})
    if spelled in ("before", "both"):
        labels["failure-domain.beta.kubernetes.io/zone"] = zone
    if dice.chance(0.5):
        labels["topology.ebs.csi.aws.com/zone"] = zone
        labels["topology.gke.io/zone"] = zone
    if dice.chance(0.6):
        labels["rack"] = dice.pick(("r1", "r2", ""))
    allocatable: ResourceList = {GPU: dice.between(0, 4)} if dice.chance(0.3) else {}
    if dice.chance(0.1):
        allocatable["hugepages-2Mi"] = "64Mi"
    node = builders.node(
        name,
        cpu=dice.weighted({"2": 1, "3900m": 2, "16": 4}),
        memory=dice.weighted({"4Gi": 1, "16Gi": 2, "64Gi": 4}),
        pods=dice.weighted({110: 20, 5: 3, 0: 1}),
        ephemeral_storage=dice.pick(("20Gi", "100Gi")),
        allocatable=allocatable,
        zone=zone if spelled in ("now", "both") else "",
        labels=labels,
        taints=[rules.taint(dice) for _ in range(dice.weighted({0: 16, 1: 2, 2: 1}))],
        unschedulable=dice.chance(0.03),
        features=sorted(dice.some(FEATURES, least=0)),
    )
    if dice.chance(0.03):
        nameless = {
            key: value for key, value in node.metadata.labels.items() if key != builders.HOSTNAME
        }
        node = msgspec.structs.replace(
            node, metadata=msgspec.structs.replace(node.metadata, labels=nameless)
        )
    return node


def _csi_node(dice: Dice, name: str) -> CSINode:
    drivers = dice.some(DRIVERS, least=0) if dice.chance(0.2) else DRIVERS
    base = builders.csinode(name, migrated=dice.some(IN_TREE, least=0))
    entries = tuple(_driver_entry(dice, driver) for driver in drivers if dice.chance(0.9))
    return msgspec.structs.replace(base, spec=msgspec.structs.replace(base.spec, drivers=entries))


def _driver_entry(dice: Dice, driver: str) -> NodeDriver:
    allocatable = dice.weighted(
        {None: 1, NodeDriverAllocatable(): 1, **_limits((0, 1), 1), **_limits((2, 3, 5, 25), 3)}
    )
    return NodeDriver(name=driver, node_id=driver, allocatable=allocatable)


def _limits(counts: tuple[int, ...], weight: int) -> dict[NodeDriverAllocatable, int]:
    return {NodeDriverAllocatable(count=count): weight for count in counts}


class _PodMaker:
    """Makes pods whose claims exist in the storage maker's namespaces."""

    def __init__(
        self, dice: Dice, storage: StorageMaker, nodes: tuple[str, ...], *, odd: bool
    ) -> None:
        self._dice = dice
        self._storage = storage
        self._nodes = nodes
        self._odd = odd

    def running(self, name: str) -> Pod:
        dice = self._dice
        pod = self._pod(name, on=dice.pick((*self._nodes, *self._nodes, "gone")))
        if dice.chance(0.08):
            return _finished(pod, dice.pick(("Succeeded", "Failed")))
        if dice.chance(0.1):
            return self._resizing(pod)
        return pod

    def pending(self, name: str) -> Pod:
        return self._pod(name, on="")

    def _pod(self, name: str, *, on: str) -> Pod:
        dice = self._dice
        namespace = dice.weighted({"default": 6, "other": 3, "unlisted": 1})
        ephemeral = ["scratch"] if dice.chance(0.12) else []
        pod = builders.pod(
            name,
            namespace=namespace,
            labels={"app": dice.pick(rules.APPS), **self._tier()},
            on=on,
            deleting=bool(on) and dice.chance(0.06),
            cpu=dice.weighted({None: 4, "0": 2, "100m": 10, "250m": 10, "1500m": 3, "5": 1}),
            memory=dice.weighted({None: 4, "64Mi": 10, "1Gi": 6, "1.5Gi": 4, "20Gi": 1}),
            requests=self._extra_requests(),
            overhead={"cpu": "10m", "memory": "16Mi"} if dice.chance(0.1) else None,
            init_containers=self._init_containers(),
            host_ports=[rules.host_port(dice)] if dice.chance(0.1) else (),
            pvcs=[
                self._storage.claim_for(namespace)
                for _ in range(dice.weighted({0: 5, 1: 5, 2: 3, 4: 1}))
            ],
            ephemeral=ephemeral,
            volumes=self._other_volumes(),
            node_selector={"disk": "ssd"} if dice.chance(0.08) else None,
            node_affinity=rules.node_selector(dice, self._nodes) if dice.chance(0.15) else None,
            near=[rules.affinity_term(dice, odd=self._odd) for _ in range(self._few(0.12))],
            apart=[rules.affinity_term(dice, odd=self._odd) for _ in range(self._few(0.12))],
            tolerations=[rules.toleration(dice) for _ in range(self._few(0.35))],
            spread=[
                rules.spread(dice, hard=dice.chance(0.8), odd=self._odd)
                for _ in range(self._few(0.25))
            ],
            gates=["example.com/a", "example.com/b"] if not on and dice.chance(0.02) else (),
        )
        for volume in ephemeral:
            self._storage.ephemeral_for(pod, volume)
        if dice.chance(0.04):
            pod = self._with_pod_level_requests(pod)
        return self._needing_features(pod) if dice.chance(0.06) else pod

    def _few(self, probability: float) -> int:
        return self._dice.between(1, 2) if self._dice.chance(probability) else 0

    def _tier(self) -> dict[str, str]:
        return {"tier": self._dice.pick(("1", "2"))} if self._dice.chance(0.8) else {}

    def _extra_requests(self) -> ResourceList:
        dice = self._dice
        extra: dict[str, Quantity] = {}
        if dice.chance(0.06):
            extra[GPU] = dice.between(0, 3)
        if dice.chance(0.1):
            extra["ephemeral-storage"] = dice.pick(("1Gi", "30Gi"))
        if dice.chance(0.02):
            extra["hugepages-2Mi"] = "32Mi"
        if dice.chance(0.03):
            extra["nonsense"] = 7
        return extra

    def _init_containers(self) -> list[Container]:
        dice = self._dice
        return [
            builders.container(
                f"init-{number}",
                cpu=dice.pick((None, "100m", "2")),
                host_ports=[rules.host_port(dice)] if dice.chance(0.1) else (),
                sidecar=dice.chance(0.5),
            )
            for number in range(dice.weighted({0: 12, 1: 2, 2: 1}))
        ]

    def _other_volumes(self) -> list[VolumeSource]:
        dice = self._dice
        volumes = []
        if dice.chance(0.15):
            volumes.append(self._storage.inline("disk"))
        if dice.chance(0.05):
            driver = dice.pick(DRIVERS)
            volumes.append(VolumeSource(name="inline-csi", csi=CSISource(driver=driver)))
        if dice.chance(0.1):
            volumes.append(VolumeSource(name="config"))
        return volumes

    def _with_pod_level_requests(self, pod: Pod) -> Pod:
        amounts: ResourceList = {"cpu": self._dice.pick(("300m", "3")), "ephemeral-storage": "1Gi"}
        wanted = ResourceRequirements(requests=amounts)
        return msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, resources=wanted)
        )

    def _needing_features(self, pod: Pod) -> Pod:
        main, *others = pod.spec.containers
        match self._dice.between(1, 3):
            case 1:
                spec = msgspec.structs.replace(pod.spec, host_network=True, host_users=False)
            case 2:
                rule = ContainerRestartRule(action="RestartAllContainers")
                main = msgspec.structs.replace(main, restart_policy_rules=(rule,))
                spec = msgspec.structs.replace(pod.spec, containers=(main, *others))
            case _:
                mount = VolumeMount(bind_mount_options=("noexec",))
                main = msgspec.structs.replace(main, volume_mounts=(mount,))
                spec = msgspec.structs.replace(pod.spec, containers=(main, *others))
        return msgspec.structs.replace(pod, spec=spec)

    def _resizing(self, pod: Pod) -> Pod:
        """A pod whose resources are being changed in place, or cannot be."""
        dice = self._dice
        status = ContainerStatus(
            name="main",
            resources=ResourceRequirements(requests={"cpu": dice.pick(("50m", "2"))}),
            allocated_resources={"cpu": dice.pick(("100m", "3")), "memory": "128Mi"},
        )
        stuck = Condition(type="PodResizePending", status="True", reason="Infeasible")
        return msgspec.structs.replace(
            pod,
            status=msgspec.structs.replace(
                pod.status,
                container_statuses=(status,),
                conditions=(stuck,) if dice.chance(0.3) else (),
            ),
        )


def _finished(pod: Pod, phase: str) -> Pod:
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase))
