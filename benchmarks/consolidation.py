"""Consolidation of whole clusters in virtual time: shapes that Karpenter publishes figures of.

Each shape is a cluster that loses a part of its pods. What is shown is the virtual time from the
loss to the last node that goes for it, with default budgets; beside it evictions, the bill of an
hour, and how full the nodes are of what they are fullest of. Then, at constant load, nobody may be
evicted any more. `consolidation` plays small sizes, `consolidation-full` the published ones, which
takes minutes of processor.
"""

import logging
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.clusters import SEED
from benchmarks.context import Context
from benchmarks.measurement import Row
from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.embedded.cloud import CloudBehaviour
from tonnage.embedded.world import Delay, WorldBehaviour
from tonnage.objects import codec, kinds
from tonnage.objects.scenarios import API_VERSION, NodeGroup
from tonnage.simulation import runner, scenario
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import ScenarioAction, Simulation, Spec, Tree

NAME = "consolidation"

_AGE = 900.0
"""Seconds before anything is lost: nodes have to be so old to be replaced."""
_BETWEEN = 600.0
"""Seconds between two steps."""
_SETTLED = 300.0
"""Seconds after the last step after which nothing may move any more."""
_QUIET = 900.0
"""Seconds of constant load at the end."""
_CPU = 4000


class ShapeWorkload(NamedTuple):
    """Replicas of one request, in millicores; `apart` ones keep a node for themselves each."""

    name: str
    cpu: int
    replicas: tuple[int, ...]
    """At first, and after each step."""
    apart: bool = False


class Shape(NamedTuple):
    name: str
    nodes: int
    workloads: tuple[ShapeWorkload, ...]
    aim: float | None = None
    """Seconds of virtual time that all steps together may take."""


def run(context: Context) -> Iterator[Row]:
    # Whether it runs at all shows on the smallest shape.
    yield from _run(_shapes(0.02)[1:2] if context.quick else _shapes(0.1))


def run_full(context: Context) -> Iterator[Row]:
    yield from _run(_shapes(0.02)[1:2] if context.quick else _shapes(1.0))


def _run(shapes: list[Shape]) -> Iterator[Row]:
    logging.getLogger("tonnage").addHandler(logging.NullHandler())
    for shape in shapes:
        watched = _Evictions(_AGE + (len(shape.workloads[0].replicas) - 1) * _BETWEEN + _SETTLED)
        began = time.process_time()
        ensemble = runner.played(_simulation(shape), prepare=watched.listen)
        yield _row(shape, ensemble, watched.late, seconds=time.process_time() - began)


class _Evictions:
    """Counts pods that are sent away from a moment on."""

    def __init__(self, since: float) -> None:
        self._since = since
        self.late = 0

    def listen(self, ensemble: Ensemble) -> None:
        def note(collection: Collection, occurrence: Occurrence) -> None:
            before, after = occurrence.before, occurrence.after
            if collection.kind.plural != "pods" or before is None or after is None:
                return
            if after.deleting and not before.deleting and ensemble.accounts.now > self._since:
                self.late += 1

        ensemble.accounts.listeners.append(note)


def _row(shape: Shape, ensemble: Ensemble, late: int, *, seconds: float) -> Row:
    found = ensemble.timeline().summary
    steps = len(shape.workloads[0].replicas) - 1
    removed = [one.at for one in ensemble.decisions if one.deed == "delete" and not one.error]
    bought = sum(one.nodes for one in ensemble.decisions if one.deed == "increase")
    taken = 0.0
    for number in range(steps):
        begins = _AGE + number * _BETWEEN
        ends = begins + (_BETWEEN if number < steps - 1 else _BETWEEN + _QUIET)
        taken += max((at - begins for at in removed if begins <= at < ends), default=0.0)
    pods = {one.name: one.replicas[-1] for one in shape.workloads}
    requested = sum(one.cpu * pods[one.name] for one in shape.workloads)
    grown = sum(
        max(later - before, 0)
        for one in shape.workloads
        for before, later in zip(one.replicas, one.replicas[1:], strict=False)
    )
    evicted = found.pods_created - grown - sum(one.replicas[0] for one in shape.workloads)
    if found.pending_at_end or found.nodes_at_end >= shape.nodes:
        raise RuntimeError(f"{shape.name}: the simulation did not do its work: {found}")
    filled = _filled(shape, requested, found.nodes_at_end)
    bill = f"{0.2 * shape.nodes:,.2f} to {0.2 * found.nodes_at_end:,.2f} an hour"
    work = (
        f"{shape.nodes:,} to {found.nodes_at_end:,} nodes, {bought:,} bought,"
        f" {evicted:,} evictions, {bill}, {filled}, {late} evictions at constant load,"
        f" {seconds:.0f} s of processor"
    )
    return Row(benchmark=NAME, case=shape.name, work=work, value=taken, aim=shape.aim)


