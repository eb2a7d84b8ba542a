"""One question: which of these nodes may a pod go to, as far as its volumes go, and why not others.

The rules are NodeVolumeLimits, asked as the autoscaler asks it, and those that kube-scheduler does
not have. On top come slots reserved for pods on their way, and nodes whose drivers are still
registering.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.objects import volumes
from tonnage.objects.volumes import Slots
from tonnage.rules import registry
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Code,
    Need,
    NodeResults,
    PreFilter,
    Rejection,
    Rule,
)
from tonnage.rules.node_volume_limits import NodeVolumeLimits
from tonnage.snapshot.reservations import Reservations, Share, Source
from tonnage.snapshot.rows import Bools, Ints, distinct
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import Snapshot

NOT_KNOWN = "node is not known to the extender yet"

_VOLUME_LIMITS = NodeVolumeLimits()
_UNKNOWN_ROW = -1
_HOPELESS = frozenset({Cause.CSI_NODE_MISSING, Cause.CSI_DRIVER_MISSING, Cause.LIMIT_UNKNOWN})
"""No pod that leaves makes a driver register."""


class Judgement(NamedTuple):
    """Names that pass, reasons for the others, and what the pod would take where it passes.

    `causes` counts refused nodes. `unsettled` says that no node passes, and that one may pass as
    soon as the watch has caught up with what the scheduler did or knows.
    """

    passing: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    shares: tuple[Share, ...] = ()
    causes: Mapping[str, int] = {}
    unlisted: tuple[str, ...] = ()
    """Drivers of the pod that some of the passing nodes do not list: their limit is unknown."""
    unsettled: bool = False


def wants_slots(ask: Ask) -> bool:
    """Whether the pod has something that the rules are about; all others may go anywhere."""
    rules = (_VOLUME_LIMITS, *registry.ours(ask.features))
    return any(rule.pre_filter(ask) is not SKIP for rule in rules)


def judge(
    ask: Ask,
    names: Sequence[str],
    *,
    reservations: Reservations,
    registering: Mapping[str, Bools],
    fresh_since: float,
) -> Judgement:
    """Judge a pod on nodes by name.

    `registering` has, by driver, the rows to keep off until it is registered there. Reservations
    made after `fresh_since` are worth waiting for.
    """
    if not wants_slots(ask):
        return Judgement(list(names), {}, {})
    rows = _rows(ask.snapshot, names)
    known = rows != _UNKNOWN_ROW
    refusing = _Refusing(ask, reservations, registering)
    words = np.zeros(len(rows), dtype=np.int64)
    words[known] = refusing.words[rows[known]]
    passes = known & (words == 0)
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    causes: dict[str, int] = {}
    if not passes.all():
        failed.update((name, NOT_KNOWN) for name in itertools.compress(names, ~known))
        for refused, reason, hopeless in refusing.grouped(words, rows):
            told = unresolvable if hopeless else failed
            told.update(dict.fromkeys(itertools.compress(names, refused), text(reason)))
            causes[reason.cause] = causes.get(reason.cause, 0) + int(refused.sum())
    if not passes.any():
        unsettled = bool((~known).any()) or refusing.may_settle(rows[known], fresh_since)
        return Judgement([], failed, unresolvable, causes=causes, unsettled=unsettled)
    passing = list(itertools.compress(names, passes))
    there = rows[passes]
    return Judgement(
        passing,
        failed,
        unresolvable,
        shares=refusing.shares(there),
        causes=causes,
        unlisted=tuple(
            name
            for name in _drivers(ask)
            if is_driver(ask.snapshot, name)
            and not ask.snapshot.slots.driver(name).listed.data[there].all()
        ),
    )


def text(reason: Reason) -> str:
    """kube-scheduler's words, then ours: the cause, and the driver where the words lack it.

    No numbers: the scheduler counts nodes by text, and each would be a text of its own.
    """
    words, driver = str(reason), reason.facts.get("driver")
    named = f": {driver}" if driver and str(driver) not in words else ""
    return f"{words} ({reason.cause}{named})"


def is_driver(snapshot: Snapshot, name: str) -> bool:
    """Whether anything in the cluster knows the name for a driver; others never register."""
    return name in snapshot.storage.drivers or bool(
        snapshot.slots.driver(name).listed.data[: snapshot.table.size].any()
    )


def free_share(
    ask: Ask, names: Sequence[str], reservations: Reservations
) -> npt.NDArray[np.float64]:
    """By name, the part of the slots that is left with the pod there; of the scarcest driver."""
    asked = _rows(ask.snapshot, names)
    known = asked != _UNKNOWN_ROW
    rows = asked[known]
    least = np.ones(len(rows))
    for need in registry.needs(ask):
        limit = need.limit[rows]
        free = limit - need.taken[rows] - need.wanted[rows]
        reserved = reservations.on_rows(need.resource, ask.size)
        # The scheduler asks for scores after it was told where the pod fits.
        reserved = reserved - reservations.of_holder(ask.pod.key, need.resource, ask.size)
        free = free - reserved[rows]
        least = np.minimum(least, np.where(limit == UNLIMITED, 1.0, free / np.maximum(limit, 1)))
    left = np.zeros(len(asked))
    left[known] = np.clip(least, 0.0, 1.0)
    return left


class _Refusing:
    """By row, in which words the pod is refused: a number for each, 0 where it is not."""

    def __init__(
        self,
        ask: Ask,
        reservations: Reservations,
        registering: Mapping[str, Bools],
    ) -> None:
        self._ask = ask
        results = self._results = _volume_limits(ask)
        self._reservations = reservations
        self._needs = list(registry.needs(ask))
        self._nominated = _nominated(ask, reservations)
        self._extra: list[tuple[Reason, bool]] = []
        self.words = np.where(results.codes == Code.SUCCESS, 0, 1 + self._kinds())
        for driver, rows in registering.items():
            self._refuse(rows, Reason(Cause.LIMIT_UNKNOWN, {"driver": driver}))
        for need in self._needs:
            reason = Reason(Cause.SLOTS_RESERVED, {"driver": need.resource})
            self._refuse(_over(need, self._promised(need.resource)), reason)
        beside = Ask(ask.snapshot, ask.pod, ask.features, promised=self._promised)
        for rule in registry.ours(ask.features):
            self._ask_rule(rule, beside)

    def grouped(
        self, words: Ints, rows: npt.NDArray[np.intp]
    ) -> Iterable[tuple[Bools, Reason, bool]]:
        """Of the names asked about, those refused in the same words, and whether for good."""
        for word in distinct(words[words != 0]).tolist():
            refused: Bools = words == word
            if word < 0:
                yield refused, *self._extra[-1 - word]
                continue
            # An error is about one pod of one node, and its words are that node's own.
            alone = self._results.codes[rows[refused]] == Code.ERROR
            places = np.flatnonzero(refused) if alone.any() else np.flatnonzero(refused)[:1]
            for place in places.tolist():
                (reason, *_) = self._results.reasons(int(rows[place]))
                these = refused
                if alone.any():
                    these = np.zeros(len(words), dtype=np.bool_)
                    these[place] = True
                yield these, reason, self._hopeless(reason, int(rows[place]))

    def may_settle(self, rows: npt.NDArray[np.intp], fresh_since: float) -> bool:
        """Whether what is about to be known could make the pod fit on one of the rows."""
        problem = self._ask.slots.problem
        if problem is not None:
            # Without its claims the scheduler would not have asked: it has seen what we have not.
            return problem.kind == "missing"
        settled = self._results.codes[rows] == Code.SUCCESS
        words = self.words[rows]
        for number, (reason, _) in enumerate(self._extra):
            if reason.cause is not Cause.SLOTS_RESERVED:
                settled &= words != -1 - number
        for need in self._needs:
            driver, size = need.resource, self._ask.size
            fresh = self._reservations.on_rows_of(
                lambda entry: entry.since >= fresh_since and not entry.node, driver, size
            )
            lasting = self._reservations.on_rows(driver, size) - fresh
            settled &= ~_over(need, self._beside_nominated(driver, lasting))[rows]
        return bool(settled.any())

    def shares(self, rows: npt.NDArray[np.intp]) -> tuple[Share, ...]:
        """What the pod would take on each of the rows, where there is anything to run out of."""
        found = []
        for need in self._needs:
            counts = need.wanted[rows]
            scarce = (counts > 0) & (need.limit[rows] != UNLIMITED)
            if scarce.any():
                share = rows[scarce].astype(np.int32), counts[scarce].astype(np.int16)
                found.append(Share(need.resource, *share))
        return tuple(found)

    def _ask_rule(self, rule: Rule, ask: Ask) -> None:
        """Take the answer of a rule that kube-scheduler does not have."""
        outcome = rule.pre_filter(ask)
        if isinstance(outcome, Rejection):
            self._refuse(np.ones(ask.size, dtype=np.bool_), outcome.reason, hopeless=True)
        elif outcome is not SKIP:
            results = outcome.results()
            words = results.kinds() * len(Code) + results.codes
            for word in distinct(words[results.codes != Code.SUCCESS]).tolist():
                rows: Bools = words == word
                row = int(rows.argmax())
                hopeless = bool(results.codes[row] == Code.UNRESOLVABLE)
                self._refuse(rows, results.reasons(row)[0], hopeless=hopeless)

    def _promised(self, resource: str) -> Ints:
        return self._beside_nominated(
            resource, self._reservations.on_rows(resource, self._ask.size)
        )

    def _beside_nominated(self, resource: str, reserved: Ints) -> Ints:
        nominated = self._nominated.get(resource)
        return reserved if nominated is None else reserved + nominated

    def _refuse(self, rows: Bools, reason: Reason, *, hopeless: bool = False) -> None:
        self._extra.append((reason, hopeless or reason.cause in _HOPELESS))
        self.words[rows & (self.words == 0)] = -len(self._extra)

    def _kinds(self) -> Ints:
        """Rows with the same number are refused for the same cause, driver, and length of time."""
        ask, kinds = self._ask, self._results.kinds()
        kinds = kinds * 2 + ask.snapshot.slots.with_csinode()
        first = np.full(ask.size, len(self._needs), dtype=np.int64)
        never = np.zeros(ask.size, dtype=np.bool_)
        for number, need in reversed(list(enumerate(self._needs))):
            first[need.exceeded] = number
            never[need.exceeded] = (need.wanted > need.limit)[need.exceeded]
        kinds = (kinds * (len(self._needs) + 1) + first) * 2 + never
        found: Ints = kinds * len(Code) + self._results.codes
        return found

    def _hopeless(self, reason: Reason, row: int) -> bool:
        if self._results.codes[row] == Code.UNRESOLVABLE or reason.cause in _HOPELESS:
            return True
        return any(
            need.exceeded[row] and need.wanted[row] > need.limit[row] for need in self._needs
        )


def _over(need: Need, reserved: Ints) -> Bools:
    """Rows where the pod fits, and would not beside what is reserved."""
    room = need.limit - need.taken - need.wanted
    over: Bools = (need.wanted > 0) & (reserved > room) & ~need.exceeded
    return over


def _volume_limits(ask: Ask) -> NodeResults:
    outcome = _VOLUME_LIMITS.pre_filter(ask)
    if isinstance(outcome, PreFilter):
        return outcome.results()
    return NodeResults(np.zeros(ask.size, dtype=np.int8), lambda _: ())


def _nominated(ask: Ask, reservations: Reservations) -> dict[str, Ints]:
    """Slots on nodes that are promised to pods at least as important, by driver.

    Preemption does so, and scale-down for pods that it moves.
    """
    found: dict[str, Ints] = {}
    snapshot = ask.snapshot
    for name, pods in snapshot.nominated_pods.items():
        node = snapshot.nodes.get(name)
        if node is None:
            continue
        for other in pods.values():
            lesser = other.pod_class.priority < ask.pod_class.priority
            held = reservations.get(other.key)
            counted = held is not None and held.source is not Source.MOVING
            if lesser or other.key == ask.pod.key or counted:
                continue
            slots = volumes.slots(other.meta, other.volumes, snapshot.storage, placed=True)
            for driver, count in new_on(snapshot, slots, node.row).items():
                column = found.setdefault(driver, np.zeros(ask.size, dtype=np.int64))
                column[node.row] += count
    return found


def new_on(snapshot: Snapshot, slots: Slots, row: int) -> dict[str, int]:
    """How many slots of each driver these volumes would newly take on a row."""
    found: dict[str, int] = {}
    for use in dict.fromkeys((*slots.uses, *slots.migrated)):
        if row not in snapshot.slots.users(use) and row not in snapshot.slots.attachments(use):
            found[use.driver] = found.get(use.driver, 0) + 1
    return found


def _drivers(ask: Ask) -> list[str]:
    return sorted({use.driver for use in (*ask.slots.uses, *ask.slots.migrated)})


def _rows(snapshot: Snapshot, names: Sequence[str]) -> npt.NDArray[np.intp]:
    find = snapshot.nodes.get
    rows = [node.row if (node := find(name)) is not None else _UNKNOWN_ROW for name in names]
    return np.array(rows, dtype=np.intp)
