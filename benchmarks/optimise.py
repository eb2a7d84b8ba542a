"""The least cost over all groups together, against its own bound and the greedy plan.

Stateful pods of 40 kinds on ten groups with list-like prices. The time is the processor's, so that
what else the machine does cuts no search short; reading the cluster and the greedy plan come on top
of what the solver may take.
"""

import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.clusters import SEED
from benchmarks.context import Context
from benchmarks.measurement import Row, once
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.scaleup.costly_pods import OwnTime
from tonnage.scaleup.plan import Optimisation, Plan
from tonnage.testing import builders

NAME = "optimise"
DRIVER = "ebs.csi.aws.com"

_TYPES = (
    ("c2", 2, 8, "0.096", 16),
    ("c4", 4, 16, "0.192", 24),
    ("c8", 8, 32, "0.384", 25),
    ("c16", 16, 64, "0.768", 28),
    ("k4", 4, 8, "0.17", 20),
    ("k8", 8, 16, "0.34", 20),
    ("r4", 4, 32, "0.252", 24),
    ("r8", 8, 64, "0.504", 26),
    ("r16", 16, 128, "1.008", 28),
    ("c32", 32, 128, "1.536", 39),
)
"""Name, CPUs, GiB, price, slots."""


class OptimiseCase(NamedTuple):
    pods: int
    kinds: int
    seconds: float


def run(context: Context) -> Iterator[Row]:
    cases = (
        [OptimiseCase(60, 8, 0.3)]
        if context.quick
        else [OptimiseCase(pods, 40, 10.0) for pods in (500, 2_000, 5_000)]
        + [OptimiseCase(pods, 40, 60.0) for pods in (500, 5_000)]
    )
    for case in cases:
        objects = cluster(case)
        plans: list[Plan] = []
        seconds = once(lambda: plans.append(_planned(objects, case.seconds)))  # noqa: B023
        found = plans[0].optimisation
        assert isinstance(found, Optimisation), plans[0].warnings
        nodes = sum(one.delta for one in plans[0].scale_ups)
        greedy = found.greedy / found.bound - 1
        work = (
            f"{case.pods:,} pods of {case.kinds} kinds on {nodes:,} nodes:"
            f" {found.cost:.3f} an hour, bound {found.bound:.3f}: +{found.gap:.2%},"
            f" greedy +{greedy:.1%}"
        )
        yield Row(benchmark=NAME, case=f"{case.seconds:g} s of solver", work=work, value=seconds)


def cluster(case: OptimiseCase) -> list[KubeObject]:
    rng = random.Random(f"{SEED}-{case.pods}")
    objects: list[KubeObject] = [builders.storage_class("fast", provisioner=DRIVER)]
    for name, cpus, gib, price, slots in _TYPES:
        template = GroupTemplate(
            node=builders.node("t", cpu=cpus, memory=f"{gib}Gi"),
            csi_node=builders.csinode("t", {DRIVER: slots}),
        )
        spec = NodeGroupSpec(max_size=5_000, price_per_hour=price, template=template)
        objects.append(NodeGroup(metadata=ObjectMeta(name=name), spec=spec))
    for kind in range(case.kinds):
        cpu = rng.choice(("100m", "250m", "500m", "750m", "1", "1500m", "2", "3"))
        memory = rng.choice(("256Mi", "512Mi", "1Gi", "2Gi", "4Gi", "6000Mi", "8Gi"))
        volumes = rng.choice((0, 1, 1, 1, 2, 3))
        for number in range(case.pods // case.kinds):
            claims = [f"{kind}-{number}-{volume}" for volume in range(volumes)]
            objects += [builders.pvc(one, storage_class="fast", bound=False) for one in claims]
            name = f"p-{kind}-{number}"
            objects.append(builders.pod(name, cpu=cpu, memory=memory, pvcs=claims))
    return objects


def _planned(objects: list[KubeObject], seconds: float) -> Plan:
    chosen = options.of({"expander": "least-cost", "optimiseSeconds": seconds})
    inputs = Inputs.of_objects(objects, options=chosen, features=features.of_version(), now=0.0)
    return decision.decide(inputs, own_time=OwnTime(time.process_time)).plan
