"""The least cost over all groups together, against its own bound and the greedy plan.

Stateful pods of 40 kinds on ten groups with list-like prices. The time is the processor's, so that
what else the machine does cuts no search short; reading the cluster and the greedy plan come on top
of what the solver may take.
"""

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from benchmarks import least_cost_clusters
from benchmarks.context import Context
from benchmarks.least_cost_clusters import LeastCostCluster
from benchmarks.measurement import Row, once
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.scaleup.costly_pods import OwnTime
from tonnage.scaleup.plan import Optimisation, Plan

NAME = "optimise"
SIZES = (500, 2_000, 5_000)


class OptimiseCase(NamedTuple):
    shape: str
    pods: int
    seconds: float


def run(context: Context) -> Iterator[Row]:
    if context.quick:
        return _rows([OptimiseCase("list-prices", 60, 0.3)])
    shapes = ("list-prices", "zones")
    return _rows(OptimiseCase(shape, pods, 10.0) for shape in shapes for pods in SIZES)


def run_full(context: Context) -> Iterator[Row]:
    """Every shape and size, in 10 s and in 60 s: some 40 minutes."""
    seconds = (0.3,) if context.quick else (10.0, 60.0)
    return _rows(
        OptimiseCase(shape, pods, each)
        for shape in least_cost_clusters.SHAPES
        for pods in ((60,) if context.quick else SIZES)
        for each in seconds
    )


def _rows(cases: Iterable[OptimiseCase]) -> Iterator[Row]:
    for case in cases:
        cluster = least_cost_clusters.make(case.shape, case.pods)
        plans: list[Plan] = []
        seconds = once(lambda: plans.append(_planned(cluster, case.seconds)))  # noqa: B023
        found = plans[0].optimisation
        assert isinstance(found, Optimisation), plans[0].warnings
        nodes = sum(one.delta for one in plans[0].scale_ups)
        left = len(plans[0].not_helped)
        greedy = found.greedy / found.bound - 1
        work = (
            f"{case.shape}: {case.pods:,} pods on {nodes:,} nodes:"
            f" {found.cost:.3f} an hour, bound {found.bound:.3f}: +{found.gap:.2%},"
            f" greedy +{greedy:.1%}{f', {left} pods left out' if left else ''}"
        )
        yield Row(benchmark=NAME, case=f"{case.seconds:g} s of solver", work=work, value=seconds)


def _planned(cluster: LeastCostCluster, seconds: float) -> Plan:
    settings = {"expander": "least-cost", "optimiseSeconds": seconds, **cluster.settings}
    inputs = Inputs.of_objects(
        cluster.objects, options=options.of(settings), features=features.of_version(), now=0.0
    )
    return decision.decide(inputs, own_time=OwnTime(time.process_time)).plan
