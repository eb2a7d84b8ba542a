"""Deciding what to buy, at the sizes others have published or stumble at.

The decision alone is timed apart from the whole, which also sorts the objects, builds the
snapshot and the templates, and reads the pods into classes; a standing snapshot does that as
they come. The plain side places pods one by one with the reference filters on the nodes a plan
has come to, for a few pods, and is scaled by their number alone; that it would also grow with
the number of nodes is left out, in its favour.
"""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.clusters import SEED
from benchmarks.context import Context
from benchmarks.measurement import Row, once
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.objects.codec import collector_paused
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.pods import Pod, PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.rules import features
from tonnage.scaleup import assessment, decision, planner
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders, reference

NAME = "plan"
DRIVER = "ebs.csi.aws.com"
_PLAIN_PODS = 12


class Case(NamedTuple):
    name: str
    work: str
    aim: float
    objects: Callable[[], list[KubeObject]]
    whole_aim: float | None = None
    """From objects to plan: to be a thousand times faster than upstream's loop."""


def run(context: Context) -> Iterator[Row]:
    for case in _cases(quick=context.quick):
        objects = case.objects()
        with collector_paused():
            decision = _Timed(objects)
        plan = decision.plan
        bought = sum(one.delta for one in plan.scale_ups)
        helped = sum(len(step.pods) for step in plan.steps)
        waiting = sum(isinstance(one, Pod) and not one.spec.node_name for one in objects)
        work = f"{case.work}: {helped:,} of {waiting:,} on {bought:,} nodes"
        plain = _plain(objects, plan)
        yield Row(
            benchmark=NAME,
            case=f"{case.name}, decision",
            work=work,
            value=decision.seconds,
            aim=None if context.quick else case.aim,
            plain=plain * waiting,
            plain_scale=waiting / _PLAIN_PODS,
        )
        yield Row(
            benchmark=NAME,
            case=f"{case.name}, whole",
            work=work,
            value=decision.whole,
            aim=None if context.quick else case.whole_aim,
        )


class _Timed:
    """A decision, with the time it took, and its core alone."""

    def __init__(self, objects: list[KubeObject]) -> None:
        self._objects = objects
        self.plan = Plan()
        self.seconds = 0.0
        self.whole = once(self._all)

    def _all(self) -> None:
        self._request = decision.request(
            assessment.assess(
                Inputs.of_objects(
                    self._objects,
                    options=options.of({"maxNodesPerScaleUp": 100_000}),
                    features=features.of_version(),
                    now=0.0,
                )
            )
        )
        self.seconds = once(self._core)

    def _core(self) -> None:
        self.plan = planner.plan(self._request)


def _plain(objects: list[KubeObject], plan: Plan) -> float:
    """Seconds a pod, placing pods one by one on the bought nodes, first fit."""
    groups = {one.metadata.name: one for one in objects if isinstance(one, NodeGroup)}
    storage = [one for one in objects if not isinstance(one, Pod | NodeGroup)]
    cluster = reference.ReferenceCluster([one for one in storage if not _is_node(one)])
    for scale_up in plan.scale_ups:
        template = groups[scale_up.group].spec.template
        assert template is not None
        for number in range(min(scale_up.delta, 100)):
            name = f"{scale_up.group}-{number}"
            cluster.add_node(
                builders.node(
                    name,
                    cpu=template.node.status.allocatable["cpu"],
                    memory=template.node.status.allocatable["memory"],
                    zone=template.node.metadata.labels.get("topology.kubernetes.io/zone", ""),
                ),
                builders.csinode(name, {DRIVER: 25}),
            )
    pods = [one for one in objects if isinstance(one, Pod) and not one.spec.node_name]

    def place() -> None:
        for pod in pods[:_PLAIN_PODS]:
            fits = [one.node for one in reference.verdicts(cluster, pod) if one.code == "Success"]
            if fits:
                cluster.place(pod, fits[0], assume_volumes=False)

    return once(place) / _PLAIN_PODS


def _is_node(one: KubeObject) -> bool:
    return type(one).__name__ in ("Node", "CSINode", "VolumeAttachment")


