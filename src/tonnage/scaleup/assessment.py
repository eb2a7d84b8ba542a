"""What is found before anything is decided: pods that count, templates, how the nodes are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

import msgspec

from tonnage.groups import readiness, storage_rooms, templates
from tonnage.groups.inputs import Inputs
from tonnage.groups.model import Purchase
from tonnage.groups.options import Options
from tonnage.groups.readiness import Readiness
from tonnage.groups.templates import Templates
from tonnage.objects import durations, provisioning_requests, timestamps, volumes
from tonnage.objects.phrases import listed
from tonnage.scaleup import gangs, headroom, underway
from tonnage.scaleup.gangs import Gang
from tonnage.snapshot.reservations import Reservation, Reservations, Source
from tonnage.snapshot.snapshot import PodRecord, Snapshot

_DELAY_ANNOTATION = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"


class Assessment(msgspec.Struct, frozen=True):
    """What was found before anything is decided."""

    inputs: Inputs
    pending: Sequence[PodRecord]
    templates: Templates
    readiness: Readiness
    warnings: Sequence[str]
    reservations: Reservations
    """What pods to be decided on must leave to others, such as those being bound already."""
    wanted: frozenset[str] = frozenset()
    """Drivers of the pods' volumes, for which every template got a limit."""
    not_published_yet: Mapping[str, str] = MappingProxyType({})
    """Nodes, with their groups, whose storage may be there before it is published."""
    gangs: Sequence[Gang] = ()
    """Those among the pending pods; their members are pending too."""
    consumers: Sequence[PodRecord] = ()
    """Pods that are not pending, because the room they take is that of a ProvisioningRequest."""

    def told(
        self,
        *,
        skipped: dict[str, str],
        upcoming: dict[str, int],
        purchases: dict[str, Purchase],
    ) -> "Assessment":
        """The same with what whoever made the requests knows of the groups."""
        inputs = msgspec.structs.replace(
            self.inputs, skipped=skipped, upcoming=upcoming, purchases=purchases
        )
        for entry in underway.bought_for(inputs, self.pending):
            self.reservations.hold(entry)
        return msgspec.structs.replace(self, inputs=inputs)

    def beside(self, moving: Iterable[Reservation]) -> "Assessment":
        """The same with the places of pods that are moving, in place of those it knew of."""
        held = Reservations()
        for entry in (*(one for one in self.reservations if one.source != Source.MOVING), *moving):
            held.hold(entry)
        return msgspec.structs.replace(self, reservations=held)


def assess(inputs: Inputs, *, known: Iterable[Assessment] = ()) -> Assessment:
    """Which pods count, what the next node of each group would be, how the nodes are.

    `known` are assessments since which nothing has changed but targets that templates and
    readiness come from: if one was for the same drivers, what it found stays as it is.
    """
    snapshot, options, now = inputs.cluster.snapshot, inputs.options, inputs.now
    without_node = list(inputs.cluster.pods_without_node())
    ordered = sorted(_unplaced(inputs, without_node), key=attrgetter("order"))
    takes_booked = _takes_booked if inputs.requests_answered else lambda _: False
    counted = [record for record in ordered if _may_count(record, (), options, now)]
    consumers: list[PodRecord] = []
    if inputs.requests_answered:
        consumers = [record for record in counted if takes_booked(record)]
        counted = [record for record in counted if not takes_booked(record)]
    waiting = _waiting(counted, snapshot, options, now)
    pending = [record for record in counted if record not in waiting] if waiting else counted
    sorted_out = gangs.sort_out(
        inputs,
        pending,
        without_node,
        may_count=lambda record: (
            _may_count(record, waiting, options, now) and not takes_booked(record)
        ),
    )
    if sorted_out.gangs:
        pending = [
            *sorted_out.single,
            *(record for gang in sorted_out.gangs for record in gang.members),
        ]
    wanted = frozenset((*_wanted_drivers(snapshot, pending), *headroom.drivers(inputs)))
    same = next((one for one in known if one.wanted == wanted), None)
    if same is None:
        built, assessed = _surroundings(inputs, wanted)
    else:
        built, assessed = same.templates, same.readiness
        if same.inputs.groups != inputs.groups:
            assessed = readiness.with_targets(assessed, inputs)
        kept = msgspec.structs.replace(same.inputs.memory, times=inputs.memory.times)
        inputs = msgspec.structs.replace(inputs, memory=kept)
    told = tuple(_about_waiting(waiting, options))
    reservations = _reservations(inputs, without_node, pending)
    fresh = underway.not_published_yet(inputs, assessed, built.by_group)
    return Assessment(
        inputs,
        pending,
        built,
        assessed,
        told,
        reservations,
        wanted,
        fresh,
        sorted_out.gangs,
        consumers,
    )


def _unplaced(inputs: Inputs, without_node: Iterable[PodRecord]) -> Iterable[PodRecord]:
    """The pods to decide on, as the snapshot holds them."""
    if inputs.pending is None:
        return without_node
    known = inputs.cluster.snapshot.pods.get
    records = map(known, inputs.pending)
    return [record for record in records if record is not None and record.pending]


