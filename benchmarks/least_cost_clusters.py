"""Clusters to be carried at the least cost: ten groups, forty kinds of pods, and what binds.

Each shape has something else that decides: slots, two drivers, a pool, zones, spread, pods that
keep apart, maxima and quotas, amounts that nothing divides, a few kinds with nearly all pods.
"""

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.clusters import SEED
from tonnage.objects.kinds import KubeObject
from tonnage.objects.labels import HOSTNAME, ZONE
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.pods import PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.testing import builders

EBS, NVME, EFS = "ebs.csi.aws.com", "san.example.com", "file.example.com"
KINDS = 40
ZONES = ("a", "b", "c")


class GroupShape(NamedTuple):
    """A node group: name, CPUs, GiB, price an hour, slots by driver, zone and maximum."""

    name: str
    cpu: str
    memory: str
    price: float
    slots: Mapping[str, int]
    zone: str = ""
    most: int = 5_000


class KindShape(NamedTuple):
    """Pods that are alike: how many, what each takes, and how they mind others."""

    number: int
    cpu: str
    memory: str
    volumes: Mapping[str, int]
    spread: bool = False
    apart: bool = False
    zone: str = ""


class ClusterShape(NamedTuple):
    groups: list[GroupShape]
    kinds: list[KindShape]
    settings: dict[str, object] = {}


class LeastCostCluster(NamedTuple):
    """The objects of a cluster and the options it is planned with."""

    objects: list[KubeObject]
    settings: dict[str, object]


def make(shape: str, pods: int, *, seed: int = SEED) -> LeastCostCluster:
    found = SHAPES[shape](random.Random(f"{seed}-{shape}-{pods}"), pods)
    objects: list[KubeObject] = [
        builders.storage_class(driver.partition(".")[0], provisioner=driver)
        for driver in (EBS, NVME, EFS)
    ]
    zones = sorted({one.zone for one in found.groups} - {""})
    # Zones that are there before anything is bought, so that a spread knows them.
    objects += [builders.node(f"full-{zone}", cpu="1m", pods=0, zone=zone) for zone in zones]
    for one in found.groups:
        template = GroupTemplate(
            node=builders.node("t", cpu=one.cpu, memory=one.memory, zone=one.zone),
            csi_node=builders.csinode("t", one.slots),
        )
        spec = NodeGroupSpec(
            max_size=one.most, price_per_hour=f"{one.price:.5g}", template=template
        )
        objects.append(NodeGroup(metadata=ObjectMeta(name=one.name), spec=spec))
    for number, kind in enumerate(found.kinds):
        objects += _pods(f"k{number}", kind)
    return LeastCostCluster(objects, found.settings)


def _pods(name: str, kind: KindShape) -> list[KubeObject]:
    labels = LabelSelector(match_labels={"app": name})
    even = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=labels
    )
    found: list[KubeObject] = []
    for number in range(kind.number):
        claims = []
        for driver, count in kind.volumes.items():
            short = driver.partition(".")[0]
            mine = [f"{name}-{number}-{short}-{volume}" for volume in range(count)]
            found += [builders.pvc(one, storage_class=short, bound=False) for one in mine]
            claims += mine
        found.append(
            builders.pod(
                f"{name}-{number}",
                labels={"app": name},
                cpu=kind.cpu,
                memory=kind.memory,
                pvcs=claims,
                spread=[even] if kind.spread else (),
                apart=[PodAffinityTerm(topology_key=HOSTNAME, label_selector=labels)]
                if kind.apart
                else (),
                node_selector={ZONE: kind.zone} if kind.zone else None,
            )
        )
    return found


_SIZES = (
    ("c2", 2, 8, 0.096, 16),
    ("c4", 4, 16, 0.192, 24),
    ("c8", 8, 32, 0.384, 25),
    ("c16", 16, 64, 0.768, 28),
    ("k4", 4, 8, 0.17, 20),
    ("k8", 8, 16, 0.34, 20),
    ("r4", 4, 32, 0.252, 24),
    ("r8", 8, 64, 0.504, 26),
    ("r16", 16, 128, 1.008, 28),
    ("c32", 32, 128, 1.536, 39),
)
"""Name, CPUs, GiB, price an hour, slots: as the lists of clouds have them."""


def _groups(
    slots: Callable[[int], Mapping[str, int]] = lambda count: {EBS: count},
    price: Callable[[float], float] = lambda price: price,
) -> list[GroupShape]:
    """Kubelet and system keep a part of each node."""
    return [
        GroupShape(name, f"{int(960 * cpu)}m", f"{int(gib * 1024 * 0.92)}Mi", price(each), slots(n))
        for name, cpu, gib, each, n in _SIZES
    ]


def _numbers(rng: random.Random, pods: int, *, skew: float = 0.5) -> list[int]:
    """How many pods each kind has; the higher the skew, the more have few."""
    weights = [rng.lognormvariate(0, skew) for _ in range(KINDS)]
    found = [max(1, int(pods * weight / sum(weights))) for weight in weights]
    found[0] += max(pods - sum(found), 0)
    return found


def _usual(rng: random.Random) -> tuple[str, str]:
    cpu = rng.choice(("100m", "250m", "500m", "750m", "1", "1500m", "2", "3"))
    return cpu, rng.choice(("256Mi", "512Mi", "1Gi", "2Gi", "4Gi", "6000Mi", "8Gi"))


