"""NodeVolumeLimits: no more volumes on a node than its drivers can attach.

Also the opt-in of KEP-5030: a driver may ask that pods keep away from nodes where it
is not registered.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tonnage.objects import intree, volumes
from tonnage.objects.storage import CSIDriver
from tonnage.objects.volume_sources import VolumeSource
from tonnage.objects.volumes import VolumeProblem, VolumeUse
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Aspect,
    Code,
    Count,
    EventKind,
    Measure,
    Need,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    short_of,
    single,
)
from tonnage.rules.opt_in import opted_in
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.rows import Bools, Ints, Rows
from tonnage.snapshot.snapshot import PodRecord, Snapshot

_UNSCHEDULABLE = int(Code.UNSCHEDULABLE)


class NodeVolumeLimits(Rule):
    name = "NodeVolumeLimits"
    about = frozenset({Aspect.VOLUMES})
    # Upstream wakes up only when a limit grows; a driver that registers without one cures too.
    cures = (
        EventKind.CSI_NODE_ADDED,
        EventKind.CSI_NODE_UPDATED,
        EventKind.CSI_DRIVER_UPDATED,
        EventKind.POD_DELETED,
        EventKind.CLAIM_ADDED,
        EventKind.ATTACHMENT_DELETED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        if not any(_may_count(volume.source) for volume in ask.pod.volumes):
            return SKIP
        return PreFilter(lambda: _results(ask))

    def footprint(self, snapshot: Snapshot, footprint: Footprint) -> Mapping[str, int]:
        return footprint.slots

    def room(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> Ints | None:
        room: Ints | None = None
        for _, left, slots, _ in self.counts(snapshot, footprint, rows):
            here = left // slots
            room = here if room is None else np.minimum(room, here)
        return room

    def counts(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> Iterator[Count]:
        for driver, slots in footprint.slots.items():
            column = snapshot.slots.driver(driver)
            taken = column.used.data[rows] + column.idle_attachments.data[rows]
            yield Count(driver, column.limit.data[rows] - taken, slots, slots)

    def measures(self, snapshot: Snapshot, rows: Rows) -> Iterator[Measure]:
        for driver in snapshot.slots.drivers():
            taken = driver.used.data[rows] + driver.idle_attachments.data[rows]
            yield Measure(driver.name, taken, driver.limit.data[rows])

    def needs(self, ask: Ask) -> list[Need]:
        return needs(ask)

    def helps(self, event: EventKind, subject: object, pod: PodRecord, snapshot: Snapshot) -> bool:
        match subject:
            case PodRecord() if event is EventKind.POD_DELETED:
                return bool(subject.volumes)
            case CSIDriver(metadata=meta):
                found = volumes.slots(pod.meta, pod.volumes, snapshot.storage, placed=False)
                return any(use.driver == meta.name for use in (*found.uses, *found.migrated))
        return True


def missing_drivers(ask: Ask) -> dict[str, Bools]:
    """Opted-in drivers of the pod's volumes, each with the rows that lack it."""
    if not (ask.features.volume_limit_scaling or ask.features.enforce_opt_in):
        return {}
    snapshot, size = ask.snapshot, ask.size
    plain = {use.driver for use in ask.slots.uses}
    found = {}
    for name in sorted(plain | {use.driver for use in ask.slots.migrated}):
        if opted_in(snapshot.storage.drivers.get(name), ask.features):
            lacking = ~snapshot.slots.driver(name).listed.data[:size]
            # In-tree volumes are CSI volumes only where there is a CSINode to say so.
            found[name] = lacking if name in plain else lacking & snapshot.slots.with_csinode()
    return found


def needs(ask: Ask) -> list[Need]:
    """The pod's wants of each driver over all rows; none while its claims are not known."""
    if ask.slots.problem is not None:
        return []
    snapshot = ask.snapshot
    by_driver: dict[str, list[VolumeUse]] = {}
    for use in dict.fromkeys((*ask.slots.uses, *ask.slots.migrated)):
        by_driver.setdefault(use.driver, []).append(use)
    return [_need(ask, snapshot, name, uses) for name, uses in sorted(by_driver.items())]


def _need(ask: Ask, snapshot: Snapshot, name: str, uses: list[VolumeUse]) -> Need:
    ledger, size = snapshot.slots, ask.size
    driver = ledger.driver(name)
    limit = driver.limit.data[:size]
    taken = ledger.taken(driver)
    wanted = np.full(size, len(uses), dtype=np.int64)
    for use in uses:
        present = set(ledger.users(use))
        if ask.features.returning_volume_once:
            # Upstream counts a volume that is still attached for its returning pod twice.
            present |= set(ledger.attachments(use))
        if present:
            wanted[list(present)] -= 1
    return Need(name, wanted, taken, limit)


