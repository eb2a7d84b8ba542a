"""Deciding what to give back, at upstream's own size and at larger ones.

The decision is timed on a snapshot that stands, as in a live loop: the first one finds everything
anew, the next ones only what has changed. Upstream's own code, measured apart on two cores: 46 s
of processor for the first case (cluster-autoscaler 1.37, parallelism raised so that all go at
once; with its default flags it removes one node a loop).
"""

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from benchmarks.clusters import SEED
from benchmarks.context import Context
from benchmarks.measurement import Row, once
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.groups.scale_down_options import AT_ONCE
from tonnage.objects.codec import collector_paused
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.pods import Pod, PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.scenarios import NodeGroup, NodeGroupSpec
from tonnage.objects.workloads import ReplicaSet, ReplicaSetSpec
from tonnage.rules import features
from tonnage.scaledown import decision
from tonnage.scaledown.decision_cache import DecisionCache
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import ScaleDownPlan
from tonnage.testing import builders

NAME = "scale-down"
DRIVER = "ebs.csi.aws.com"
_ZONES = ("a", "b", "c")
_CHANGED = 50


class ScaleDownCase(NamedTuple):
    name: str
    objects: Callable[[], list[KubeObject]]
    aim: float | None
    least: int
    """Nodes that must go, or the figure is worth nothing."""
    options: dict[str, object] | None = None


def run(context: Context) -> Iterator[Row]:
    for case in _cases(quick=context.quick):
        standing = _Standing(case.objects(), case.options)
        with collector_paused():
            seconds = once(standing.decide)
        gone = len(standing.plan.going)
        assert gone >= case.least, f"{case.name}: {gone} nodes go, expected {case.least}"
        work = f"{case.name}: {gone:,} go, no fewer than {standing.plan.bounds.nodes:,} can stay"
        yield Row(
            benchmark=NAME,
            case="first decision",
            work=work,
            value=seconds,
            aim=None if context.quick else case.aim,
        )
        standing.change(_CHANGED)
        with collector_paused():
            seconds = once(standing.decide)
        yield Row(
            benchmark=NAME,
            case="next decision",
            work=f"{case.name}: {_CHANGED} pods changed",
            value=seconds,
            aim=None if context.quick or case.aim is None else 0.3,
        )
        with collector_paused():
            seconds = once(standing.judge)
        yield Row(
            benchmark=NAME,
            case="one node",
            work=f"{case.name}: may it go, or why not",
            value=seconds,
            aim=None if context.quick or case.aim is None else 0.02,
        )


