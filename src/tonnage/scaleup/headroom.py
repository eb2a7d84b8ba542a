"""Room that is kept ready, in a decision: its chunks as groups of pods, and what became of them.

Chunks have claims of their own, which are put into the snapshot for the trial of the decision. They
are placed when everybody who waits has a place, and room is bought for those that find none.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tonnage.groups import headroom
from tonnage.groups.headroom import KeptRoom, SlotHeadroom
from tonnage.groups.inputs import Inputs
from tonnage.groups.model import Template
from tonnage.groups.provisioning_requests import RequestedRoom
from tonnage.objects import intree
from tonnage.objects.labels import ZONE
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.phrases import listed
from tonnage.objects.pods import Pod, PodSpec, PodTemplateSpec
from tonnage.objects.storage import (
    BIND_COMPLETED_ANNOTATION,
    ClaimStatus,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeSpec,
)
from tonnage.objects.volume_sources import ClaimReference, ClaimSpec, CSISource, VolumeSource
from tonnage.objects.workloads import StatefulSet, StatefulSetSpec
from tonnage.rules.features import Features
from tonnage.rules.kept_slots import DRIVER_ANNOTATION, KEPT_SLOTS
from tonnage.scaleup import pod_groups, replicas
from tonnage.scaleup.plan import (
    ChunksOnNode,
    FreedRoomWait,
    KeptRoomPlan,
    NotHelped,
    Plan,
    Step,
)
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot import storage_ledger
from tonnage.snapshot.snapshot import PodRecord, Snapshot

LOWEST = -(2**31)
"""Below every priority that a pod may have."""

_NAMESPACE = "kube-system"
_SHARED_MODES = frozenset({"ReadOnlyMany", "ReadWriteMany"})
_WAITING = "WaitForFirstConsumer"


class Chunks(msgspec.Struct, frozen=True):
    """The chunks of all rooms in groups, and how many of each room."""

    groups: Sequence[PodGroup]
    wanted: Mapping[str, int]
    warnings: Sequence[str]


NO_CHUNKS = Chunks((), {}, ())


def is_wanted(inputs: Inputs) -> bool:
    """Whether any room is to be kept."""
    return bool(inputs.headroom or inputs.options.kept_slots)


def drivers(inputs: Inputs) -> Iterator[str]:
    """Drivers of which new nodes need a limit for the sake of kept room."""
    yield from (one.driver for one in inputs.options.kept_slots)
    storage = inputs.cluster.snapshot.storage
    for room in inputs.headroom:
        names = {claim.class_name for claim in room.claims}
        for volume in room.template.spec.volumes:
            made = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
            if made is not None:
                names.add(made.spec.storage_class_name or "")
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
                claim = storage.claim(room.namespace, name)
                names.add(claim.class_name if claim is not None else "")
        if "" in names:
            # Whichever is the default class: it is one of these.
            names.update(storage.classes)
        for name in names:
            known = storage.classes.get(name)
            if known is not None:
                yield intree.csi_driver_of(known.provisioner) or known.provisioner


def features_for(features: Features) -> Features:
    """With the rule that holds for kept slots alone."""
    if KEPT_SLOTS in features.more_rules:
        return features
    return msgspec.structs.replace(features, more_rules=(*features.more_rules, KEPT_SLOTS))


def chunks(inputs: Inputs, templates: Mapping[str, Template], *, ledger: bool = True) -> Chunks:
    """The chunks of all rooms; their claims are in the snapshot from here on, until the trial ends.

    `templates` tell of zones that have no node yet. Without a `ledger` claims are not added up.
    """
    if not is_wanted(inputs):
        return NO_CHUNKS
    snapshot, options = inputs.cluster.snapshot, inputs.options
    wanted: dict[str, int] = {}
    warnings: list[str] = []
    records: list[PodRecord] = []
    for room in inputs.headroom:
        if room.chunks <= 0:
            continue
        made = [snapshot.record_of(pod) for pod in pods_of_room(snapshot, room)]
        limit = options.max_pod_complexity
        if limit and made[0].complexity > limit:
            warnings.append(
                f"{room.title}: its pods have {made[0].complexity:,} rules, terms, values and"
                f" volumes, more than the {limit:,} of maxPodComplexity: no room is kept"
            )
            continue
        records += made
        wanted[room.title] = len(made)
    entries: Counter[str] = Counter()
    for entry in options.kept_slots:
        entries[entry.driver] += 1
        number = entries[entry.driver]
        if not headroom.is_open(entry.windows, inputs.now):
            continue
        title = entry.driver if number == 1 else f"{entry.driver}#{number}"
        for zone in _zones(inputs, entry, templates):
            name = f"{title}@{zone}" if zone else title
            made = [snapshot.record_of(pod) for pod in _slot_pods(snapshot, entry, name, zone)]
            records += made
            if made:
                wanted[headroom.of_chunk(made[0].key).title] = len(made)
    counted = ledger and not options.as_upstream
    classes = storage_ledger.tracked(snapshot.storage) if counted else ()
    return Chunks(pod_groups.group(snapshot, records, ledger=classes), wanted, warnings)


def pods_of_room(
    snapshot: Snapshot, room: KeptRoom, *, base: str = "", priority: int = LOWEST
) -> list[Pod]:
    """The pods of the chunks, as a StatefulSet would have them; their claims are taken in.

    `base` is what their names begin with, if not as the room has it.
    """
    base = base or room.base
    spec, own = _with_own_claims(snapshot, room)
    spec = msgspec.structs.replace(spec, priority=priority, node_name="", scheduling_gates=())
    workload = StatefulSet(
        metadata=ObjectMeta(name=base, namespace=room.namespace),
        spec=StatefulSetSpec(
            replicas=room.chunks,
            template=PodTemplateSpec(metadata=room.template.metadata, spec=spec),
            volume_claim_templates=own,
        ),
    )
    pods = []
    for one in replicas.missing([workload], list(snapshot.storage.classes.values())).objects:
        if isinstance(one, Pod):
            pods.append(one)
        elif isinstance(one, PersistentVolumeClaim):
            snapshot.put_claim(_waiting(snapshot, one))
    return pods


def pods_of_request(snapshot: Snapshot, room: RequestedRoom) -> list[PodRecord]:
    """The pods that room is requested for; their claims are taken in."""
    return [
        snapshot.record_of(pod)
        for one in room.sets
        for pod in pods_of_room(
            snapshot,
            one,
            base=headroom.chunk_base(headroom.REQUEST, one.name),
            priority=one.template.spec.priority or 0,
        )
    ]


def _with_own_claims(
    snapshot: Snapshot, room: KeptRoom
) -> tuple[PodSpec, tuple[PersistentVolumeClaim, ...]]:
    """The spec, and templates of all claims that each chunk has for itself.

    A claim that the template names is somebody's already: each chunk has another like it, unless
    many may use it at a time.
    """
    spec = room.template.spec
    own = {claim.metadata.name: claim for claim in room.claims}
    for volume in spec.volumes:
        if volume.persistent_volume_claim is None or volume.name in own:
            continue
        name = volume.persistent_volume_claim.claim_name
        known = snapshot.storage.claim(room.namespace, name)
        if known is not None and not _SHARED_MODES & set(known.spec.access_modes):
            claim = msgspec.structs.replace(known.spec, volume_name="")
            own[volume.name] = PersistentVolumeClaim(
                metadata=ObjectMeta(name=volume.name), spec=claim
            )
    return spec, tuple(own.values())


def _waiting(snapshot: Snapshot, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """The claim as if its volume were made where the pod goes.

    Where volumes are made at once nobody knows yet in which zone that will be.
    """
    known = snapshot.storage.classes.get(claim.class_name)
    if known is None or known.volume_binding_mode == _WAITING:
        return claim
    name = f"{headroom.SLOTS}:{claim.class_name}"
    if name not in snapshot.storage.classes:
        snapshot.put_class(
            StorageClass(
                metadata=ObjectMeta(name=name),
                provisioner=known.provisioner,
                volume_binding_mode=_WAITING,
                allowed_topologies=known.allowed_topologies,
            )
        )
    spec = msgspec.structs.replace(claim.spec, storage_class_name=name)
    return msgspec.structs.replace(claim, spec=spec)


def _zones(inputs: Inputs, entry: SlotHeadroom, templates: Mapping[str, Template]) -> Sequence[str]:
    """The zones of nodes, there or for sale, that have the driver; one without a name for all."""
    if not entry.per_zone:
        return ("",)
    found = {
        template.node.metadata.labels.get(ZONE, "")
        for template in templates.values()
        if _has(template.csinode, entry.driver)
    }
    csinodes = inputs.csinodes
    for name, node in inputs.nodes.items():
        zone = node.metadata.labels.get(ZONE, "")
        if zone not in found and _has(csinodes.get(name), entry.driver):
            found.add(zone)
    return sorted(found - {""}) or ("",)


def _has(csinode: CSINode | None, driver: str) -> bool:
    return csinode is not None and any(one.name == driver for one in csinode.spec.drivers)


def _slot_pods(snapshot: Snapshot, entry: SlotHeadroom, title: str, zone: str) -> list[Pod]:
    """A pod with one volume for each slot. Its volume is made already, and can go anywhere."""
    base = headroom.chunk_base(headroom.SLOTS, title)
    selector = {**entry.node_selector, **({ZONE: zone} if zone else {})}
    pods = []
    for number in range(entry.slots):
        name = f"{base}-{number}"
        metadata = ObjectMeta(
            name=name,
            namespace=_NAMESPACE,
            uid=name,
            annotations={DRIVER_ANNOTATION: entry.driver},
        )
        snapshot.put_volume(
            PersistentVolume(
                metadata=ObjectMeta(name=name),
                spec=VolumeSpec(csi=CSISource(driver=entry.driver, volume_handle=name)),
            )
        )
        snapshot.put_claim(
            PersistentVolumeClaim(
                metadata=ObjectMeta(
                    name=name,
                    namespace=_NAMESPACE,
                    annotations={BIND_COMPLETED_ANNOTATION: "yes"},
                ),
                spec=ClaimSpec(volume_name=name),
                status=ClaimStatus(phase="Bound"),
            )
        )
        volume = VolumeSource(name="slot", persistent_volume_claim=ClaimReference(claim_name=name))
        spec = PodSpec(
            priority=LOWEST,
            node_selector=selector,
            tolerations=entry.tolerations,
            volumes=(volume,),
        )
        pods.append(Pod(metadata=metadata, spec=spec))
    return pods


def told(plan: Plan, kept: Chunks) -> Plan:
    """The plan with its chunks apart from the pods."""
    if not kept.wanted:
        return plan if not kept.warnings else _warned(plan, kept)
    where = where_chunks_are(plan)
    waiting = Counter(headroom.of_chunk(one.pod).title for one in plan.waiting if _is_chunk(one))
    missing: dict[str, list[NotHelped]] = defaultdict(list)
    for one in plan.not_helped:
        if headroom.is_chunk(one.pod):
            missing[headroom.of_chunk(one.pod).title].append(one)
    new = {node.name for one in plan.scale_ups for node in one.nodes}
    rooms = []
    for title, count in kept.wanted.items():
        nodes = where.get(title, Counter())
        short = missing[title]
        rooms.append(
            KeptRoomPlan(
                name=title,
                chunks=count,
                kept=sum(chunks for node, chunks in nodes.items() if node not in new),
                bought=sum(chunks for node, chunks in nodes.items() if node in new),
                missing=len(short),
                waiting=waiting[title] or msgspec.UNSET,
                nodes=tuple(ChunksOnNode(node=node, chunks=some) for node, some in nodes.items()),
                reasons=short[0].reasons if short else (),
            )
        )
    alone = plan.only(lambda pod: not headroom.is_chunk(pod))
    return msgspec.structs.replace(
        _warned(alone, kept),
        steps=tuple(map(_step, plan.steps, alone.steps)),
        headroom=tuple(rooms),
        waits=_waits(plan),
    )


def _waits(plan: Plan) -> tuple[FreedRoomWait, ...] | msgspec.UnsetType:
    """Chunks go by the name of their room, once for each node."""
    if isinstance(plan.waits, msgspec.UnsetType):
        return plan.waits
    return tuple(
        dict.fromkeys(
            msgspec.structs.replace(one, pod=headroom.of_chunk(one.pod).title)
            if _is_chunk(one)
            else one
            for one in plan.waits
        )
    )


def _is_chunk(wait: FreedRoomWait) -> bool:
    return headroom.is_chunk(wait.pod)


def _warned(plan: Plan, kept: Chunks) -> Plan:
    return msgspec.structs.replace(plan, warnings=(*plan.warnings, *kept.warnings))


def where_chunks_are(plan: Plan) -> Mapping[str, Counter[str]]:
    """By room, how many chunks have a place on which node."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for fit in plan.all_on_existing:
        if headroom.is_chunk(fit.pod):
            found[headroom.of_chunk(fit.pod).title][fit.node] += 1
    for one in plan.scale_ups:
        for node in one.nodes:
            for pod in node.pods:
                if headroom.is_chunk(pod):
                    found[headroom.of_chunk(pod).title][node.name] += 1
    return found


def _step(step: Step, alone: Step) -> Step:
    titles = dict.fromkeys(
        headroom.of_chunk(pod).title for pod in step.pods if headroom.is_chunk(pod)
    )
    if not titles:
        return step
    return msgspec.structs.replace(
        alone,
        reason=step.reason if alone.pods else f"{listed(list(titles))}: {step.reason}",
        headroom=tuple(titles),
    )
