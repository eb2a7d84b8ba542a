"""Pending pods in groups whose members are interchangeable.

Replicas of a StatefulSet with an unbound claim each are one group, though their claims
have different names: what decides is the class, the size and the driver. A claim that
another pod uses too, or whose volume is attached somewhere, is a fact of its own and
sets its pod apart.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tonnage.objects import intree, volumes
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.objects.volumes import PodVolume
from tonnage.snapshot.imagined import Footprint
from tonnage.snapshot.rows import Ints, RowIndex
from tonnage.snapshot.snapshot import PodRecord, Snapshot
from tonnage.snapshot.storage_ledger import size_of

ClaimKey = tuple[str, str]


class PodGroup:
    """Pending pods that are the same to every filter, in the order they are to be placed.

    `footprint` says what one member takes. A group that is `tracked` has one member, whose volumes
    must be followed by name. Groups of a lower `rank` are placed before others.
    """

    __slots__ = ("footprint", "interacting", "members", "rank", "sample", "tracked")

    def __init__(
        self, members: list[PodRecord], footprint: Footprint, *, tracked: bool, rank: int = 0
    ) -> None:
        self.members = members
        self.rank = rank
        self.sample = members[0]
        self.footprint = footprint
        self.tracked = tracked
        pod_class = self.sample.pod_class
        self.interacting = bool(pod_class.spread or pod_class.affinity or pod_class.anti_affinity)

    @property
    def size(self) -> int:
        return len(self.members)

    def without(self, count: int) -> "PodGroup":
        """The group when its first members have found a place."""
        return self.part(slice(count, None), rank=self.rank)

    def part(self, members: slice, *, rank: int = 0) -> "PodGroup":
        """Some of the members, as a group of their own."""
        return PodGroup(self.members[members], self.footprint, tracked=self.tracked, rank=rank)

    def requests(self, resource: str) -> int:
        """What one member requests."""
        return self.sample.pod_class.requests.get(resource, 0)

    def in_turn(self, rows: RowIndex, counts: Ints, *, first: int = 0) -> list["Placed"]:
        """So many members on each of the rows, one row after the other."""
        ends = (first + counts.cumsum()).tolist()
        return [
            Placed(self, tuple(self.members[end - count : end]), row)
            for row, count, end in zip(rows.tolist(), counts.tolist(), ends, strict=True)
        ]


class Placed(NamedTuple):
    """Some pods of a group on a row."""

    group: PodGroup
    pods: tuple[PodRecord, ...]
    row: int


def group(
    snapshot: Snapshot,
    pending: Iterable[PodRecord],
    *,
    ledger: Collection[str] = (),
    parts: Mapping[str, Hashable] = MappingProxyType({}),
) -> list[PodGroup]:
    """Sort pending pods into groups, each in the order of its first member.

    `ledger` are storage classes whose volumes take of what nodes have. Where some volume that is
    there may serve such a claim, it depends on the node whether it takes anything. Pods of
    different `parts`, by namespace/name, are not put together.
    """
    records = list(pending)
    shared = _shared_claims(snapshot, records)
    members: dict[Hashable, list[PodRecord]] = {}
    lone: set[Hashable] = set()
    for record in records:
        facts = _volume_facts(snapshot, record, shared)
        if ledger and record.volumes and _may_be_served(snapshot, record, ledger):
            facts = None
        key: Hashable = (record.pod_class.identity, facts)
        if parts:
            key = (key, parts.get(record.key))
        if facts is None:
            key = record.key
            lone.add(key)
        members.setdefault(key, []).append(record)
    return [
        PodGroup(
            found,
            Footprint(
                found[0].pod_class,
                slots_of(snapshot, found[0]),
                storage_of(snapshot, found[0], ledger) if ledger else {},
            ),
            tracked=key in lone,
        )
        for key, found in members.items()
    ]


def slots_of(snapshot: Snapshot, record: PodRecord) -> dict[str, int]:
    """New slots a pod takes of each driver, on a node where none of its volumes is yet."""
    if not record.volumes:
        return {}
    found = volumes.slots(record.meta, record.volumes, snapshot.storage, placed=False)
    return dict(Counter(use.driver for use in dict.fromkeys((*found.uses, *found.migrated))))


def storage_of(snapshot: Snapshot, record: PodRecord, ledger: Collection[str]) -> dict[str, int]:
    """Bytes by storage class that the pod's claims take where new volumes are made for them."""
    found: Counter[str] = Counter()
    for claim in unbound_claims(snapshot, record):
        if claim.class_name in ledger:
            found[claim.class_name] += size_of(claim)
    return dict(found)


def storage_of_template_pod(pod: Pod, ledger: Collection[str]) -> dict[str, int]:
    """The same for a pod that comes with its node: its ephemeral volumes are yet to be claimed."""
    found: Counter[str] = Counter()
    for volume in pod.spec.volumes if ledger else ():
        source = volume.ephemeral
        if source is not None and source.volume_claim_template is not None:
            claim = PersistentVolumeClaim(spec=source.volume_claim_template.spec)
            if claim.class_name in ledger:
                found[claim.class_name] += size_of(claim)
    return dict(found)


