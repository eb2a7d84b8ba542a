"""CapacityBuffers: what each asks for, or what is wrong with it.

A buffer names a PodTemplate, or a workload whose pods its chunks are like. How many chunks there
are comes from `replicas` and `percentage`, the larger of them, and `limits` caps it. Besides what
pods request, limits may name what their claims come to: `persistentvolumeclaims` and
`requests.storage`, as in a ResourceQuota.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TypeAlias

import msgspec

from tonnage.errors import InputError
from tonnage.groups import headroom
from tonnage.groups.cron_windows import CronWindow
from tonnage.groups.headroom import MOST_CHUNKS, KeptRoom
from tonnage.objects import quantities, resources
from tonnage.objects.buffers import (
    ACTIVE_CAPACITY,
    CapacityBuffer,
    PodTemplate,
    PodTemplateReference,
    ScalableReference,
)
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta, ResourceList
from tonnage.objects.pods import PodTemplateSpec
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.objects.workloads import (
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

WINDOWS_ANNOTATION = "tonnage.dev/windows"
"""When the buffer is to be there: a JSON list of windows, as in `scaleDownWindows`."""

SCALABLE: dict[tuple[str, str], type[KubeObject]] = {
    ("apps", "Deployment"): Deployment,
    ("apps", "ReplicaSet"): ReplicaSet,
    ("apps", "StatefulSet"): StatefulSet,
    ("batch", "Job"): Job,
    ("", "ReplicationController"): ReplicationController,
}

AS_ASKED = "AttributesSet"
OUTSIDE_WINDOW = "OutsideWindow"

Find: TypeAlias = Callable[[type[KubeObject], str, str], KubeObject | None]
"""Finds an object by its type, namespace and name."""


class BufferReading(msgspec.Struct, frozen=True):
    """A buffer, and the room it asks for; or a reason why none is kept for it."""

    buffer: CapacityBuffer
    room: KeptRoom | None
    reason: str
    message: str = ""
    template: PodTemplateReference | None = None
    generation: int | None = None

    @property
    def is_good(self) -> bool:
        return self.reason in (AS_ASKED, OUTSIDE_WINDOW)

    @property
    def problem(self) -> str:
        """What is wrong with it, for people; empty if nothing is."""
        if self.is_good:
            return ""
        return f"CapacityBuffer {self.buffer.metadata.key}: {self.reason}: {self.message}"

    @property
    def chunks(self) -> int:
        return self.room.chunks if self.room is not None else 0


class _BadBufferError(Exception):
    """What is wrong with a buffer: a reason for its condition, and a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class ChunkShape(msgspec.Struct, frozen=True):
    """What a chunk is like, and how many pods of that kind are wanted now."""

    template: PodTemplateSpec
    claims: tuple[PersistentVolumeClaim, ...] = ()
    replicas: int = 0
    reference: PodTemplateReference | None = None
    generation: int | None = None


def read(buffers: Iterable[CapacityBuffer], find: Find, *, now: float) -> tuple[BufferReading, ...]:
    """What the buffers ask for, by name; those of other strategies are left to others."""
    ordered = sorted(buffers, key=lambda one: one.metadata.key)
    return tuple(
        _read(buffer, find, now)
        for buffer in ordered
        if (buffer.spec.provisioning_strategy or ACTIVE_CAPACITY) == ACTIVE_CAPACITY
        and buffer.metadata.deletion_timestamp is None
    )


def of_objects(objects: Iterable[object], *, now: float) -> tuple[BufferReading, ...]:
    """The same of the buffers among the objects of a file."""
    held = list(objects)
    buffers = [one for one in held if isinstance(one, CapacityBuffer)]
    if not buffers:
        return ()
    named = (PodTemplate, *SCALABLE.values())
    index = {
        (type(one), one.metadata.namespace, one.metadata.name): one
        for one in held
        if isinstance(one, named)
    }
    return read(buffers, lambda *key: index.get(key), now=now)


def _read(buffer: CapacityBuffer, find: Find, now: float) -> BufferReading:
    try:
        shape = _shape(buffer, find)
        chunks = _chunks(buffer, shape)
        is_open = headroom.is_open(_windows(buffer.metadata), now)
    except _BadBufferError as error:
        return BufferReading(buffer, None, error.reason, str(error))
    meta = buffer.metadata
    room = KeptRoom(
        namespace=meta.namespace,
        name=meta.name,
        chunks=chunks if is_open else 0,
        template=shape.template,
        claims=shape.claims,
    )
    told = f"room for {chunks:,} chunks" if is_open else "no window of the buffer is open now"
    return BufferReading(
        buffer,
        room,
        AS_ASKED if is_open else OUTSIDE_WINDOW,
        told,
        template=shape.reference,
        generation=shape.generation,
    )


def _shape(buffer: CapacityBuffer, find: Find) -> ChunkShape:
    spec, namespace = buffer.spec, buffer.metadata.namespace
    if spec.pod_template_ref is not None and spec.scalable_ref is not None:
        raise _BadBufferError(
            "BothReferences", "podTemplateRef and scalableRef: expected one of them, found both"
        )
    if spec.pod_template_ref is not None:
        name = spec.pod_template_ref.name
        template = find(PodTemplate, namespace, name)
        if not isinstance(template, PodTemplate):
            raise _BadBufferError(
                "PodTemplateNotFound",
                f"podTemplateRef: there is no PodTemplate {name} in namespace {namespace}",
            )
        generation = template.metadata.generation or None
        return ChunkShape(template.template, reference=spec.pod_template_ref, generation=generation)
    if spec.scalable_ref is not None:
        return _shape_of_workload(spec.scalable_ref, namespace, find)
    raise _BadBufferError("NoReference", "expected podTemplateRef or scalableRef, found neither")