def _results(ask: Ask) -> NodeResults:
    snapshot, size = ask.snapshot, ask.size
    codes = np.zeros(size, dtype=np.int8)
    if ask.slots.problem is not None:
        return _problem_results(ask)
    if ask.slots is volumes.NO_SLOTS:
        return NodeResults(codes, lambda _: ())
    missing = missing_drivers(ask)
    wanted = needs(ask)
    limited = snapshot.slots.has_limits.data[:size]
    if not ask.slots.uses:
        limited = limited & _counting_migrated(ask)
    for need in wanted:
        codes[need.exceeded & limited] = _UNSCHEDULABLE
    for row in snapshot.problem_pods:
        if limited[row]:
            codes[row] = Code.ERROR
    for rows in missing.values():
        codes[rows] = _UNSCHEDULABLE
    own_problem = ask.slots.migrated_problem
    failing = _counting_migrated(ask) if own_problem else None
    if failing is not None:
        codes[failing] = Code.ERROR

    def reasons(row: int) -> tuple[Reason, ...]:
        if own_problem is not None and failing is not None and failing[row]:
            return _problem_reason(ask.pod, own_problem)
        for driver, rows in missing.items():
            if rows[row]:
                has_csinode = bool(snapshot.slots.has_csinode.data[row])
                cause = Cause.CSI_DRIVER_MISSING if has_csinode else Cause.CSI_NODE_MISSING
                return single(cause, driver=driver)
        if limited[row] and row in snapshot.problem_pods:
            return _first_problem(snapshot.problem_pods[row].values())
        return _exceeded(wanted, row)

    return NodeResults(codes, reasons, kinds=lambda: _first_missing(missing, size))


def _first_missing(missing: dict[str, Bools], size: int) -> Ints:
    """By row, which of the missing drivers a refusal speaks of; 0 is none."""
    numbers = np.zeros(size, dtype=np.int64)
    for number, rows in reversed(list(enumerate(missing.values(), start=1))):
        numbers[rows] = number
    return numbers


def _counting_migrated(ask: Ask) -> Bools:
    """Rows where in-tree volumes count: those with a CSINode, or all under the old accounting."""
    if ask.features.legacy_attach_limits and ask.features.attach_volume_limit:
        return np.ones(ask.size, dtype=np.bool_)
    return ask.snapshot.slots.with_csinode()


def _exceeded(wanted: list[Need], row: int) -> tuple[Reason, ...]:
    need = next(need for need in wanted if need.exceeded[row])
    reason = short_of(
        need.resource,
        Cause.MAX_VOLUME_COUNT,
        driver=need.resource,
        used=int(need.taken[row]),
        wanted=int(need.wanted[row]),
        limit=int(need.limit[row]),
    )
    return (reason,)


def _problem_results(ask: Ask) -> NodeResults:
    """The pod's own claims could not be resolved: a missing one refuses, the rest are errors."""
    problem, earlier = ask.slots.problem, ask.slots.migrated_problem
    assert problem is not None
    code = Code.UNRESOLVABLE if problem.kind == "missing" else Code.ERROR
    codes = np.full(ask.size, code, dtype=np.int8)
    inline = _counting_migrated(ask) if earlier else np.zeros(ask.size, dtype=np.bool_)
    codes[inline] = Code.ERROR
    return NodeResults(
        codes,
        lambda row: _problem_reason(ask.pod, earlier if earlier and inline[row] else problem),
    )


def _first_problem(records: Iterable[PodRecord]) -> tuple[Reason, ...]:
    first = min(records, key=lambda record: record.order)
    problem = first.slots.migrated_problem or first.slots.problem
    assert problem is not None
    return _problem_reason(first, problem)


def _problem_reason(record: PodRecord, problem: VolumeProblem) -> tuple[Reason, ...]:
    namespace, pod = record.meta.namespace, record.meta.name
    match problem.kind:
        case "missing":
            return single(Cause.CLAIM_LOOKUP_FAILED, namespace=namespace, claim=problem.claim)
        case "foreign":
            return single(Cause.CLAIM_NOT_OWNED, namespace=namespace, claim=problem.claim, pod=pod)
        case "nameless":
            return single(Cause.CLAIM_WITHOUT_NAME)
        case _:
            return single(
                Cause.INLINE_NOT_TRANSLATABLE, volume=problem.claim, detail=problem.detail
            )


def _may_count(source: VolumeSource) -> bool:
    return (
        source.persistent_volume_claim is not None
        or source.ephemeral is not None
        or intree.plugin_of(source) is not None
    )
