"""Simulation: a day of a whole cluster in virtual time."""

import logging
import time
from collections.abc import Iterator

from benchmarks.clusters import SEED
from benchmarks.context import Context
from benchmarks.measurement import Row
from tonnage.embedded.cloud import CloudBehaviour
from tonnage.embedded.world import Delay, DriverBehaviour, WorldBehaviour
from tonnage.objects import codec, kinds
from tonnage.objects.scenarios import API_VERSION, NodeGroup
from tonnage.simulation import runner, scenario
from tonnage.simulation.scenario import ScenarioAction, Simulation, Spec, Tree

NAME = "simulation"
DAY = 86_400.0

_DRIVER = "ebs.csi.aws.com"
_LIMIT = 20
_WORKLOADS = 20
_GROUPS = 4


def run(context: Context) -> Iterator[Row]:
    nodes, pods, duration = (12, 240, DAY / 24) if context.quick else (500, 10_000, DAY)
    # What the components log is not asked for here.
    logging.getLogger("tonnage").addHandler(logging.NullHandler())
    started = time.process_time()
    timeline = runner.simulate(a_day(nodes=nodes, pods=pods, duration=duration))
    taken = time.process_time() - started
    found = timeline.summary
    if found.pods_created < pods or found.pending_at_end or found.nodes_at_end < nodes:
        raise RuntimeError(f"the simulation did not do its work: {found}")
    case = f"{found.nodes_at_end} nodes, {found.pods_created:,} pods, {duration / 3600:g} h"
    yield Row(benchmark=NAME, case=case, work="the whole run", value=taken, aim=300.0)
    work = f"a change of an object, of {found.changes:,}"
    yield Row(benchmark=NAME, case=case, work=work, value=taken / found.changes)


def a_day(*, nodes: int, pods: int, duration: float) -> Simulation:
    """Half of the nodes and pods at the beginning; the rest comes over the day, and is bought."""
    each = pods // _WORKLOADS
    start = [_workload(f"db-{n}", each // 2) for n in range(_WORKLOADS)]
    steps = [
        ScenarioAction(
            at=duration * (n + 1) / (_WORKLOADS + 2),
            scale=scenario.Scaling(kind="StatefulSet", name=f"db-{n}", replicas=each - each // 10),
        )
        for n in range(_WORKLOADS)
    ]
    last = [
        ScenarioAction(
            at=duration * (_WORKLOADS + 1) / (_WORKLOADS + 2),
            scale=scenario.Scaling(kind="StatefulSet", name=f"db-{n}", replicas=each),
        )
        for n in range(_WORKLOADS)
    ]
    return Simulation(
        name="a day",
        spec=Spec(
            seed=SEED,
            duration=duration,
            world=WorldBehaviour(
                start=Delay(20.0, 40.0),
                drivers=(
                    DriverBehaviour(name=_DRIVER, limit=_LIMIT, registers_after=Delay(5.0, 60.0)),
                ),
            ),
            cloud=CloudBehaviour(start=Delay(40.0, 90.0)),
            script=(*steps, *last),
        ),
        groups=tuple(_group(n, nodes // _GROUPS) for n in range(_GROUPS)),
        objects=(*_storage(), *start),
    )


def _group(number: int, size: int) -> NodeGroup:
    room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    entry = {"name": _DRIVER, "nodeID": "t", "allocatable": {"count": _LIMIT}}
    row = kinds.by_kind(API_VERSION, "NodeGroup")
    assert row is not None
    group = codec.convert(
        {
            "apiVersion": API_VERSION,
            "kind": "NodeGroup",
            "metadata": {"name": f"g{number}"},
            "spec": {
                "maxSize": size * 2,
                "targetSize": size // 2,
                "pricePerHour": "0.5",
                "template": {
                    "node": {"status": {"capacity": room, "allocatable": room}},
                    "csiNode": {"spec": {"drivers": [entry]}},
                },
            },
        },
        row,
    )
    assert isinstance(group, NodeGroup)
    return group


def _storage() -> tuple[Tree, ...]:
    return (
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": _DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": _DRIVER},
            "spec": {"attachRequired": True, "preventPodSchedulingIfMissing": True},
        },
    )


def _workload(name: str, replicas: int) -> Tree:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    container = {"name": "db", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container]},
            },
            "volumeClaimTemplates": [claim],
        },
    }
