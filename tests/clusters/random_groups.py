"""Random clusters with node groups and sets of pods that wait, for properties of plans.

    scenario = random_scenario(seed)
    plan = decide(scenario.objects, options=options.of(scenario.options), ...)

Some of them are the clusters of `tests.clusters` with node groups around their nodes,
most are plain ones, where the rules of the waiting sets meet less noise.
"""

from collections.abc import Iterable, Iterator

import msgspec

from tests.clusters import random_cluster, rules
from tests.clusters.dice import Dice
from tests.clusters.storage import DRIVERS, EBS, IN_TREE, LOCAL, PD, ZONES
from tonnage.objects import timestamps
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import LabelRequirement, LabelSelector, ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.pods import (
    PodAffinityTerm,
    PodTemplateSpec,
    Toleration,
    TopologySpreadConstraint,
)
from tonnage.objects.scenarios import (
    GroupTemplate,
    NodeGroup,
    NodeGroupSpec,
    SlotPool,
    StorageCapacity,
)
from tonnage.objects.storage import CSIDriver, CSINode, CSIStorageCapacity, PersistentVolumeClaim
from tonnage.objects.workloads import DaemonSet, DaemonSetSpec
from tonnage.testing import builders

UPSTREAM = "cluster-autoscaler-1.37"
NOW = timestamps.parse("2027-01-15T08:00:00Z")
_A_MINUTE_AGO = "2027-01-15T07:59:00Z"

_EXPANDERS = ("least-waste", "most-pods", "least-nodes", "price", "random", "least-waste,most-pods")
_CLAIMS = {"none": 8, "own": 6, "two": 3, "shared": 2, "bound": 2, "zonal": 2, "mixed": 1}


class RandomScenario(msgspec.Struct, frozen=True, kw_only=True):
    """Objects, the feature gates to look at them with, and the options of the decision."""

    objects: tuple[KubeObject, ...]
    gates: dict[str, bool]
    options: dict[str, object]


def random_scenario(seed: int) -> RandomScenario:
    """A cluster of up to 12 nodes, 1 to 6 groups and up to 60 pods that wait."""
    dice = Dice(seed)
    base = random_cluster(seed)
    objects = list(base.objects) if dice.chance(0.4) else _plain(dice)
    nodes = [obj for obj in objects if isinstance(obj, Node)]
    if dice.chance(0.15):
        nodes = [_just_created(dice, node) for node in nodes]
        objects = [*nodes, *(obj for obj in objects if not isinstance(obj, Node))]
    makes = _SetMaker(dice)
    objects += [one for number in range(dice.between(1, 4)) for one in makes.set(f"set-{number}")]
    objects += _groups(dice, [node.metadata.name for node in nodes])
    if dice.chance(0.2):
        objects.append(_daemon_set(dice))
    if dice.chance(0.4):
        objects = list(laid_over(dice, objects))
    return RandomScenario(objects=tuple(objects), gates=base.gates, options=_options(dice))


def _options(dice: Dice) -> dict[str, object]:
    """Mostly the defaults, so that limits do not hide everything else."""
    return {
        "compatibility": dice.pick(("none", UPSTREAM)),
        "expander": dice.pick(_EXPANDERS),
        "csiAware": dice.chance(0.85),
        "balanceSimilarNodeGroups": dice.chance(0.5),
        "maxNodesTotal": dice.weighted({0: 8, dice.between(1, 16): 1}),
        "maxNodesPerScaleUp": dice.weighted({1000: 8, dice.between(1, 4): 1}),
        "coresTotal": dice.weighted({320_000: 12, dice.between(8, 100): 1}),
        "randomSeed": dice.between(0, 9),
        "pools": [_pool(dice)] if dice.chance(0.2) else [],
    }


def _pool(dice: Dice) -> dict[str, object]:
    members = {driver: dice.between(1, 2) for driver in dice.some((EBS, PD, LOCAL), least=2)}
    return {
        "name": "shared",
        "size": dice.between(1, 9),
        "members": members,
        "occupied": dice.between(0, 2),
    }


