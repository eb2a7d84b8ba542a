"""Pods that controllers are known to make next, as room that is kept ready for them.

A StatefulSet that starts in order makes its hundredth pod when the ninety-ninth is ready. Whoever
waits for pods buys a node, waits for it, and buys the next one. Looking ahead counts what an object
itself says it will have: never more than its own replicas, a Job's parallelism and completions, or
what a ResourceQuota leaves. A pod that is there is counted as itself, whatever its state.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TypeAlias

from tonnage.groups.capacity_buffers import ChunkShape, taken_by
from tonnage.groups.headroom import MOST_CHUNKS, KeptRoom
from tonnage.objects import quantities, timestamps
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.quotas import ResourceQuota
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.objects.workloads import Job, ReplicaSet, StatefulSet

Controller: TypeAlias = StatefulSet | ReplicaSet | Job
CONTROLLERS: tuple[type[Controller], ...] = (StatefulSet, ReplicaSet, Job)
"""Kinds that are looked ahead at; a Deployment has its ReplicaSets."""

KINDS: tuple[type[KubeObject], ...] = (*CONTROLLERS, ResourceQuota)

HasClaim: TypeAlias = Callable[[str, str], bool]
"""Whether there is a claim, by namespace and name."""

_STORAGE_CLASS = ".storageclass.storage.k8s.io/"


class ControlledPods:
    """Pods that have not ended, by the uid of their controller, with the time they were made."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._made: dict[str, dict[str, float]] = {}
        for pod in pods:
            self.put(pod)

    def put(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        if owner is None:
            return
        if pod.status.phase in FINISHED:
            self.drop(pod)
            return
        made = self._made.setdefault(owner.uid, {})
        if pod.metadata.name not in made:
            made[pod.metadata.name] = timestamps.moment(pod.metadata.creation_timestamp) or 0.0

    def drop(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        made = self._made.get(owner.uid) if owner is not None else None
        if owner is None or made is None:
            return
        made.pop(pod.metadata.name, None)
        if not made:
            del self._made[owner.uid]

    def of(self, uid: str) -> Mapping[str, float]:
        return self._made.get(uid, {})


def of_objects(objects: Iterable[object], *, now: float, within: float) -> tuple[KeptRoom, ...]:
    """The room for what controllers among the objects of a file make next."""
    held = list(objects)
    claims = {
        (one.metadata.namespace, one.metadata.name)
        for one in held
        if isinstance(one, PersistentVolumeClaim)
    }
    return rooms(
        [one for one in held if isinstance(one, StatefulSet | ReplicaSet | Job)],
        ControlledPods(one for one in held if isinstance(one, Pod)),
        quotas=[one for one in held if isinstance(one, ResourceQuota)],
        has_claim=lambda namespace, name: (namespace, name) in claims,
        now=now,
        within=within,
    )


def rooms(
    controllers: Iterable[Controller],
    pods: ControlledPods,
    *,
    quotas: Iterable[ResourceQuota],
    has_claim: HasClaim,
    now: float,
    within: float,
) -> tuple[KeptRoom, ...]:
    """Room for what each controller makes next, by namespace and name.

    One that has made no pod for longer than `within` seconds makes none now either: nothing is
    bought for it, and nodes that were are not kept any longer.
    """
    left = _QuotasLeft(quotas)
    found = []
    for one in sorted(controllers, key=lambda one: (one.metadata.key, type(one).__name__)):
        meta = one.metadata
        if not meta.uid or meta.deletion_timestamp is not None:
            continue
        made = pods.of(meta.uid)
        ahead = _ahead(one, made, has_claim)
        if ahead <= 0:
            continue
        last = max((timestamps.moment(meta.creation_timestamp) or 0.0, *made.values()))
        if now - last > within:
            continue
        claims = one.spec.volume_claim_templates if isinstance(one, StatefulSet) else ()
        shape = ChunkShape(one.spec.template, claims)
        chunks = left.take(meta.namespace, shape, min(ahead, MOST_CHUNKS))
        if chunks > 0:
            found.append(
                KeptRoom(
                    namespace=meta.namespace,
                    name=meta.name,
                    chunks=chunks,
                    template=one.spec.template,
                    claims=claims,
                    ahead_of=type(one).__name__,
                )
            )
    return tuple(found)


def _ahead(one: Controller, made: Mapping[str, float], has_claim: HasClaim) -> int:
    if isinstance(one, Job):
        return _ahead_of_job(one, len(made))
    replicas = 1 if one.spec.replicas is None else one.spec.replicas
    if isinstance(one, ReplicaSet):
        return replicas - len(made)
    if replicas <= len(made) or replicas > MOST_CHUNKS + len(made):
        return min(replicas - len(made), MOST_CHUNKS)
    meta = one.metadata
    start = one.spec.ordinals.start if one.spec.ordinals is not None else 0
    templates = [template.metadata.name for template in one.spec.volume_claim_templates]
    return sum(
        name not in made
        # Of a claim that is there the volume says where the pod must run; its zone is not guessed.
        and not any(has_claim(meta.namespace, f"{template}-{name}") for template in templates)
        for name in (f"{meta.name}-{number}" for number in range(start, start + replicas))
    )


def _ahead_of_job(job: Job, active: int) -> int:
    over = any(
        one.type in ("Complete", "Failed") and one.status == "True" for one in job.status.conditions
    )
    if job.spec.suspend or over:
        return 0
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is not None:
        return min(parallelism, job.spec.completions - job.status.succeeded) - active
    return 0 if job.status.succeeded else parallelism - active


class _QuotasLeft:
    """What the quotas of each namespace leave, less what was taken of it.

    A quota with scopes may not go for these pods; it is taken as if it did, which buys less.
    """

    def __init__(self, quotas: Iterable[ResourceQuota]) -> None:
        self._left: defaultdict[str, list[dict[str, Fraction]]] = defaultdict(list)
        for quota in quotas:
            self._left[quota.metadata.namespace].append(_left(quota))

    def take(self, namespace: str, shape: ChunkShape, wanted: int) -> int:
        """How many of the chunks may be; these are taken."""
        quotas = self._left.get(namespace)
        if not quotas:
            return wanted
        takes = _takes(shape)
        for left in quotas:
            for name, amount in left.items():
                each = takes.get(name)
                if each:
                    wanted = min(wanted, int(max(amount, Fraction(0)) / each))
        for left in quotas:
            for name in left.keys() & takes.keys():
                left[name] -= wanted * takes[name]
        return wanted


def _left(quota: ResourceQuota) -> dict[str, Fraction]:
    found = {}
    for name, hard in (quota.status.hard or quota.spec.hard).items():
        try:
            used = quantities.exact(quota.status.used.get(name, 0))
            found[name] = quantities.exact(hard) - used
        except quantities.QuantityError:
            found[name] = Fraction(0)  # nobody knows what is left
    return found


def _takes(shape: ChunkShape) -> dict[str, Fraction]:
    """What one chunk takes, by the names that quotas have for it."""
    plain = taken_by(shape)
    found = dict(plain)
    for name, amount in plain.items():
        if name in ("pods", "persistentvolumeclaims"):
            found[f"count/{name}"] = amount
        elif not name.startswith("requests."):
            found[f"requests.{name}"] = amount
    for container in shape.template.spec.containers:
        for name, limit in container.resources.limits.items() if container.resources else ():
            try:
                amount = quantities.exact(limit)
            except quantities.QuantityError:
                continue
            found[f"limits.{name}"] = found.get(f"limits.{name}", Fraction(0)) + amount
    for claim in shape.claims:
        by_class = f"{claim.class_name}{_STORAGE_CLASS}"
        for name, amount in (
            ("persistentvolumeclaims", Fraction(1)),
            ("requests.storage", _size(claim)),
        ):
            found[by_class + name] = found.get(by_class + name, Fraction(0)) + amount
    return found


def _size(claim: PersistentVolumeClaim) -> Fraction:
    try:
        return Fraction(quantities.exact(claim.spec.resources.requests.get("storage", 0)))
    except quantities.QuantityError:
        return Fraction(0)
