"""VolumeBinding: every claim has, or can get, a volume that the node can reach."""

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from tonnage.objects import intree, quantities, selectors, volumes
from tonnage.objects.storage import (
    SELECTED_NODE_ANNOTATION,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tonnage.objects.volumes import PodVolume
from tonnage.rules import volume_matching
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Aspect,
    Code,
    EventKind,
    Measure,
    NodeResults,
    Outcome,
    PreFilter,
    Rejection,
    Rule,
    kinds_of,
)
from tonnage.rules.storage_tally import Tally, storage_resource
from tonnage.rules.volume_matching import Matching
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.open_volumes import affinity_of, size_wanted
from tonnage.snapshot.rows import Bools, Ints, RowIndex, Rows
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import Snapshot
from tonnage.snapshot.storage_ledger import size_of

_WAITING = "WaitForFirstConsumer"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeBinding(Rule):
    name = "VolumeBinding"
    about = frozenset({Aspect.VOLUMES})
    cures = (
        EventKind.CLASS_ADDED,
        EventKind.CLASS_UPDATED,
        EventKind.CLAIM_ADDED,
        EventKind.CLAIM_UPDATED,
        EventKind.VOLUME_ADDED,
        EventKind.VOLUME_UPDATED,
        EventKind.NODE_ADDED,
        EventKind.NODE_LABELLED,
        EventKind.CSI_NODE_ADDED,
        EventKind.CSI_NODE_UPDATED,
        EventKind.CSI_DRIVER_UPDATED,
        EventKind.CAPACITY_ADDED,
        EventKind.CAPACITY_UPDATED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        wanted = [volume for volume in ask.pod.volumes if _has_claim(volume)]
        if not wanted:
            return SKIP
        found = []
        for volume in wanted:
            claim = _usable_claim(ask, volume)
            if isinstance(claim, Rejection):
                return claim
            found.append(claim)
        sorted_out = sort_out(ask, found)
        if isinstance(sorted_out, Rejection):
            return sorted_out
        return PreFilter(lambda: _results(ask, sorted_out))

    def footprint(self, snapshot: Snapshot, footprint: Footprint) -> Mapping[str, int]:
        counted = snapshot.storage_ledger.counted(footprint.storage)
        return {storage_resource(name): size for name, size in counted.items() if size}

    def room(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> Ints | None:
        if not footprint.storage:
            return None
        return snapshot.storage_ledger.room(footprint.storage, rows)

    def counts(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> tuple[()] | None:
        # What is left may be shared with other rows.
        return None if footprint.storage else ()

    def within_shared(
        self, snapshot: Snapshot, footprint: Footprint, room: Ints, rows: RowIndex
    ) -> Ints:
        return snapshot.storage_ledger.within_shared(footprint.storage, room, rows)

    def take(self, ask: Ask, row: int) -> None:
        ledger = ask.snapshot.storage_ledger
        taken = _storage_taken(ask, row) if ledger.class_names else {}
        if taken:
            rows, one_pod = np.array([row]), np.ones(1, dtype=np.int64)
            ask.snapshot.undo_by(ledger.take, rows, -one_pod, taken)
            ledger.take(rows, one_pod, taken)

    def depends_on_others(self, ask: Ask, footprint: Footprint) -> bool:
        return ask.snapshot.storage_ledger.shares(footprint.storage)

    def measures(self, snapshot: Snapshot, rows: Rows) -> Iterator[Measure]:
        ledger = snapshot.storage_ledger
        for name in ledger.class_names:
            # What several rows share is not theirs to be full of.
            own, has = ledger.of_its_own(name, rows), ledger.capacity(name)[rows]
            yield Measure(
                storage_resource(name), has - ledger.left(name, rows), np.where(own, has, UNLIMITED)
            )


class Claims(msgspec.Struct, frozen=True):
    """A pod's claims: those bound to a volume, and those that wait for the pod to have a node."""

    bound: list[PersistentVolumeClaim]
    waiting: list[PersistentVolumeClaim]


def _has_claim(volume: PodVolume) -> bool:
    return volume.source.persistent_volume_claim is not None or volume.source.ephemeral is not None


def _usable_claim(ask: Ask, volume: PodVolume) -> PersistentVolumeClaim | Rejection:
    name, pod = volume.claim, ask.pod.meta
    claim = ask.snapshot.storage.claim(pod.namespace, name)
    if claim is None:
        missing = Cause.CLAIM_NOT_CREATED_YET if volume.ephemeral else Cause.CLAIM_NOT_FOUND
        return Rejection(Code.UNRESOLVABLE, missing, claim=name)
    if claim.status.phase == "Lost":
        return Rejection(
            Code.UNRESOLVABLE, Cause.CLAIM_LOST, claim=name, volume=claim.spec.volume_name
        )
    if claim.metadata.deletion_timestamp is not None:
        return Rejection(Code.UNRESOLVABLE, Cause.CLAIM_BEING_DELETED, claim=name)
    if volume.ephemeral and not volumes.controlled_by(claim, pod):
        return Rejection(
            Code.UNRESOLVABLE,
            Cause.CLAIM_NOT_OWNED,
            namespace=pod.namespace,
            claim=name,
            pod=pod.name,
        )
    return claim


def sort_out(ask: Ask, claims: list[PersistentVolumeClaim]) -> Claims | Rejection:
    """Bound and waiting claims; a claim that should be bound already refuses the pod."""
    sorted_out = Claims([], [])
    immediate: list[str] = []
    for claim in claims:
        if claim.fully_bound:
            sorted_out.bound.append(claim)
            continue
        storage_class = ask.snapshot.storage.storage_class(claim.class_name)
        if storage_class is not None and storage_class.volume_binding_mode is None:
            return Rejection(Code.ERROR, Cause.BINDING_MODE_MISSING, storage_class=claim.class_name)
        if _waits(claim, storage_class):
            sorted_out.waiting.append(claim)
        else:
            immediate.append(claim.metadata.name)
    if immediate:
        return Rejection(Code.UNRESOLVABLE, Cause.CLAIM_UNBOUND_IMMEDIATE, claims=immediate)
    return sorted_out


def _waits(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> bool:
    return (
        storage_class is not None
        and storage_class.volume_binding_mode == _WAITING
        and not claim.spec.volume_name
    )


_REASONS = {
    cause: Reason(cause)
    for cause in (
        Cause.VOLUME_AFFINITY_MISMATCH,
        Cause.NO_VOLUME_TO_BIND,
        Cause.VOLUME_MISSING,
    )
}


class _Findings:
    """Rows refused, by cause; a row may be refused for several."""

    def __init__(self, ask: Ask) -> None:
        size, ledger = ask.size, ask.snapshot.storage_ledger
        self.tally = Tally(ask, ledger)
        self.affinity = np.zeros(size, dtype=np.bool_)
        self.unbindable = np.zeros(size, dtype=np.bool_)
        self.too_small = np.zeros(size, dtype=np.bool_)
        self.missing = np.zeros(size, dtype=np.bool_)
        self.failed = np.zeros(size, dtype=np.bool_)
        self.failure: Reason | None = None

    def results(self) -> NodeResults:
        codes = np.zeros(len(self.affinity), dtype=np.int8)
        refused = self.affinity | self.unbindable | self.too_small | self.missing
        codes[refused] = Code.UNRESOLVABLE
        codes[self.failed] = Code.ERROR
        # In the order upstream names them.
        by_cause = {
            Cause.VOLUME_AFFINITY_MISMATCH: self.affinity,
            Cause.NO_VOLUME_TO_BIND: self.unbindable,
            Cause.NOT_ENOUGH_STORAGE: self.too_small,
            Cause.VOLUME_MISSING: self.missing,
        }

        def reasons(row: int) -> tuple[Reason, ...]:
            if self.failed[row]:
                assert self.failure is not None
                return (self.failure,)
            return tuple(self._reason(cause, row) for cause, rows in by_cause.items() if rows[row])

        return NodeResults(codes, reasons, kinds=lambda: kinds_of(by_cause.values()))

    def _reason(self, cause: Cause, row: int) -> Reason:
        if cause is Cause.NOT_ENOUGH_STORAGE:
            return self.tally.reason(row)
        return _REASONS[cause]


def _results(ask: Ask, claims: Claims) -> NodeResults:
    if not claims.bound and all(_made_anywhere(ask, claim) for claim in claims.waiting):
        return NodeResults(np.zeros(ask.size, dtype=np.int8), lambda _: ())
    findings = _Findings(ask)
    _check_bound(ask, claims.bound, findings)
    if claims.waiting:
        _check_waiting(ask, claims.waiting, findings)
    return findings.results()


def _made_anywhere(ask: Ask, claim: PersistentVolumeClaim) -> bool:
    """Whether a new volume is made for the claim wherever its pod goes, as nearly always."""
    storage, meta = ask.snapshot.storage, claim.metadata
    storage_class = storage.storage_class(claim.class_name)
    if storage_class is None or storage_class.provisioner in ("", _NO_PROVISIONER):
        return False
    driver = storage.drivers.get(storage_class.provisioner)
    return not (
        claim.spec.selector is not None
        or SELECTED_NODE_ANNOTATION in meta.annotations
        or storage.reserved_for(meta.namespace, meta.name)
        or storage.has_open_volumes(claim.class_name)
        or storage_class.allowed_topologies
        or (driver is not None and driver.spec.storage_capacity)
        or ask.snapshot.storage_ledger.tracks(claim.class_name)
    )


def _check_bound(ask: Ask, claims: list[PersistentVolumeClaim], findings: _Findings) -> None:
    """In claim order; a row stops at its first bad volume."""
    going = np.ones(ask.size, dtype=np.bool_)
    for claim in claims:
        volume = ask.snapshot.storage.volume(claim.spec.volume_name)
        if volume is None:
            findings.missing |= going
            return
        try:
            reached = reachable(ask, volume)
        except intree.TranslationError as error:
            failing = going & _migrated_on(ask, volume)
            findings.failed |= failing
            findings.failure = Reason(
                Cause.VOLUME_NOT_TRANSLATABLE,
                {"volume": volume.metadata.name, "detail": str(error)},
            )
            reached = volume_matching.reachable(ask, affinity_of(volume))
            going &= ~failing
        findings.affinity |= going & ~reached
        going &= reached


def reachable(ask: Ask, volume: PersistentVolume) -> Bools:
    """Rows that satisfy the volume's node affinity, as CSI sees it where the node migrated."""
    plain = volume_matching.reachable(ask, affinity_of(volume))
    migrated = _migrated_on(ask, volume)
    if not migrated.any():
        return plain
    translated = volume_matching.reachable(ask, intree.translated_affinity(volume))
    return np.where(migrated, translated, plain)


def _migrated_on(ask: Ask, volume: PersistentVolume) -> Bools:
    plugin = intree.plugin_of(volume.spec)
    if plugin not in intree.COUNTED:
        return np.zeros(ask.size, dtype=np.bool_)
    sets = ask.snapshot.plugin_sets.values
    table = np.array([plugin in plugins for plugins in sets], dtype=np.bool_)
    return table[ask.snapshot.migrated_plugins.data[: ask.size]]


def _check_waiting(ask: Ask, claims: list[PersistentVolumeClaim], findings: _Findings) -> None:
    going = np.ones(ask.size, dtype=np.bool_)
    selected, searching = _by_selection(claims)
    for claim in selected:
        elsewhere = _elsewhere(ask, claim.metadata.annotations[SELECTED_NODE_ANNOTATION])
        findings.unbindable |= going & elsewhere
        going &= ~elsewhere
    named: set[str] = set()
    for claim, rows in _to_provision(ask, selected, searching, going, findings):
        asked = going & rows & ~findings.failed
        again = claim.metadata.name in named
        named.add(claim.metadata.name)
        if asked.any():
            _check_provisioning(ask, claim, asked, findings, again=again)
            going &= ~(findings.unbindable | findings.too_small)


def _to_provision(
    ask: Ask,
    selected: list[PersistentVolumeClaim],
    searching: list[PersistentVolumeClaim],
    going: Bools,
    findings: _Findings,
) -> list[tuple[PersistentVolumeClaim, Bools]]:
    """Claims with the rows where a new volume has to be made for them."""
    everywhere = np.ones(ask.size, dtype=np.bool_)
    to_provision = [(claim, everywhere) for claim in selected]
    return to_provision + _unmatched(ask, searching, going, findings)


def _storage_taken(ask: Ask, row: int) -> dict[str, int]:
    """Bytes by storage class that new volumes of the pod would take of a plan's ledger on a row.

    The pod must fit there: what is wrong with its claims is not looked at.
    """
    names = dict.fromkeys(volume.claim for volume in ask.pod.volumes if _has_claim(volume))
    found = [ask.snapshot.storage.claim(ask.pod.meta.namespace, name) for name in names]
    claims = sort_out(ask, [claim for claim in found if claim is not None])
    findings = _Findings(ask)
    if isinstance(claims, Rejection):
        return {}
    everywhere = np.ones(ask.size, dtype=np.bool_)
    selected, searching = _by_selection(claims.waiting)
    taken: dict[str, int] = {}
    for claim, rows in _to_provision(ask, selected, searching, everywhere, findings):
        if findings.tally.counts(claim) and findings.tally.takes(claim, rows)[row]:
            taken[claim.class_name] = taken.get(claim.class_name, 0) + size_of(claim)
    return taken


def _by_selection(
    claims: list[PersistentVolumeClaim],
) -> tuple[list[PersistentVolumeClaim], list[PersistentVolumeClaim]]:
    """Claims that are to be served on a certain node, and those that are not."""
    selected: list[PersistentVolumeClaim] = []
    searching: list[PersistentVolumeClaim] = []
    for claim in claims:
        there = SELECTED_NODE_ANNOTATION in claim.metadata.annotations
        (selected if there else searching).append(claim)
    return selected, searching


def _elsewhere(ask: Ask, node_name: str) -> Bools:
    mask = np.ones(ask.size, dtype=np.bool_)
    node = ask.snapshot.nodes.get(node_name)
    if node is not None:
        mask[node.row] = False
    return mask


def _unmatched(
    ask: Ask, claims: list[PersistentVolumeClaim], going: Bools, findings: _Findings
) -> list[tuple[PersistentVolumeClaim, Bools]]:
    """Claims with the rows where no existing volume serves them, smallest claim first."""
    matching = Matching(ask)
    result = []
    for claim in sorted(claims, key=size_wanted):
        try:
            selectors.check(claim.spec.selector)
        except selectors.SelectorError as error:
            findings.failed |= going
            findings.failure = _selector_failure(claim, error)
            return []
        result.append((claim, matching.unserved(claim)))
    return result


def _selector_failure(claim: PersistentVolumeClaim, error: selectors.SelectorError) -> Reason:
    name = claim.metadata.key
    context = f"error creating internal label selector for claim: {name}"
    return Reason(Cause.SELECTOR_INVALID, {"context": context, "detail": str(error)})


def _check_provisioning(
    ask: Ask, claim: PersistentVolumeClaim, rows: Bools, findings: _Findings, *, again: bool
) -> None:
    """Whether a new volume could be made for the claim on each of the rows."""
    storage_class = ask.snapshot.storage.storage_class(claim.class_name)
    assert storage_class is not None, "only a claim with a class waits"
    if storage_class.provisioner in ("", _NO_PROVISIONER):
        findings.unbindable |= rows
        return
    allowed = ask.snapshot.columns.labels.allowed(storage_class.allowed_topologies)
    findings.unbindable |= rows & ~allowed
    asked = rows & allowed
    tally = findings.tally
    counted = tally.counts(claim)
    if counted:
        findings.too_small |= asked & ~tally.add(claim, asked, again=again)
    if not counted or tally.claims_alone:
        findings.too_small |= asked & ~enough_storage(ask, claim, storage_class)


def enough_storage(ask: Ask, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Bools:
    """Rows where some published capacity is large enough for the claim alone."""
    snapshot = ask.snapshot
    driver = snapshot.storage.drivers.get(storage_class.provisioner)
    requested = claim.spec.resources.requests.get("storage")
    if requested is None or driver is None or not driver.spec.storage_capacity:
        return np.ones(ask.size, dtype=np.bool_)
    size = quantities.value(requested)
    index = snapshot.storage.capacity_index(storage_class.metadata.name)
    mask = np.zeros(ask.size, dtype=np.bool_)
    for key, limits in index.by_label.items():
        mask |= limits.of_rows(snapshot.columns.labels.find(key), ask.size) >= size
    for capacity, limit in index.others:
        if limit >= size:
            mask |= snapshot.columns.labels.matching(capacity.node_topology)
    return mask
