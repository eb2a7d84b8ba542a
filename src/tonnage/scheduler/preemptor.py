"""Preemption as the loop sees it: may this pod, whom does it cost, and seeing them off."""

import logging
from collections.abc import Coroutine
from typing import Any, NamedTuple

import numpy as np

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client, PatchStyle
from tonnage.cluster.events import Recorder
from tonnage.errors import ClusterError
from tonnage.objects.pods import Pod
from tonnage.objects.timestamps import rfc3339
from tonnage.objects.workloads import PodDisruptionBudget
from tonnage.rules.features import Features
from tonnage.scheduler import preemption
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.placer import RefusedPod
from tonnage.scheduler.preemption import Search, Victims
from tonnage.scheduler.scheduler_cache import SchedulerCache
from tonnage.snapshot.rows import Ints
from tonnage.snapshot.snapshot import PodRecord

_log = logging.getLogger(__name__)


class PreemptionAttempt(NamedTuple):
    """What came of it: the node that is promised, what is said, and what is to be done.

    `displaced` are less important pods that had been promised the same node.
    """

    nominated: str | None = None
    told: str = ""
    work: tuple[Coroutine[Any, Any, None], ...] = ()
    displaced: tuple[str, ...] = ()


class Preemptor:
    """Remembers for whom pods are on their way out, so that nobody is sacrificed twice for one."""

    def __init__(
        self,
        client: Client,
        world: SchedulerCache,
        *,
        clock: Clock,
        recorder: Recorder,
        name: str,
        metrics: SchedulerMetrics,
        rng: np.random.Generator,
    ) -> None:
        self._client = client
        self._world = world
        self._clock = clock
        self._recorder = recorder
        self._name = name
        self._metrics = metrics
        self._rng = rng
        self._told: tuple[Ints | None, str] = None, ""
        """What was last said of refusals, and of which."""
        self._leaving: dict[str, set[str]] = {}
        """By the newcomer, its victims that are not gone yet."""

    def start_over(self) -> None:
        """Nobody is on the way out because of us, as far as we know."""
        self._leaving.clear()

    def pod_gone(self, key: str) -> None:
        self._leaving.pop(key, None)
        for newcomer, victims in list(self._leaving.items()):
            victims.discard(key)
            if not victims:
                del self._leaving[newcomer]

    def attempt(
        self, refused: RefusedPod, features: Features, *, allowed: bool
    ) -> PreemptionAttempt:
        """Make room for a pod that no node was found for, if others may and can."""
        record = refused.record
        pod = self._world.pod(record.key)
        if not allowed or pod is None or not refused.alive.any():
            return PreemptionAttempt()
        if pod.spec.preemption_policy == preemption.NEVER:
            return PreemptionAttempt(told=preemption.NOT_ELIGIBLE_NEVER)
        if record.key in self._leaving or self._waits_for_someone(record):
            return PreemptionAttempt(told=preemption.NOT_ELIGIBLE_TERMINATING)
        victims = self._search(refused, features)
        if victims is None:
            if record.nominated:
                self._world.nominate(record.key, "")
            return PreemptionAttempt(nominated="", told=self._fruitless(refused))
        return self._send_off(pod, record, victims)

    def _fruitless(self, refused: RefusedPod) -> str:
        # Pods that are refused together share their columns, and may be thousands.
        codes, told = self._told
        if codes is not refused.codes:
            told = preemption.fruitless(refused.codes, refused.alive)
            self._told = refused.codes, told
        return told

    def _waits_for_someone(self, record: PodRecord) -> bool:
        """Whether the node it is promised is being left by somebody less important."""
        return any(
            other.terminating and other.pod_class.priority < record.pod_class.priority
            for other in self._world.snapshot.pods_on(record.nominated)
        )

    def _search(self, refused: RefusedPod, features: Features) -> Victims | None:
        priority = refused.record.pod_class.priority
        snapshot = self._world.snapshot
        if not any(
            storage_class.nodes and storage_class.priority < priority
            for storage_class in snapshot.classes.values()
        ):
            return None
        budgets = self._world.cache(PodDisruptionBudget)
        search = Search(snapshot, features, pod_of=self._world.pod, budgets=budgets, rng=self._rng)
        found = search.find(refused.record, refused.codes, refused.alive)
        self._metrics.preemption(len(found.pods) if found is not None else 0)
        return found

    def _send_off(self, pod: Pod, record: PodRecord, victims: Victims) -> PreemptionAttempt:
        self._leaving[record.key] = {one.key for one in victims.pods}
        self._world.nominate(record.key, victims.node)
        promised = self._world.snapshot.nominated_pods.get(victims.node, {}).values()
        displaced = [
            one.key for one in promised if one.pod_class.priority < record.pod_class.priority
        ]
        for key in displaced:
            self._world.nominate(key, "")
        _log.info(
            "preempting",
            extra={
                "pod": record.key,
                "node": victims.node,
                "victims": [one.key for one in victims.pods],
                "budgets_broken": victims.violations,
            },
        )
        work = tuple(self._preempt(pod, one, victims.node) for one in victims.pods)
        return PreemptionAttempt(nominated=victims.node, work=work, displaced=tuple(displaced))

    async def _preempt(self, newcomer: Pod, record: PodRecord, node: str) -> None:
        victim = self._world.pod(record.key)
        if victim is None or victim.metadata.uid != record.meta.uid:
            self.pod_gone(record.key)
            return
        meta = victim.metadata
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self._name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        try:
            await self._client.patch(
                Pod,
                meta.name,
                {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}},
                style=PatchStyle.STRATEGIC,
                namespace=meta.namespace,
                subresource="status",
            )
            await self._client.delete(Pod, meta.name, namespace=meta.namespace, uid=meta.uid)
        except (errors.NotFound, errors.Conflict):
            self.pod_gone(record.key)
            return
        except ClusterError as error:
            extra = {"pod": record.key, "error": str(error)}
            _log.warning("pod not preempted", extra=extra)
            self.pod_gone(record.key)
            return
        self._recorder.record(
            victim,
            reason="Preempted",
            message=f"Preempted by pod {newcomer.metadata.uid} on node {node}",
        )
