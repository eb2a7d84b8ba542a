"""What the scheduler decides is what the filters allow, judged by the plain reference.

What it refuses the autoscaler's simulation refuses too: both ask the same filters.
"""

import random
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.clusters import RandomCluster, random_cluster
from tonnage.cluster.client import Client
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.rules import features as gates
from tonnage.scheduler.config import Weights
from tonnage.scheduler.placer import PlacedPod, Placer
from tonnage.scheduler.scheduler_cache import KINDS, SchedulerCache
from tonnage.testing.clock import VirtualClock
from tonnage.testing.reference import ReferenceCluster, verdict

BATCH = 20


def with_replicas(made: RandomCluster, count: int) -> list[object]:
    """The objects, with waiting pods several times over, each with claims of its own."""
    claims = {
        (one.metadata.namespace, one.metadata.name): one
        for one in made.objects
        if isinstance(one, PersistentVolumeClaim)
    }
    objects: list[object] = list(made.objects)
    for pod in (one for one in made.objects if isinstance(one, Pod) and not one.spec.node_name):
        for number in range(count):
            objects.extend(_replica(pod, claims, f"-again-{number}"))
    return objects


def _replica(
    pod: Pod, claims: dict[tuple[str, str], PersistentVolumeClaim], suffix: str
) -> list[object]:
    replace = msgspec.structs.replace
    made: list[object] = []
    volumes = []
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        claim = claims.get((pod.metadata.namespace, source.claim_name)) if source else None
        if source is not None and claim is not None and not claim.spec.volume_name:
            name = source.claim_name + suffix
            meta = replace(claim.metadata, name=name, uid=claim.metadata.uid + suffix)
            made.append(replace(claim, metadata=meta))
            volume = replace(volume, persistent_volume_claim=replace(source, claim_name=name))
        volumes.append(volume)
    meta = replace(pod.metadata, name=pod.metadata.name + suffix, uid=pod.metadata.uid + suffix)
    spec = replace(pod.spec, volumes=tuple(volumes))
    return [*made, replace(pod, metadata=meta, spec=spec)]


def a_world(objects: list[object], features: gates.Features) -> SchedulerCache:
    clock = VirtualClock()
    server = ApiServer(clock=clock, rng=random.Random(1))
    client = Client(InProcessTransport(server), clock=clock, rng=random.Random(1))
    world = SchedulerCache(client, clock=clock, rng=random.Random(1), features=features)
    for obj in objects:
        kind: Any = type(obj)
        if kind in KINDS:
            world.cache(kind).apply(Change[Any](EventType.ADDED, obj))
    return world


def check(seed: int, *, replicas: int, together: bool) -> int:
    """Decide on a random cluster, every step judged; how many pods got a node."""
    made = random_cluster(seed)
    objects = with_replicas(made, replicas)
    features = gates.of_version("1.37", made.gates, returning_volume_once=True)
    judge = ReferenceCluster(objects, gates=made.gates, returning_volume_once=True)
    world = a_world(objects, features)
    assert not world.rejected
    waiting = [one for one in world.snapshot.pending_pods() if not one.pod_class.gates]
    waiting.sort(key=lambda one: -one.pod_class.priority)
    pods = {f"{one.metadata.namespace}/{one.metadata.name}": one for one in judge.pending()}
    rng = np.random.default_rng(seed)
    placer = Placer(world, features, Weights(), rng=rng, together=together)
    placed = 0
    for outcome in placer.decide(waiting):
        pod = pods[outcome.record.key]
        if isinstance(outcome, PlacedPod):
            told = verdict(judge, pod, outcome.node)
            assert told.code == "Success", (seed, told)
            judge.place(pod, outcome.node)
            placed += 1
        elif not pod.spec.resource_claims:
            fitting = [node for node in judge.nodes if verdict(judge, pod, node).code == "Success"]
            assert fitting == [], (seed, outcome.record.key, outcome.text)
    return placed


@pytest.mark.parametrize("batch", range(4))
def test_pods_decided_together_go_where_the_filters_allow_and_nowhere_else(batch: int) -> None:
    seeds = range(batch * BATCH, (batch + 1) * BATCH)
    assert sum(check(seed, replicas=3, together=True) for seed in seeds) > BATCH


@pytest.mark.parametrize("batch", range(2))
def test_pods_decided_one_by_one_go_where_the_filters_allow(batch: int) -> None:
    seeds = range(500 + batch * BATCH, 500 + (batch + 1) * BATCH)
    assert sum(check(seed, replicas=1, together=False) for seed in seeds) > BATCH