class _Standing:
    """A cluster in a snapshot, decided on again and again."""

    def __init__(self, objects: list[KubeObject], own: dict[str, object] | None = None) -> None:
        self._rng = random.Random(SEED)
        self._pods = {one.metadata.name: one for one in objects if isinstance(one, Pod)}
        self._asked = ScaleDownInputs.of(
            Inputs.of_objects(
                objects,
                options=options.of({**AT_ONCE, **(own or {})}),
                features=features.of_version(),
                now=0.0,
            ),
            objects,
        )
        self._cache = DecisionCache()
        self.plan = ScaleDownPlan()

    def decide(self) -> None:
        self.plan = decision.decide(self._asked, cache=self._cache).plan

    def judge(self) -> None:
        going = self.plan.going
        decision.judge(self._asked, going[len(going) // 2].node, cache=self._cache)

    def change(self, count: int) -> None:
        """Let some pods have another label, as if they had been replaced."""
        by_node = self._asked.cluster.pods_by_node
        for name in self._rng.sample(sorted(self._pods), count):
            old = self._pods[name]
            labels = {**old.metadata.labels, "changed": "yes"}
            new = msgspec.structs.replace(
                old, metadata=msgspec.structs.replace(old.metadata, labels=labels)
            )
            self._asked.snapshot.apply("MODIFIED", new)
            here = by_node[old.spec.node_name]
            assert isinstance(here, list)
            here[here.index(old)] = new


def _nothing(_: int) -> dict[str, Any]:
    return {}


def _spread(number: int) -> dict[str, Any]:
    """Every tenth set is spread over the zones."""
    alike = builders.selecting({"app": f"rs{number}"})
    constraint = TopologySpreadConstraint(
        max_skew=5, topology_key=builders.ZONE, label_selector=alike
    )
    return {"spread": [constraint]} if number % 10 == 0 else {}


def _apart(number: int) -> dict[str, Any]:
    """The pods of every tenth set keep off each other's nodes."""
    alike = builders.selecting({"app": f"rs{number}"})
    term = PodAffinityTerm(topology_key=builders.HOSTNAME, label_selector=alike)
    return {"apart": [term]} if number % 10 == 0 else {}


def _ports(number: int) -> dict[str, Any]:
    """The pods of every tenth set have a port of the node."""
    return {"host_ports": [20_000 + number]} if number % 10 == 0 else {}


_SAYS = {
    "10 % spread over zones": _spread,
    "10 % apart": _apart,
    "10 % with a port of the node": _ports,
}

_POOLS: dict[str, object] = {"pools": [{"name": "slots", "size": 26, "members": {DRIVER: 1}}]}


def _cases(*, quick: bool) -> list[ScaleDownCase]:
    if quick:
        return [
            ScaleDownCase("20 nodes x 40 pods", lambda: _alike(20, 40), 1.0, 12),
            ScaleDownCase("30 nodes x 30 pods with volumes", lambda: _mixed(30, 30), 1.0, 1),
        ]
    return [
        ScaleDownCase("2,000 nodes x 40 pods", lambda: _alike(2_000, 40), 2.0, 1_200),
        ScaleDownCase("1,000 nodes x 30 pods", lambda: _mixed(1_000, 30, volumes=0.0), 0.5, 300),
        ScaleDownCase(
            "5,000 nodes x 30 pods, 21 % with volumes", lambda: _mixed(5_000, 30), 5.0, 1_500
        ),
        *(
            ScaleDownCase(
                f"500 nodes x 30 pods with volumes, {name}",
                lambda say=say: _mixed(500, 30, say=say),  # type: ignore[misc]
                None,
                1,
            )
            for name, say in _SAYS.items()
        ),
        ScaleDownCase(
            "5,000 nodes x 30 pods, a pool of slots", lambda: _mixed(5_000, 30), None, 1, _POOLS
        ),
    ]


def _alike(nodes: int, pods: int) -> list[KubeObject]:
    """Upstream's shape: nodes at 40 %, so that three of five can go."""
    names = [f"n{number}" for number in range(nodes)]
    objects: list[KubeObject] = [_group(names)]
    objects += [builders.node(name, cpu="4", memory="16Gi") for name in names]
    sets = 50
    objects += [_replica_set(f"rs{number}") for number in range(sets)]
    for number in range(nodes * pods):
        owner = f"rs{number % sets}"
        objects.append(
            builders.pod(
                f"p{number}",
                on=names[number // pods],
                owner=_owner(owner),
                labels={"app": owner},
                cpu="40m",
                memory="100Mi",
            )
        )
    return objects


def _mixed(
    nodes: int, pods: int, *, volumes: float = 0.21, say: Callable[[int], dict[str, Any]] = _nothing
) -> list[KubeObject]:
    """Nodes of three zones at about 40 %, pods of many sizes, some with a volume of their zone.

    `say` is what else the pods of a set ask for, by its number.
    """
    rng = random.Random(SEED)
    names = [f"n{number}" for number in range(nodes)]
    zones = [_ZONES[number % len(_ZONES)] for number in range(nodes)]
    objects: list[KubeObject] = [_group(names), builders.csidriver(DRIVER)]
    objects.append(builders.storage_class("ebs", provisioner=DRIVER))
    for name, zone in zip(names, zones, strict=True):
        objects.append(builders.node(name, cpu="16", memory="64Gi", zone=zone))
        objects.append(builders.csinode(name, {DRIVER: 25}))
    sizes = [("100m", "256Mi"), ("200m", "1Gi"), ("250m", "512Mi"), ("500m", "1Gi")]
    sets = 300
    objects += [_replica_set(f"rs{number}") for number in range(sets)]
    for number in range(nodes * pods):
        node = number // pods
        owner = rng.randrange(sets)
        cpu, memory = sizes[owner % len(sizes)]
        claims = []
        if rng.random() < volumes:
            claim = f"c{number}"
            claims = [claim]
            objects += _bound(claim, zone=zones[node])
            objects.append(builders.attachment(f"pv-{claim}", names[node], attacher=DRIVER))
        objects.append(
            builders.pod(
                f"p{number}",
                on=names[node],
                owner=_owner(f"rs{owner}"),
                labels={"app": f"rs{owner}"},
                cpu=cpu,
                memory=memory,
                pvcs=claims,
                **say(owner),
            )
        )
    return objects


def _bound(claim: str, *, zone: str) -> list[KubeObject]:
    volume = f"pv-{claim}"
    asking = builders.pvc(claim, storage_class="ebs", volume=volume)
    affinity = builders.nodes_with(builders.ZONE, zone)
    bound = builders.pv(
        volume, storage_class="ebs", driver=DRIVER, claim=asking, node_affinity=affinity
    )
    return [asking, bound]


def _group(names: list[str]) -> NodeGroup:
    return NodeGroup(
        metadata=ObjectMeta(name="g"),
        spec=NodeGroupSpec(max_size=len(names), nodes=tuple(names), price_per_hour="0.5"),
    )


def _replica_set(name: str) -> ReplicaSet:
    meta = ObjectMeta(name=name, namespace="default")
    return ReplicaSet(metadata=meta, spec=ReplicaSetSpec(replicas=1000))


def _owner(name: str) -> OwnerReference:
    return OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name=name, uid=name, controller=True
    )