def _plain(dice: Dice) -> list[KubeObject]:
    """A few ordinary nodes, the classes, and drivers that may have opted in."""
    objects: list[KubeObject] = [builders.namespace("default")]
    for name, provisioner in (("ebs", EBS), ("pd", PD), ("local", LOCAL)):
        objects.append(builders.storage_class(name, provisioner))
        if dice.chance(0.5):
            objects.append(builders.csidriver(provisioner, opt_in=dice.chance(0.5)))
    for number in range(dice.between(0, 4)):
        # Nodes may have the names that a plan before this one had for them.
        name = dice.weighted({f"n{number}": 12, f"family-{ZONES[0]}-new-{number + 1}": 1})
        objects.append(_node(dice, name, dice.pick(ZONES)))
        if dice.chance(0.9):
            objects.append(_csi_node(dice, name))
        for one in range(dice.between(0, 2)):
            labels = {"app": dice.pick(rules.APPS), "tier": "1"}
            objects.append(builders.pod(f"on-{name}-{one}", on=name, labels=labels, cpu="500m"))
    return objects


def _node(dice: Dice, name: str, zone: str) -> Node:
    labels = {"disk": dice.pick(("ssd", "hdd"))}
    if dice.chance(0.3):
        labels["rack"] = dice.pick(("r1", "r2"))
    return builders.node(
        name,
        cpu=dice.pick(("2", "2", "4", "16")),
        memory=dice.pick(("2Gi", "8Gi", "32Gi")),
        pods=dice.weighted({110: 6, 4: 2, 8: 2}),
        zone=zone if dice.chance(0.95) else "",
        labels=labels,
        taints=[rules.taint(dice)] if dice.chance(0.06) else (),
    )


def _csi_node(dice: Dice, name: str) -> CSINode:
    limits = {
        driver: dice.weighted({None: 2, 0: 1, 1: 1, 2: 3, 3: 3, 8: 4})
        for driver in DRIVERS
        if dice.chance(0.9)
    }
    return builders.csinode(name, limits, migrated=dice.some(IN_TREE, least=0))


def _just_created(dice: Dice, node: Node) -> Node:
    """Some nodes are young, so that a driver they lack may yet come."""
    if dice.chance(0.5):
        return node
    metadata = msgspec.structs.replace(node.metadata, creation_timestamp=_A_MINUTE_AGO)
    return msgspec.structs.replace(node, metadata=metadata)


def _daemon_set(dice: Dice) -> DaemonSet:
    pod = builders.pod(
        "agent",
        cpu=dice.pick(("100m", "500m")),
        host_ports=[8080] if dice.chance(0.3) else (),
        tolerations=[Toleration(operator="Exists")] if dice.chance(0.5) else (),
        volumes=[builders.ephemeral_volume("cache", storage_class="ebs")]
        if dice.chance(0.2)
        else (),
    )
    labels = {"app": dice.pick(rules.APPS)} if dice.chance(0.3) else {}
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=pod.spec)
    metadata = ObjectMeta(name="agent", namespace="default", uid="uid-ds-agent")
    return DaemonSet(metadata=metadata, spec=DaemonSetSpec(template=template))


