"""Jobs: pods until enough of them have done their work."""

from collections import defaultdict
from functools import partial

import msgspec

from tonnage.cluster import errors
from tonnage.cluster.cache import Cache, Key
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.controllers import pod_control
from tonnage.embedded.world.controllers.workload_records import (
    JOBS,
    JobObject,
    Tree,
    WholePodTemplate,
)
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.pod_index import OwnedPods, is_active
from tonnage.embedded.world.run_times import RUNS_FOR
from tonnage.embedded.world.work_queue import WorkQueue
from tonnage.objects import timestamps
from tonnage.objects.conditions import is_ready
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.timestamps import rfc3339


class Jobs:
    """Counts each pod that ended once, also after it is gone; one that vanished ended nowhere."""

    def __init__(self, context: WorldContext, *, owned: OwnedPods, jobs: Cache[JobObject]) -> None:
        self._client, self._clock, _, _, self._chores = context
        self._owned = owned
        self._jobs = jobs
        self._ended: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """How each pod of a Job ended, by uids."""
        self._made: defaultdict[str, int] = defaultdict(int)
        """How many pods each Job was given, by uid."""
        self._queue: WorkQueue[Key] = WorkQueue("job", self._look, context)
        jobs.subscribe(self._job_changed)
        owned.follow("Job", self._pod_changed)

    def _job_changed(self, change: Change[JobObject]) -> None:
        meta = change.object.metadata
        if change.type is EventType.DELETED:
            self._ended.pop(meta.uid, None)
            self._made.pop(meta.uid, None)
            self._chores.stop(("job over", meta.uid))
            return
        self._queue.note((meta.namespace, meta.name))

    def _pod_changed(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        if owner is None:
            return
        if pod.status.phase in FINISHED:
            self._ended[owner.uid][pod.metadata.uid] = pod.status.phase
        self._queue.note((pod.metadata.namespace, owner.name))

    async def _look(self, key: Key) -> None:
        found = self._jobs.get(key[1], namespace=key[0])
        if found is None or found.metadata.deletion_timestamp is not None:
            return
        if _over(found):
            self._expire(found)
            return
        uid = found.metadata.uid
        active = [pod for pod in self._owned.of(uid) if is_active(pod)]
        succeeded, failed = self._count(found, "Succeeded"), self._count(found, "Failed")
        outcome = _outcome(found, succeeded=succeeded, failed=failed, active=len(active))
        wanted = 0
        if not outcome and not found.spec.suspend:
            wanted = _wanted(found, succeeded=succeeded, active=len(active))
        for surplus in active[wanted:]:
            await pod_control.delete(self._client, surplus)
        for _ in range(wanted - len(active) - self._owned.expected(uid)):
            await self._make(found)
        await self._tell(found, outcome, active, succeeded=succeeded, failed=failed)

    def _count(self, found: JobObject, phase: str) -> int:
        """From what was seen, or from what an earlier world had told."""
        seen = sum(how == phase for how in self._ended[found.metadata.uid].values())
        return max(seen, int(found.status.get(phase.lower()) or 0))

    async def _make(self, found: JobObject) -> None:
        meta = found.metadata
        labels = {
            "batch.kubernetes.io/job-name": meta.name,
            "batch.kubernetes.io/controller-uid": meta.uid,
            "job-name": meta.name,
        }
        owner = pod_control.owner(JOBS, meta)
        template = timed(found.spec.template, self._made[meta.uid])
        self._made[meta.uid] += 1
        pod = pod_control.pod(template, owner, namespace=meta.namespace, labels=labels)
        made = await pod_control.create(self._client, pod)
        if made is not None:
            self._owned.expect(meta.uid, made)

    async def _tell(
        self, found: JobObject, outcome: str, active: list[Pod], *, succeeded: int, failed: int
    ) -> None:
        now = rfc3339(self._clock.now())
        status: Tree = {
            "startTime": found.status.get("startTime") or now,
            "active": len(active),
            "ready": sum(map(is_ready, active)),
            "succeeded": succeeded,
            "failed": failed,
        }
        if outcome:
            over = {"type": outcome, "status": "True", "lastTransitionTime": now}
            status |= {"active": 0, "ready": 0, "conditions": [over]}
            if outcome == "Complete":
                status["completionTime"] = now
        await pod_control.tell(self._client, JOBS, found, status)

    def _expire(self, found: JobObject) -> None:
        if found.spec.ttl_seconds_after_finished is not None:
            uid = found.metadata.uid
            self._chores.start(("job over", uid), partial(self._delete_later, found))

    async def _delete_later(self, found: JobObject) -> None:
        meta, ttl = found.metadata, found.spec.ttl_seconds_after_finished or 0
        since = max(timestamps.parse(one["lastTransitionTime"]) for one in _over(found))
        await self._clock.sleep(since + ttl - self._clock.now().timestamp())
        try:
            await self._client.delete(JOBS, meta.name, namespace=meta.namespace, uid=meta.uid)
        except errors.Conflict:
            return


def timed(template: WholePodTemplate, position: int) -> WholePodTemplate:
    """The template with the running time of the pod at that position, where it lists several."""
    meta = template.metadata
    times = meta.annotations.get(RUNS_FOR, "").split(",")
    if len(times) < 2:
        return template
    own = {**meta.annotations, RUNS_FOR: times[min(position, len(times) - 1)].strip()}
    return msgspec.structs.replace(
        template, metadata=msgspec.structs.replace(meta, annotations=own)
    )


def _over(found: JobObject) -> list[Tree]:
    """The conditions that say that nothing more is to be done."""
    conditions: list[Tree] = found.status.get("conditions") or []
    return [condition for condition in conditions if condition["type"] in ("Complete", "Failed")]


def _outcome(found: JobObject, *, succeeded: int, failed: int, active: int) -> str:
    if failed > found.spec.backoff_limit:
        return "Failed"
    completions = found.spec.completions
    if completions is None:
        completions = 1 if found.spec.parallelism in (None, 1) else None
    if completions is None:
        return "Complete" if succeeded and not active else ""
    return "Complete" if succeeded >= completions else ""


def _wanted(found: JobObject, *, succeeded: int, active: int) -> int:
    parallelism = 1 if found.spec.parallelism is None else found.spec.parallelism
    if found.spec.completions is not None:
        return min(parallelism, found.spec.completions - succeeded)
    # A queue of work: once one of them found it empty, no new ones are made.
    return min(parallelism, active) if succeeded else parallelism