def _takes_booked(record: PodRecord) -> bool:
    return bool(record.meta.annotations and provisioning_requests.consumed_by(record.meta))


def _surroundings(inputs: Inputs, wanted: frozenset[str]) -> tuple[Templates, Readiness]:
    built = templates.build(inputs, wanted=wanted)
    if not inputs.options.as_upstream:
        built = storage_rooms.furnish(built, inputs)
    assessed = readiness.assess(inputs, built.by_group)
    built = templates.without_drivers(built, readiness.given_up(assessed, inputs.policy))
    kept = msgspec.structs.replace(built.memory, absences=assessed.absences)
    return msgspec.structs.replace(built, memory=kept), assessed


def _reservations(
    inputs: Inputs, without_node: Iterable[PodRecord], pending: Sequence[PodRecord]
) -> Reservations:
    """What pods to be decided on must leave to others; upstream knows of preemption only."""
    found = Reservations()
    if not inputs.options.as_upstream:
        decided_on = {record.key for record in pending}
        others = (record for record in without_node if record.key not in decided_on)
        for entry in underway.being_bound(inputs.cluster.snapshot, others, now=inputs.now):
            found.hold(entry)
        for entry in underway.bought_for(inputs, pending):
            found.hold(entry)
    return found


def _may_count(
    record: PodRecord, waiting: Sequence[PodRecord], options: Options, now: float
) -> bool:
    """Whether the pod is to be decided on, if its claims are bound as they should be."""
    return (
        record.pending
        and not record.pod_class.gates
        and not _too_young(record, options, now)
        and record not in waiting
    )


def _too_young(record: PodRecord, options: Options, now: float) -> bool:
    """Whether the pod is to be left to the scheduler for a while yet."""
    created = timestamps.moment(record.meta.creation_timestamp)
    if created is None:
        return False
    delay = options.new_pod_scale_up_delay
    told = record.meta.annotations.get(_DELAY_ANNOTATION)
    asked = durations.seconds(told) if told else None
    if asked is not None and asked >= delay:
        delay = asked
    return now - created < delay


def _waiting(
    counted: list[PodRecord], snapshot: Snapshot, options: Options, now: float
) -> list[PodRecord]:
    """The pods with claims that may yet be bound."""
    if options.as_upstream:
        return []
    # Nearly always all claims wait for their pod to have a node, and are of a few classes.
    patient = {name for name in snapshot.storage.classes if not _binds_at_once(snapshot, name)}
    return [
        record
        for record in counted
        if record.volumes
        and not _are_of(record, patient, snapshot)
        and _claims_may_bind(record, snapshot, options, now)
    ]


def _binds_at_once(snapshot: Snapshot, class_name: str) -> bool:
    found = snapshot.storage.storage_class(class_name)
    return found is None or found.volume_binding_mode == "Immediate"


def _are_of(record: PodRecord, classes: set[str], snapshot: Snapshot) -> bool:
    """Whether all of the pod's volumes are yet to be made, and of these storage classes."""
    waiting = record.waiting_claims(snapshot.storage.waiting_claims)
    return waiting is not None and waiting.classes <= classes


def _claims_may_bind(record: PodRecord, snapshot: Snapshot, options: Options, now: float) -> bool:
    """Whether a claim that is bound at once is so young that it may yet be."""
    storage = snapshot.storage
    for volume in record.volumes:
        claim = storage.claim(record.meta.namespace, volume.claim)
        if claim is None or claim.fully_bound or not _binds_at_once(snapshot, claim.class_name):
            continue
        created = timestamps.moment(claim.metadata.creation_timestamp)
        if created is not None and now - created < options.claim_bind_wait:
            return True
    return False


def _about_waiting(waiting: list[PodRecord], options: Options) -> Iterator[str]:
    if waiting:
        names = listed([record.key for record in waiting])
        yield (
            f"{names}: not counted while claims that are bound at once are younger than"
            f" {options.claim_bind_wait:g} s"
        )


def _wanted_drivers(snapshot: Snapshot, pending: Iterable[PodRecord]) -> set[str]:
    drivers: set[str] = set()
    known: set[str] = set()
    for record in pending:
        if not record.volumes or _are_of(record, known, snapshot):
            continue
        found = volumes.slots(record.meta, record.volumes, snapshot.storage, placed=True)
        drivers.update(use.driver for use in (*found.uses, *found.migrated))
        classes = _classes_to_provision(snapshot, record)
        if classes is not None and found.problem is None:
            known |= classes
    return drivers


def _classes_to_provision(snapshot: Snapshot, record: PodRecord) -> set[str] | None:
    """The storage classes of the pod's volumes; `None` if they do not tell all of its drivers."""
    found: set[str] = set()
    for volume in record.volumes:
        claim = snapshot.storage.claim(record.meta.namespace, volume.claim)
        if claim is None or claim.spec.volume_name:
            return None
        found.add(claim.class_name)
    return found