class _SetMaker:
    """Makes sets of like pods; the sets of one cluster know each other's labels."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def set(self, name: str) -> Iterator[KubeObject]:
        """The pods of a set and their claims."""
        dice = self._dice
        app = dice.pick(rules.APPS)
        claims = dice.weighted(_CLAIMS)
        shape = {
            "labels": {"app": app, "tier": dice.pick(("1", "2"))},
            "cpu": dice.pick((None, "100m", "300m", "500m", "1", "1500m")),
            "memory": dice.pick((None, "64Mi", "256Mi", "1Gi")),
            "host_ports": [dice.pick((8080, 9090))] if dice.chance(0.12) else (),
            "node_selector": {"disk": "ssd"} if dice.chance(0.1) else None,
            "tolerations": [rules.toleration(dice)] if dice.chance(0.2) else (),
            "spread": [self._spread(app) for _ in range(self._few(0.4))],
            "apart": [self._term(app) for _ in range(self._few(0.25))],
            "near": [self._term(app) for _ in range(self._few(0.2))],
            "priority": dice.weighted({None: 10, 5: 1, -20: 1}),
        }
        if claims == "shared":
            yield self._claim(f"{name}-shared", modes=("ReadWriteMany",))
        for number in range(dice.weighted({1: 2, 3: 3, 7: 3, 15: 3})):
            pod = f"{name}-{number}"
            found = list(self._claims(pod, name, claims, number))
            yield from found
            names = [one.metadata.name for one in found if isinstance(one, PersistentVolumeClaim)]
            if claims == "shared":
                names.append(f"{name}-shared")
            yield builders.pod(pod, pvcs=names, **shape)  # type: ignore[arg-type]

    def _few(self, probability: float) -> int:
        dice = self._dice
        return dice.weighted({1: 3, 2: 1}) if dice.chance(probability) else 0

    def _claims(self, pod: str, name: str, kind: str, number: int) -> Iterator[KubeObject]:
        dice = self._dice
        if kind in ("own", "two") or (kind == "mixed" and number % 2):
            yield self._claim(f"{pod}-data")
        if kind == "two":
            yield self._claim(f"{pod}-log", storage_class="ebs")
        if kind in ("bound", "zonal"):
            volume = f"pv-{pod}"
            claim = builders.pvc(f"{pod}-data", storage_class="ebs", volume=volume)
            zone = dice.pick(ZONES[: 1 if name.endswith("0") else 2])
            reach = builders.nodes_with(builders.ZONE, zone) if kind == "zonal" else None
            yield claim
            yield builders.pv(
                volume, driver=EBS, storage_class="ebs", claim=claim, node_affinity=reach
            )

    def _claim(
        self,
        name: str,
        *,
        storage_class: str = "",
        modes: tuple[str, ...] = ("ReadWriteOnce",),
    ) -> PersistentVolumeClaim:
        found = storage_class or self._dice.pick(("ebs", "ebs", "pd", "local"))
        return builders.pvc(name, storage_class=found, access_modes=modes)

    def _selector(self, app: str) -> LabelSelector:
        """Mostly the set itself."""
        dice = self._dice
        other = dice.pick(rules.APPS)
        return builders.selecting({"app": app if dice.chance(0.75) else other})

    def _spread(self, app: str) -> TopologySpreadConstraint:
        dice = self._dice
        return TopologySpreadConstraint(
            max_skew=dice.weighted({1: 4, 2: 2, 3: 1}),
            topology_key=dice.pick(rules.TOPOLOGY_KEYS),
            when_unsatisfiable="DoNotSchedule",
            label_selector=self._selector(app),
            min_domains=dice.weighted({None: 6, 2: 1, 3: 1}),
            node_affinity_policy=dice.pick((None, None, "Ignore")),
            node_taints_policy=dice.pick((None, None, "Honor")),
            match_label_keys=dice.pick(((), (), ("tier",))),
        )

    def _term(self, app: str) -> PodAffinityTerm:
        return PodAffinityTerm(
            topology_key=self._dice.pick(rules.TOPOLOGY_KEYS), label_selector=self._selector(app)
        )


def _groups(dice: Dice, nodes: list[str]) -> Iterator[NodeGroup]:
    """Groups of the nodes there are, a family over zones, and one that is not in order."""
    owned: dict[str, list[str]] = {}
    for node in nodes:
        if dice.chance(0.8):
            owned.setdefault(f"live-{dice.between(0, 2)}", []).append(node)
    for name, members in owned.items():
        template = _template(dice, dice.pick(ZONES)) if dice.chance(0.5) else None
        yield _group(dice, name, template, nodes=members)
    if dice.chance(0.85):
        shape = dice.between(0, 2**30)
        for zone in dice.some(ZONES, least=2):
            # Members of a family differ in nothing but the zone.
            yield _group(dice, f"family-{zone}", _template(Dice(shape), zone))
    if dice.chance(0.3):
        yield _group(dice, "other", _template(dice, dice.pick(ZONES)))
    if dice.chance(0.1):
        yield _group(dice, "bare", GroupTemplate(node=Node()))


def _template(dice: Dice, zone: str) -> GroupTemplate:
    return GroupTemplate(
        node=_node(dice, "template", zone),
        csi_node=_csi_node(dice, "template") if dice.chance(0.8) else None,
    )


def _group(
    dice: Dice, name: str, template: GroupTemplate | None, *, nodes: list[str] | None = None
) -> NodeGroup:
    size = len(nodes or ())
    most = size + dice.weighted({0: 1, 1: 2, 3: 3, 20: 5})
    limits: dict[str, int] = {EBS: dice.between(0, 5)} if dice.chance(0.1) else {}
    return NodeGroup(
        metadata=ObjectMeta(name=name),
        spec=NodeGroupSpec(
            max_size=most,
            target_size=min(most, size + dice.between(1, 2)) if dice.chance(0.12) else None,
            scaling="zeroOrMax" if dice.chance(0.12) else "any",
            limits=limits,
            pools=(msgspec.convert(_pool(dice), SlotPool),) if dice.chance(0.1) else (),
            nodes=tuple(nodes or ()),
            price_per_hour=f"0.{dice.between(1, 9)}" if dice.chance(0.6) else None,
            template=template,
        ),
    )


_SIZES = ("1Gi", "2Gi", "3Gi", "7Gi", "20Gi")
_TEMPLATE_NODE = "cluster-autoscaler.kubernetes.io/template-node"


def laid_over(dice: Dice, objects: Iterable[KubeObject]) -> Iterator[KubeObject]:
    """The objects with capacity checked for the class `local`, and sometimes for `ebs` by zone.

    Claims get different sizes, and half of them are of the class `local` then.
    """
    zonal = dice.chance(0.25)
    checked = {LOCAL, EBS} if zonal else {LOCAL}
    for obj in objects:
        match obj:
            case CSIDriver() if obj.metadata.name in checked:
                checked.discard(obj.metadata.name)
                yield _checking(obj)
            case CSIStorageCapacity() if obj.storage_class_name in ("local", "ebs"):
                pass
            case PersistentVolumeClaim() if not obj.spec.volume_name:
                size = dice.pick(("1Gi", "1Gi", "2Gi", "3Gi"))
                yield _sized(obj, size, local=dice.chance(0.5))
            case Node():
                yield obj
                if dice.chance(0.8):
                    yield _disk(dice, obj.metadata.name)
            case NodeGroup() if dice.chance(0.6):
                yield _furnished(dice, obj)
            case _:
                yield obj
    for driver in sorted(checked):
        yield _checking(builders.csidriver(driver))
    if zonal:
        for zone in dice.some(ZONES, least=2):
            free = dice.pick(("4Gi", "9Gi", "50Gi"))
            topology = {builders.ZONE: zone}
            yield builders.capacity(f"ebs-{zone}", "ebs", free=free, topology=topology)
    if dice.chance(0.3):
        published = builders.capacity("templates", "local", free=dice.pick(_SIZES))
        yield msgspec.structs.replace(published, node_topology=_of_templates(dice))


def _of_templates(dice: Dice) -> LabelSelector:
    """Template nodes with a certain disk, by labels or by expressions."""
    disk = dice.pick(("ssd", "hdd"))
    if dice.chance(0.5):
        return builders.selecting({_TEMPLATE_NODE: "true", "disk": disk})
    return builders.selecting(
        {},
        LabelRequirement(key=_TEMPLATE_NODE, operator="Exists"),
        LabelRequirement(key="disk", operator=dice.pick(("In", "NotIn")), values=(disk,)),
    )


def _checking(driver: CSIDriver) -> CSIDriver:
    spec = msgspec.structs.replace(driver.spec, storage_capacity=True)
    return msgspec.structs.replace(driver, spec=spec)


def _sized(claim: PersistentVolumeClaim, size: str, *, local: bool) -> PersistentVolumeClaim:
    resources = msgspec.structs.replace(claim.spec.resources, requests={"storage": size})
    name = "local" if local else claim.spec.storage_class_name
    spec = msgspec.structs.replace(claim.spec, resources=resources, storage_class_name=name)
    return msgspec.structs.replace(claim, spec=spec)


def _disk(dice: Dice, node: str) -> CSIStorageCapacity:
    largest = dice.weighted({None: 4, dice.pick(_SIZES): 1})
    topology = {"kubernetes.io/hostname": node}
    return builders.capacity(
        f"local-{node}", "local", free=dice.pick(_SIZES), largest=largest, topology=topology
    )


def _furnished(dice: Dice, group: NodeGroup) -> NodeGroup:
    if group.spec.template is None:
        return group
    room = StorageCapacity(storage_class_name="local", capacity=dice.pick(_SIZES))
    template = msgspec.structs.replace(group.spec.template, storage_capacity=(room,))
    return msgspec.structs.replace(
        group, spec=msgspec.structs.replace(group.spec, template=template)
    )
