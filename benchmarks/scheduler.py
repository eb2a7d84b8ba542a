"""`tonnage scheduler`: pods per second, from the watch that tells of them to the confirmed binding.

The API server is the embedded one, in the same process and without sockets: what it does for each
call and each watch counts too. Beside it the same scheduler deciding one pod after the other.
"""

import asyncio
import gc
import random
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from benchmarks.clusters import SEED
from benchmarks.context import Context
from benchmarks.measurement import Row
from tonnage.clock import SystemClock
from tonnage.cluster.client import Client
from tonnage.cluster.transport import HttpRequest
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.embedded.apiserver.store import Occurrence
from tonnage.objects import kinds
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.pods import Pod, PodTemplateSpec
from tonnage.objects.storage import BIND_COMPLETED_ANNOTATION, SELECTED_NODE_ANNOTATION
from tonnage.objects.workloads import StatefulSet, StatefulSetSpec
from tonnage.scheduler.config import SchedulerConfig
from tonnage.scheduler.program import SchedulerProgram, SchedulerSettings
from tonnage.service import lifecycle
from tonnage.service.config_file import ConfigFile
from tonnage.testing import builders

NAME = "scheduler"
DRIVER = "ebs.csi.aws.com"
LABELS = {"app": "db"}
LIMIT = 25
PODS = 5_000
AIM = 1_000.0
"""Pods per second; upstream's own floor with CSI volumes at this size is 100."""

_QUICK_PODS = 300
_PLAIN_PART = 10
"""One by one, only so small a part of the pods is scheduled, and its time is scaled up."""


class Case(NamedTuple):
    """Pods of a kind, and what each of them comes with: the claim of its name, if any."""

    name: str
    storage: Callable[[str], list[KubeObject]]


def _bound(name: str) -> list[KubeObject]:
    claim = builders.pvc(name, volume=name)
    return [builders.pv(name, driver=DRIVER, claim=claim), claim]


CASES = (
    Case("plain pods", lambda _: []),
    Case("pods with a CSI volume, bound before", _bound),
    Case(
        "pods with a claim that waits for them",
        lambda name: [builders.pvc(name, storage_class="fast")],
    ),
)


def run(context: Context) -> Iterator[Row]:
    nodes = context.size.nodes
    count = _QUICK_PODS if context.quick else PODS
    for case in CASES:
        taken = asyncio.run(_measure(case, nodes=nodes, count=count, together=True))
        part = count // _PLAIN_PART
        alone = asyncio.run(_measure(case, nodes=nodes, count=part, together=False))
        yield Row(
            benchmark=NAME,
            case=f"{case.name}, beside one by one",
            work=f"{count:,} pods, {nodes:,} nodes; {count / taken:,.0f} pods/s",
            value=taken,
            aim=count / AIM,
            plain=alone * count / part,
            plain_scale=_PLAIN_PART,
        )


async def _measure(case: Case, *, nodes: int, count: int, together: bool) -> float:
    """Seconds of CPU from when all pods are there to when all are known to be bound."""
    clock = SystemClock()
    server = ApiServer(clock=clock, rng=random.Random(SEED), remembered=10 * count)
    _create(server, builders.storage_class("fast", DRIVER))
    for number in range(nodes):
        zone = f"zone-{number % 3}"
        _create(server, builders.node(f"n{number}", cpu="8", memory="32Gi", zone=zone))
        _create(server, builders.csinode(f"n{number}", {DRIVER: LIMIT}))
    program = SchedulerProgram(
        Client(InProcessTransport(server), clock=clock, rng=random.Random(SEED)),
        config=ConfigFile(None, SchedulerConfig),
        settings=SchedulerSettings(
            identity="bench", address="", leader_elect=False, together=together
        ),
        server_version="v1.37.0",
        clock=clock,
        rng=random.Random(SEED),
        new_id=lambda: f"{random.getrandbits(64):x}",
    )
    async with lifecycle.beside(program.run(), Provisioner(server).run()):
        while not program.world.synced or program.scheduler.hold:
            await clock.sleep(0.05)
        owner = _create(
            server,
            StatefulSet(
                metadata=ObjectMeta(name="db", namespace="default"),
                spec=StatefulSetSpec(
                    selector=builders.selecting(LABELS),
                    template=PodTemplateSpec(metadata=ObjectMeta(labels=LABELS)),
                ),
            ),
        )
        names = [f"db-{number}" for number in range(count)]
        for name in names:
            for obj in case.storage(name):
                _create(server, obj)
        while len(program.world.snapshot.storage.claims) < bool(case.storage("")) * count:
            await clock.sleep(0.05)
        gc.collect()
        gc.freeze()
        for name in names:
            _create(server, _pod(name, owner=owner, claim=name if case.storage(name) else ""))
        started = time.process_time()
        while not all(pod.spec.node_name for pod in _pods(program, count)):
            await clock.sleep(0.005)
        taken = time.process_time() - started
    gc.unfreeze()
    _check(program, count)
    return taken