def unbound_claims(snapshot: Snapshot, record: PodRecord) -> Iterable[PersistentVolumeClaim]:
    """Claims of the pod that no volume is set for, each once."""
    for name in dict.fromkeys(volume.claim for volume in record.volumes):
        claim = snapshot.storage.claim(record.meta.namespace, name)
        if claim is not None and not claim.spec.volume_name:
            yield claim


def _may_be_served(snapshot: Snapshot, record: PodRecord, ledger: Collection[str]) -> bool:
    """Whether a volume that is there may serve a claim that else takes of the ledger."""
    storage = snapshot.storage
    return any(
        claim.class_name in ledger
        and (
            storage.has_open_volumes(claim.class_name)
            or storage.reserved_for(record.meta.namespace, claim.metadata.name)
        )
        for claim in unbound_claims(snapshot, record)
    )


def slots_of_template_pod(snapshot: Snapshot, pod: Pod) -> dict[str, int]:
    """Slots a pod takes that comes with its node: its ephemeral volumes are yet to be claimed."""
    drivers: Counter[str] = Counter()
    for volume in volumes.of_pod(pod):
        if volume.ephemeral and volume.source.ephemeral is not None:
            template = volume.source.ephemeral.volume_claim_template
            name = template.spec.storage_class_name if template is not None else None
            storage_class = snapshot.storage.storage_class(name) if name else None
            if storage_class is not None:
                provisioner = storage_class.provisioner
                drivers[intree.csi_driver_of(provisioner) or provisioner] += 1
    record = snapshot.record_of(pod)
    found = volumes.slots(
        record.meta,
        tuple(volume for volume in record.volumes if not volume.ephemeral),
        snapshot.storage,
        placed=True,
    )
    drivers.update(use.driver for use in dict.fromkeys((*found.uses, *found.migrated)))
    return dict(drivers)


def _shared_claims(snapshot: Snapshot, records: list[PodRecord]) -> set[ClaimKey]:
    """Claims of pending pods that some other pod uses too."""
    seen: set[ClaimKey] = set()
    shared: set[ClaimKey] = set()
    keys = [
        (record.meta.namespace, volume.claim) for record in records for volume in record.volumes
    ]
    seen.update(keys)
    if len(seen) == len(keys):
        # As nearly always: no claim is named twice.
        return set(snapshot.claims_in_use(seen))
    seen.clear()
    for record in records:
        namespace = record.meta.namespace
        own = [(namespace, volume.claim) for volume in record.volumes]
        # Two volumes of one pod may be of one claim, which is not shared for that.
        for key in own if len(own) < 2 else dict.fromkeys(own):
            (shared if key in seen else seen).add(key)
    shared.update(snapshot.claims_in_use(seen))
    return shared


def _volume_facts(snapshot: Snapshot, record: PodRecord, shared: set[ClaimKey]) -> Hashable | None:
    """What the pod's volumes come to for scheduling; `None` if they must be followed by name."""
    namespace = record.meta.namespace
    if shared and any((namespace, volume.claim) in shared for volume in record.volumes):
        return None
    waiting = record.waiting_claims(snapshot.storage.waiting_claims)
    if waiting is not None:
        return waiting.kinds
    facts = []
    for volume in record.volumes:
        if not volume.claim:
            return None
        fact = _claim_facts(snapshot, record.meta, volume)
        if fact is None:
            return None
        facts.append(fact)
    return tuple(facts)


def _claim_facts(snapshot: Snapshot, pod: ObjectMeta, volume: PodVolume) -> Hashable | None:
    key = (pod.namespace, volume.claim)
    claim = snapshot.storage.claims.get(key)
    if claim is None:
        return ("missing", volume.ephemeral)
    if volume.ephemeral and not volumes.controlled_by(claim, pod):
        return ("foreign",)
    if claim.status.phase == "Lost" or claim.metadata.deletion_timestamp is not None:
        return ("gone", claim.status.phase, claim.metadata.deletion_timestamp is not None)
    waiting = snapshot.storage.waiting_claims.get(key)
    if waiting is None:
        return _bound_facts(snapshot, claim)
    return ("unbound", volume.ephemeral, waiting.kind) if volume.ephemeral else waiting.kind


def _bound_facts(snapshot: Snapshot, claim: PersistentVolumeClaim) -> Hashable | None:
    """A volume with nothing attached anywhere is as good as another with the same reach."""
    bound = snapshot.storage.volume(claim.spec.volume_name)
    if bound is None:
        return ("volume missing", claim.fully_bound, claim.class_name)
    found = volumes.use_of_claim(claim, snapshot.storage)
    if found is not None:
        use, _ = found
        if snapshot.slots.users(use) or snapshot.slots.attachments(use):
            return None
    affinity = bound.spec.node_affinity.required if bound.spec.node_affinity else None
    return (
        "bound",
        claim.fully_bound,
        claim.class_name,
        None if found is None else (found[0].driver, found[1]),
        affinity,
        tuple(sorted(bound.metadata.labels.items())),
    )
