"""Small clusters for tests of consolidation, built by keyword or by chance."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.scaledown.clusters import DB, WEB, budget, db, web
from tonnage.api import Cluster
from tonnage.consolidation.plan import ConsolidatedNode, ConsolidationPlan
from tonnage.consolidation.state import ConsolidationState
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.testing import builders as make

DRIVER = "disk.example.com"

EXACT: dict[str, Any] = {"horizon": 3600.0, "minSavingPercent": 0.0, "minSavingPerDisruption": 0.0}
WITHIN_THE_HOUR: dict[str, Any] = {"minSavingPercent": 0.0}
"""The default: a saving counts for a day, and moves have to pay back within an hour of it."""
"""Whatever is worth its moves within an hour is done."""


def group(
    name: str,
    *nodes: str,
    price: str | None = None,
    cpu: str = "4",
    slots: int = 25,
    zone: str = "",
    least: int = 0,
    most: int = 10,
) -> list[KubeObject]:
    """A group with its nodes, all alike, and the template of the next one."""
    spec = NodeGroupSpec(
        min_size=least,
        max_size=most,
        nodes=nodes,
        price_per_hour=price,
        template=GroupTemplate(
            node=make.node("template", cpu=cpu, zone=zone),
            csi_node=make.csinode("", {DRIVER: slots}),
        ),
    )
    return [
        NodeGroup(metadata=ObjectMeta(name=name), spec=spec),
        *(make.node(node, cpu=cpu, zone=zone) for node in nodes),
        *(make.csinode(node, {DRIVER: slots}) for node in nodes),
    ]


def volume(claim: str, on: str, **fields: Any) -> list[KubeObject]:
    """A claim bound to a volume of the driver, attached to the node."""
    asking = make.pvc(claim, storage_class="disk", volume=f"pv-{claim}")
    bound = make.pv(f"pv-{claim}", driver=DRIVER, storage_class="disk", claim=asking, **fields)
    return [asking, bound, make.attachment(f"pv-{claim}", on, attacher=DRIVER)]


def plan(
    *objects: KubeObject, state: ConsolidationState | None = None, **options: Any
) -> ConsolidationPlan:
    """The plan with these options of `consolidation`."""
    known = [WEB, DB, make.storage_class("disk", DRIVER), *objects]
    return Cluster(known).consolidate({"consolidation": options}, state=state)


def nodes(made: ConsolidationPlan) -> dict[str, ConsolidatedNode]:
    return {node.node: node for node in made.nodes}


def going(made: ConsolidationPlan) -> list[str]:
    return sorted(node.node for node in made.going)


def bought(made: ConsolidationPlan) -> dict[str, int]:
    return {one.group: len(one.nodes) for one in made.buys if not one.spare}


class NodeType(NamedTuple):
    """Nodes of a group: what they have, what they cost, how many there may be."""

    group: str
    cpu: int
    slots: int
    zone: str
    price: float
    least: int
    most: int


class RandomPod(NamedTuple):
    name: str
    node: str
    cpu: int
    volumes: int
    zone: str
    weight: int


class RandomCluster(NamedTuple):
    types: Sequence[NodeType]
    type_of: dict[str, NodeType]
    pods: Sequence[RandomPod]
    objects: list[KubeObject]


def random_cluster(seed: int) -> RandomCluster:
    """Two to five nodes of up to three types in up to two zones; pods with volumes."""
    rng = random.Random(seed)
    zones = ("z1",) if rng.random() < 0.6 else ("z1", "z2")
    types = [
        NodeType(
            f"g{number}",
            rng.choice((2000, 4000, 8000)),
            rng.choice((1, 2, 4)),
            rng.choice(zones),
            rng.randint(5, 100) / 100,
            rng.choice((0, 0, 1)),
            rng.randint(2, 5),
        )
        for number in range(rng.randint(2, 3))
    ]
    type_of: dict[str, NodeType] = {}
    for number in range(rng.randint(2, 5)):
        chosen = rng.choice(types)
        if sum(one is chosen for one in type_of.values()) < chosen.most:
            type_of[f"n{number}"] = chosen
    pods: list[RandomPod] = []
    for number in range(rng.randint(2, 8)):
        node = rng.choice([*type_of])
        on = [pod for pod in pods if pod.node == node]
        cpu, volumes = rng.choice((300, 700, 1500, 3000)), rng.choice((0, 0, 1, 2))
        kind = type_of[node]
        if sum(pod.cpu for pod in on) + cpu > kind.cpu:
            continue
        if sum(pod.volumes for pod in on) + volumes > kind.slots:
            continue
        zone = kind.zone if volumes and rng.random() < 0.7 else ""
        pods.append(RandomPod(f"p{number}", node, cpu, volumes, zone, rng.choice((0, 0, 3, 40))))
    return RandomCluster(types, type_of, pods, _objects(rng, types, type_of, pods))


def _objects(
    rng: random.Random,
    types: Sequence[NodeType],
    type_of: dict[str, NodeType],
    pods: Sequence[RandomPod],
) -> list[KubeObject]:
    objects: list[KubeObject] = [WEB, DB, make.storage_class("disk", DRIVER)]
    for one in types:
        objects += group(
            one.group,
            *(node for node, kind in type_of.items() if kind is one),
            price=str(one.price),
            cpu=f"{one.cpu}m",
            slots=one.slots,
            zone=one.zone,
            least=one.least,
            most=one.most,
        )
    for pod in pods:
        claims = [f"{pod.name}-{number}" for number in range(pod.volumes)]
        affinity = make.nodes_with(make.ZONE, pod.zone) if pod.zone else None
        for claim in claims:
            objects += volume(claim, pod.node, node_affinity=affinity)
        make_pod = rng.choice((web, db))
        made = make_pod(pod.name, pod.node, cpu=f"{pod.cpu}m", pvcs=claims)
        if pod.weight:
            made.metadata.annotations["node-autoscaling.kubernetes.io/disruption-cost"] = str(
                pod.weight
            )
        objects.append(made)
    for app in ("web", "db"):
        if rng.random() < 0.3:
            objects.append(budget(rng.randint(1, 2), app))
    return objects