def _pods(program: SchedulerProgram, count: int) -> list[Pod]:
    cache = program.world.cache(Pod)
    # Only once all are there is it worth looking at each.
    return list(cache) if len(cache) == count else [Pod()]


def _check(program: SchedulerProgram, count: int) -> None:
    """Every pod was placed, and no node beyond what it can attach."""
    snapshot = program.world.snapshot
    assert sum(bool(one.node_name) for one in snapshot.pods.values()) == count
    assert int(snapshot.slots.taken(snapshot.slots.driver(DRIVER)).max()) <= LIMIT


class Provisioner:
    """Makes and binds a volume for every claim that learns its node, at once and without asking."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._chosen: list[str] = []
        server.store.observers.append(self._changed)

    def _changed(self, _: object, occurrence: Occurrence) -> None:
        claim = occurrence.after
        if claim is None or claim.tree["kind"] != "PersistentVolumeClaim":
            return
        waits = not claim.tree["spec"].get("volumeName")
        if waits and SELECTED_NODE_ANNOTATION in claim.meta.get("annotations", {}):
            self._chosen.append(claim.name)

    async def run(self) -> None:
        while True:
            chosen, self._chosen = self._chosen, []
            for name in chosen:
                claim = builders.pvc(name, storage_class="fast")
                uid = self._uid(name)
                claim = msgspec.structs.replace(
                    claim, metadata=msgspec.structs.replace(claim.metadata, uid=uid)
                )
                volume = builders.pv(name, driver=DRIVER, claim=claim, storage_class="fast")
                _create(self._server, volume)
                notes = {"annotations": {BIND_COMPLETED_ANNOTATION: "yes"}}
                _patch_claim(self._server, name, {"metadata": notes, "spec": {"volumeName": name}})
            await asyncio.sleep(0.001)

    def _uid(self, name: str) -> str:
        stored = self._server.store.built_in("persistentvolumeclaims").get("default", name)
        assert stored is not None
        return stored.uid


def _patch_claim(server: ApiServer, name: str, change: object) -> None:
    request = HttpRequest(
        method="PATCH",
        path=f"/api/v1/namespaces/default/persistentvolumeclaims/{name}",
        headers=(("Content-Type", "application/merge-patch+json"),),
        body=msgspec.json.encode(change),
    )
    answer = server.answer(request)
    assert answer.status == 200, answer.body


def _create(server: ApiServer, obj: KubeObject) -> str:
    """The uid it got."""
    row = kinds.of(obj)
    root = f"/apis/{row.api_version}" if row.group else f"/api/{row.version}"
    space = f"/namespaces/{obj.metadata.namespace}" if row.namespaced else ""
    body = {"apiVersion": row.api_version, "kind": row.kind, **msgspec.to_builtins(obj)}
    request = HttpRequest(
        method="POST",
        path=f"{root}{space}/{row.plural}",
        headers=(("Content-Type", "application/json"),),
        body=msgspec.json.encode(body),
    )
    answer = server.answer(request)
    assert answer.status == 201, answer.body
    return str(msgspec.json.decode(answer.body)["metadata"]["uid"])


def _pod(name: str, *, owner: str, claim: str) -> Pod:
    controller = OwnerReference(
        api_version="apps/v1", kind="StatefulSet", name="db", uid=owner, controller=True
    )
    made = builders.pod(
        name,
        cpu="100m",
        memory="256Mi",
        labels=LABELS,
        owner=controller,
        pvcs=[claim] if claim else [],
    )
    return msgspec.structs.replace(
        made, spec=msgspec.structs.replace(made.spec, scheduler_name="tonnage")
    )