def _odd(rng: random.Random) -> tuple[str, str]:
    cpu = min(max(int(rng.lognormvariate(6.3, 0.9)), 20), 7_000)
    memory = min(max(int(cpu * rng.lognormvariate(1.0, 0.7)), 64), 30_000)
    return f"{cpu}m", f"{memory}Mi"


def list_prices(rng: random.Random, pods: int) -> ClusterShape:
    kinds = [
        KindShape(number, *_usual(rng), {EBS: rng.choice((0, 1, 1, 1, 2, 3))})
        for number in _numbers(rng, pods)
    ]
    return ClusterShape(_groups(), kinds)


def odd_amounts(rng: random.Random, pods: int) -> ClusterShape:
    """Requests as recommenders make them, and prices of a spot market."""
    kinds = [
        KindShape(number, *_odd(rng), {EBS: rng.choice((0, 0, 1, 1, 2))})
        for number in _numbers(rng, pods, skew=1.0)
    ]
    return ClusterShape(_groups(price=lambda price: price * rng.uniform(0.3, 0.9)), kinds)


def few_slots(rng: random.Random, pods: int) -> ClusterShape:
    kinds = [
        KindShape(
            number, rng.choice(("100m", "250m", "500m")), "1Gi", {EBS: rng.choice((1, 2, 3, 5, 7))}
        )
        for number in _numbers(rng, pods)
    ]
    return ClusterShape(_groups(lambda count: {EBS: count // 2}), kinds)


def two_drivers(rng: random.Random, pods: int) -> ClusterShape:
    kinds = [
        KindShape(number, *_usual(rng), {EBS: rng.choice((0, 1, 2)), NVME: rng.choice((0, 1, 3))})
        for number in _numbers(rng, pods)
    ]
    return ClusterShape(
        _groups(lambda _: {EBS: rng.choice((8, 12, 24)), NVME: rng.choice((5, 8, 16))}), kinds
    )


def slot_pool(rng: random.Random, pods: int) -> ClusterShape:
    found = two_drivers(rng, pods)
    pool = {"name": "shared", "size": 14, "members": {EBS: 1, NVME: 2}}
    return found._replace(settings={"pools": [pool]})


def zones(rng: random.Random, pods: int) -> ClusterShape:
    """Spread over zones of different prices, some pods bound to one, and groups that run out."""
    groups = [
        GroupShape(f"{name}-{zone}", f"{960 * cpu}m", f"{int(gib * 942)}Mi", price, {EBS: n}, zone)
        for zone, dearer in zip(ZONES, (1.0, 1.05, 1.2), strict=True)
        for name, cpu, gib, price, n in (
            ("m", 8, 32, 0.384 * dearer, 25),
            ("c", 16, 32, 0.68 * dearer, 25),
            ("r", 4, 32, 0.252 * dearer, 12),
        )
    ]
    groups.append(GroupShape("big-b", "30", "120Gi", 1.4, {EBS: 30}, "b", 3 + pods // 200))
    kinds = [
        KindShape(
            number,
            *_usual(rng),
            {EBS: rng.choice((0, 1, 1, 2, 3))},
            spread=rng.random() < 0.5,
            zone=rng.choice(("", "", "", *ZONES)),
        )
        for number in _numbers(rng, pods)
    ]
    kinds = [one._replace(zone="") if one.spread else one for one in kinds]
    return ClusterShape(groups, kinds)


def keep_apart(rng: random.Random, pods: int) -> ClusterShape:
    kinds = [
        KindShape(
            number, *_usual(rng), {EBS: rng.choice((0, 1, 1, 2, 3))}, apart=rng.random() < 0.4
        )
        for number in _numbers(rng, pods)
    ]
    return ClusterShape(_groups(), kinds)


def maxima(rng: random.Random, pods: int) -> ClusterShape:
    """The cheapest groups run out, and the cluster may not have as many cores as it would."""
    found = list_prices(rng, pods)
    groups = [
        one._replace(most=max(2, pods // rng.choice((40, 60, 100, 200)))) for one in found.groups
    ]
    groups[-1] = groups[-1]._replace(most=5_000)
    return found._replace(groups=groups, settings={"maxNodesTotal": 5 + pods // 10})


def dear_small(rng: random.Random, pods: int) -> ClusterShape:
    """Large nodes cost less by the CPU, so that the last one is the question."""
    found = odd_amounts(rng, pods)
    groups = [
        one._replace(price=0.05 + price * (1.3 - 0.25 * (cpu > 8) - 0.1 * (cpu > 16)))
        for one, (_, cpu, _, price, _) in zip(_groups(), _SIZES, strict=True)
    ]
    return found._replace(groups=groups)


def large_pods(rng: random.Random, pods: int) -> ClusterShape:
    """Pods of a third to most of a node, which leave gaps."""
    kinds = [
        KindShape(
            number,
            f"{rng.randint(900, 9_000)}m",
            f"{rng.randint(2_000, 40_000)}Mi",
            {EBS: rng.choice((1, 3, 6))},
        )
        for number in _numbers(rng, pods, skew=0.8)
    ]
    return ClusterShape(_groups(), kinds)


SHAPES: dict[str, Callable[[random.Random, int], ClusterShape]] = {
    "list-prices": list_prices,
    "odd-amounts": odd_amounts,
    "few-slots": few_slots,
    "two-drivers": two_drivers,
    "slot-pool": slot_pool,
    "zones": zones,
    "keep-apart": keep_apart,
    "maxima": maxima,
    "dear-small": dear_small,
    "large-pods": large_pods,
}