def _shape_of_workload(reference: ScalableReference, namespace: str, find: Find) -> ChunkShape:
    kind = SCALABLE.get((reference.api_group, reference.kind))
    if kind is None:
        known = ", ".join(f"{name} ({group or 'core'})" for group, name in SCALABLE)
        raise _BadBufferError(
            "UnsupportedScalable",
            f"scalableRef: {reference.kind} of group {reference.api_group or 'core'}:"
            f" expected one of {known}",
        )
    found = find(kind, namespace, reference.name)
    if not isinstance(found, Deployment | ReplicaSet | StatefulSet | ReplicationController | Job):
        raise _BadBufferError(
            "ScalableNotFound",
            f"scalableRef: there is no {reference.kind} {reference.name} in namespace {namespace}",
        )
    wanted = found.spec.parallelism if isinstance(found, Job) else found.spec.replicas
    replicas = 1 if wanted is None else wanted
    if isinstance(found, StatefulSet):
        claims = found.spec.volume_claim_templates
        return ChunkShape(found.spec.template, claims, replicas=replicas)
    return ChunkShape(found.spec.template, replicas=replicas)


def _chunks(buffer: CapacityBuffer, shape: ChunkShape) -> int:
    spec = buffer.spec
    if spec.replicas is not None and spec.replicas < 0:
        raise _BadBufferError("NegativeReplicas", f"replicas: {spec.replicas}: expected 0 or more")
    if spec.percentage is not None and spec.percentage < 0:
        raise _BadBufferError(
            "NegativePercentage", f"percentage: {spec.percentage}: expected 0 or more"
        )
    if spec.percentage is not None and spec.scalable_ref is None:
        raise _BadBufferError(
            "PercentageWithoutScalable",
            "percentage: there is nothing it is a share of: expected scalableRef beside it",
        )
    wanted = [] if spec.replicas is None else [spec.replicas]
    if spec.percentage is not None:
        wanted.append(math.ceil(Fraction(spec.percentage * max(shape.replicas, 0), 100)))
    capped = _capped(spec.limits, shape) if spec.limits is not None else None
    if not wanted and capped is None:
        raise _BadBufferError(
            "NoSize", "expected replicas, percentage, or limits on what chunks request"
        )
    found = max(wanted, default=MOST_CHUNKS + 1)
    if capped is not None:
        found = min(found, capped)
    if found > MOST_CHUNKS:
        raise _BadBufferError("TooManyChunks", f"more than {MOST_CHUNKS:,} chunks")
    return found


def _capped(limits: ResourceList, shape: ChunkShape) -> int | None:
    """How many chunks fit within the limits; `None` where these say nothing of them."""
    takes = taken_by(shape)
    room: list[int] = []
    for name, limit in limits.items():
        try:
            most = quantities.exact(limit)
        except quantities.QuantityError as error:
            raise _BadBufferError("BadLimits", f"limits.{name}: {error}") from None
        if most < 0:
            raise _BadBufferError("BadLimits", f"limits.{name}: {limit}: expected 0 or more")
        amount = takes.get(name.removeprefix("requests.")) or takes.get(name)
        if amount:
            room.append(int(most / amount))
    return min(room, default=None)


def taken_by(shape: ChunkShape) -> Mapping[str, Fraction]:
    """What one chunk takes of everything that limits may name."""
    spec = shape.template.spec
    spec = msgspec.structs.replace(
        spec,
        containers=tuple(map(resources.with_requests, spec.containers)),
        init_containers=tuple(map(resources.with_requests, spec.init_containers)),
    )
    found: Counter[str] = Counter()
    takes = {
        name: Fraction(amount, 1000 if name == resources.CPU else 1)
        for name, amount in resources.requests(spec).items()
    }
    claims = [template.spec for template in shape.claims]
    for volume in spec.volumes:
        made = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if made is not None:
            claims.append(made.spec)
    for claim in claims:
        size = claim.resources.requests.get("storage")
        if size is not None:
            try:
                found["requests.storage"] += quantities.value(size)
            except quantities.QuantityError:
                continue
    return {
        **takes,
        resources.PODS: Fraction(1),
        "persistentvolumeclaims": Fraction(len(claims)),
        **{name: Fraction(amount) for name, amount in found.items()},
    }


def _windows(meta: ObjectMeta) -> tuple[CronWindow, ...]:
    text = meta.annotations.get(WINDOWS_ANNOTATION)
    if text is None:
        return ()
    try:
        windows = msgspec.json.decode(text.encode(), type=tuple[CronWindow, ...])
        for position, window in enumerate(windows):
            window.check(f"[{position}]")
    except (msgspec.DecodeError, InputError) as error:
        told = str(error).replace("`", "")
        raise _BadBufferError("BadWindows", f"annotation {WINDOWS_ANNOTATION}: {told}") from None
    return windows