def _cases(*, quick: bool) -> list[Case]:
    part = 50 if quick else 1

    def sized(count: int) -> int:
        return max(count // part, 2)

    return [
        Case(
            "stateful",
            f"{sized(1000):,} full nodes, {sized(5000):,} pods of 20 sets, 2 claims, 10 groups",
            0.2,
            lambda: stateful(sized(1000), 1, sets=20, pods=sized(5000), groups=10),
            0.15,
        ),
        Case(
            "stateful, a tenth of it",
            f"{sized(100):,} full nodes, {sized(500):,} pods of 20 sets, 2 claims, 10 groups",
            0.2,
            lambda: stateful(sized(100), 1, sets=20, pods=sized(500), groups=10),
            0.015,
        ),
        Case(
            "stateful, 10 times the pods of each set",
            f"{sized(1000):,} full nodes, {sized(50_000):,} pods of 20 sets, 2 claims, 10 groups",
            2.0,
            lambda: stateful(sized(1000), 1, sets=20, pods=sized(50_000), groups=10),
        ),
        Case(
            "stateful, 10 times the sets",
            f"{sized(1000):,} full nodes, {sized(5000):,} pods of 200 sets, 2 claims, 10 groups",
            2.0,
            lambda: stateful(sized(1000), 1, sets=200, pods=sized(5000), groups=10),
        ),
        Case(
            "two shapes",
            f"{sized(51_000):,} stateless pods of two shapes, one group",
            0.1,
            lambda: _two_shapes(sized(50_000), sized(1000)),
        ),
        Case(
            "diverse",
            f"{sized(20_000):,} diverse pods, {sized(400)} groups",
            5.0,
            lambda: _diverse(sized(20_000), sized(400)),
        ),
        Case(
            "large",
            f"{sized(5000):,} nodes, {sized(5000) * 30:,} running, {sized(50_000):,} stateful"
            " pods of 200 sets, 50 groups",
            2.0,
            lambda: stateful(sized(5000), 30, sets=sized(200), pods=sized(50_000), groups=50),
        ),
    ]


def _group(name: str, *, cpu: int, memory: int, zone: str = "a", price: str) -> NodeGroup:
    return NodeGroup(
        metadata=ObjectMeta(name=name),
        spec=NodeGroupSpec(
            max_size=10_000,
            price_per_hour=price,
            template=GroupTemplate(
                node=builders.node("t", cpu=str(cpu), memory=f"{memory}Gi", zone=zone),
                csi_node=builders.csinode("t", {DRIVER: 25}),
            ),
        ),
    )


def _full_nodes(count: int, pods: int) -> Iterator[KubeObject]:
    for index in range(count):
        name = f"n{index}"
        yield builders.node(name, cpu="8", memory="32Gi", zone="abc"[index % 3])
        yield builders.csinode(name, {DRIVER: 25})
        for number in range(pods):
            yield builders.pod(
                f"r{index}-{number}",
                on=name,
                cpu=f"{8000 // pods}m",
                memory="1Gi",
                labels={"app": f"a{(index * 7 + number) % 500}"},
            )


def stateful(nodes: int, running: int, *, sets: int, pods: int, groups: int) -> list[KubeObject]:
    objects = [*_full_nodes(nodes, running), builders.storage_class("ebs", DRIVER)]
    for number in range(pods):
        owner, ordinal = number % sets, number // sets
        claims = [f"{kind}-s{owner}-{ordinal}" for kind in ("data", "log")]
        objects += [builders.pvc(claim, storage_class="ebs") for claim in claims]
        objects.append(
            builders.pod(
                f"s{owner}-{ordinal}",
                cpu=f"{200 + 50 * (owner % 7)}m",
                memory=f"{512 * (1 + owner % 4)}Mi",
                pvcs=claims,
                labels={"app": f"s{owner}"},
            )
        )
    for number in range(groups):
        cpu, memory = 4 * (1 + number % 6), 16 * (1 + number % 8)
        objects.append(_group(f"g{number}", cpu=cpu, memory=memory, price=str(cpu * 0.05)))
    return objects


def _two_shapes(small: int, large: int) -> list[KubeObject]:
    return [
        *(
            builders.pod(f"x{n}", cpu="100m", memory="200Mi", labels={"app": "x"})
            for n in range(small)
        ),
        *(builders.pod(f"y{n}", cpu="1", memory="2Gi", labels={"app": "y"}) for n in range(large)),
        _group("g", cpu=4, memory=16, price="0.2"),
    ]


def _diverse(pods: int, groups: int) -> list[KubeObject]:
    """Plain, spread over zones, spread over hosts, near their like, plain: a fifth each."""
    rng = random.Random(SEED)
    objects: list[KubeObject] = []
    for number in range(pods):
        cpu, memory = (
            rng.choice((100, 250, 500, 1000, 1500)),
            rng.choice((100, 256, 512, 1024, 4096)),
        )
        own, others = rng.choice("abcdefg"), rng.choice("abcdefg")
        labels = {"kind": own}
        spread, near = [], []
        match number % 5:
            case 1 | 2 as kind:
                key = "topology.kubernetes.io/zone" if kind == 1 else "kubernetes.io/hostname"
                selector = LabelSelector(match_labels={"kind": others})
                spread.append(
                    TopologySpreadConstraint(max_skew=1, topology_key=key, label_selector=selector)
                )
            case 3:
                labels = {"near": own}
                near.append(
                    PodAffinityTerm(
                        topology_key="topology.kubernetes.io/zone",
                        label_selector=LabelSelector(match_labels=labels),
                    )
                )
        objects.append(
            builders.pod(
                f"p{number}",
                cpu=f"{cpu}m",
                memory=f"{memory}Mi",
                labels=labels,
                spread=spread,
                near=near,
            )
        )
    for number in range(groups):
        cpu = 1 + number // 4
        memory = cpu * (2 + 2 * (number % 4))
        zone = "abc"[number % 3]
        objects.append(
            _group(f"g{number}", cpu=cpu, memory=memory, zone=zone, price=str(cpu * 0.05))
        )
    return objects