def _filled(shape: Shape, requested: int, nodes: int) -> str:
    apart = sum(one.replicas[-1] for one in shape.workloads if one.apart)
    if apart and apart >= nodes:
        return f"{apart / nodes:.0%} of nodes have the one such pod they may"
    return f"cpu {requested / (nodes * _CPU):.0%} filled"


def _shapes(scale: float) -> list[Shape]:
    nodes = round(2000 * scale)
    rng = random.Random(SEED)
    sizes = [min(max(round(rng.lognormvariate(5.5, 0.8) / 50) * 50, 50), 3500) for _ in range(40)]
    per_kind = max(round(5000 * scale / len(sizes)), 2)
    churned = []
    for number, cpu in enumerate(sizes):
        replicas = [per_kind]
        for _ in range(10):
            replicas.append(max(round(replicas[-1] * rng.uniform(0.6, 1.2)), 1))
        churned.append(ShapeWorkload(f"kind-{number}", cpu, tuple(replicas)))
    churn_nodes = -(-sum(one.cpu * one.replicas[0] for one in churned) * 100 // (_CPU * 85))
    return [
        Shape(
            f"{nodes:,} nodes to 25 % in three steps",
            nodes,
            (ShapeWorkload("web", 1800, tuple(nodes * 2 * part // 4 for part in (4, 3, 2, 1))),),
            aim=900.0,
        ),
        Shape(
            f"{round(1000 * scale):,} to {round(700 * scale):,} pods",
            -(-round(1000 * scale) // 4),
            (ShapeWorkload("web", 950, (round(1000 * scale), round(700 * scale))),),
            aim=1200.0,
        ),
        Shape(
            f"{round(750 * scale):,} to {round(600 * scale):,} pods that keep apart",
            round(750 * scale),
            (ShapeWorkload("web", 1500, (round(750 * scale), round(600 * scale)), apart=True),),
            aim=1500.0,
        ),
        Shape(
            f"{per_kind * len(sizes):,} pods, log-normal requests, ten rounds of churn",
            churn_nodes,
            tuple(churned),
        ),
    ]


def _simulation(shape: Shape) -> Simulation:
    steps = len(shape.workloads[0].replicas) - 1
    script = tuple(
        ScenarioAction(
            at=_AGE + number * _BETWEEN,
            scale=scenario.Scaling(
                kind="Deployment", name=one.name, replicas=one.replicas[number + 1]
            ),
        )
        for number in range(steps)
        for one in shape.workloads
        if one.replicas[number + 1] != one.replicas[number]
    )
    return Simulation(
        name=shape.name,
        spec=Spec(
            seed=SEED,
            duration=_AGE + steps * _BETWEEN + _QUIET,
            options={
                "scaleDownEnabled": True,
                "decisionRecordingSize": 0,
                "consolidation": {"enabled": True},
            },
            world=WorldBehaviour(start=Delay(10.0, 20.0)),
            cloud=CloudBehaviour(start=Delay(40.0, 90.0)),
            script=script,
        ),
        groups=(_group(shape.nodes),),
        objects=tuple(_deployment(one) for one in shape.workloads),
    )


def _group(size: int) -> NodeGroup:
    room = {"cpu": f"{_CPU}m", "memory": "16Gi", "pods": "110"}
    row = kinds.by_kind(API_VERSION, "NodeGroup")
    assert row is not None
    group = codec.convert(
        {
            "apiVersion": API_VERSION,
            "kind": "NodeGroup",
            "metadata": {"name": "g"},
            "spec": {
                "maxSize": size * 2,
                "targetSize": size,
                "pricePerHour": "0.2",
                "template": {"node": {"status": {"capacity": room, "allocatable": room}}},
            },
        },
        row,
    )
    assert isinstance(group, NodeGroup)
    return group


def _deployment(one: ShapeWorkload) -> Tree:
    container = {
        "name": "web",
        "resources": {"requests": {"cpu": f"{one.cpu}m", "memory": "64Mi"}},
    }
    spec: Tree = {"containers": [container]}
    if one.apart:
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": one.name}},
        }
        spec["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": one.name},
        "spec": {
            "replicas": one.replicas[0],
            "selector": {"matchLabels": {"app": one.name}},
            "template": {"metadata": {"labels": {"app": one.name}}, "spec": spec},
        },
    }
