"""No node over a driver's limit, and no pod bound where its opted-in driver is missing.

Both hold at the moment of binding, and there is nothing to forgive but what happens between a
decision and its binding, while volumes are made: nobody can decide by what is not so yet. What
CSINodes say from one to the other is remembered for that.
"""

import math
from collections import defaultdict
from typing import NamedTuple

from tonnage.embedded.apiserver.store import Occurrence
from tonnage.simulation.checks.context import CheckContext, node_of, was_bound
from tonnage.simulation.slots import Volume
from tonnage.snapshot.reservations import Reservation

BEYOND_LIMIT = "bound beyond a limit"
DRIVER_MISSING = "bound where its driver is missing"
SENT_ASTRAY = "sent where its driver is missing"
ATTACHED_BEYOND = "attached beyond a limit"
REGISTERED_BELOW = "a driver that opted in registers below what is there"

LOWERED_SINCE = "bound beyond a limit that was lowered after the decision"
LEFT_SINCE = "bound where its driver left after the decision"
NOT_REGISTERED_YET = "bound beyond a limit that a driver without opt-in had not told yet"
LOWERED_UNDER = "a limit lowered under volumes that were there"
TOLD_LATE = "a driver without opt-in registers below what is there"


class _Told(NamedTuple):
    """What a CSINode says of a driver for a while: a limit, none, or nothing at all."""

    since: float
    listed: bool
    limit: int | None

    def room(self, *, opted_in: bool) -> float:
        """How many volumes the node could have; to a driver that opted in, absence is none."""
        if not self.listed:
            return 0.0 if opted_in else math.inf
        return math.inf if self.limit is None else float(self.limit)


class _Decision(NamedTuple):
    uid: str
    node: str
    since: float
    """Whoever decided had seen everything that was so before this moment."""


_NOTHING = _Told(-math.inf, listed=False, limit=None)


class BindingCheck:
    """Follows CSINodes, decisions of the scheduler, and pods that get their node."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        self._accounts = context.accounts
        self._findings = context.findings
        self._told: defaultdict[tuple[str, str], list[_Told]] = defaultdict(lambda: [_NOTHING])
        self._decisions: dict[str, _Decision] = {}
        self._last_change = -math.inf

    def changed(self, kind: str, occurrence: Occurrence) -> None:
        self._note_decisions()
        if kind == "csinodes":
            self._note_limits(occurrence.subject.name)
        elif kind == "pods":
            if was_bound(occurrence):
                pod = occurrence.subject
                self._check_binding(pod.key, node_of(pod), uid=pod.uid)
        elif kind == "volumeattachments" and occurrence.before is None:
            spec = occurrence.subject.tree["spec"]
            self._check_attachment(spec["nodeName"], self._accounts.slots.attached_volume(spec))
        self._last_change = self._accounts.now

    def _note_decisions(self) -> None:
        """A decision that is new now was made after the last change, perhaps at the same moment:
        then what was so until that moment may have been believed."""
        assumed = self._context.assumed()
        for key in self._decisions.keys() - assumed.keys():
            del self._decisions[key]
        for key, one in assumed.items():
            known = self._decisions.get(key)
            if known is None or (known.uid, known.node) != (one.uid, one.node):
                self._decisions[key] = _Decision(one.uid, one.node, self._last_change)
                self._check_decision(key, one)

    def _check_decision(self, key: str, decided: Reservation) -> None:
        """Without its driver a pod is not even sent somewhere: its volumes would be made there."""
        pod = self._context.pod(key)
        if pod is None or pod.uid != decided.uid:
            return
        for driver in {volume.driver for volume in self._accounts.slots.volumes_of(pod)}:
            believable = self._believable(decided.node, driver, since=self._last_change)
            if self._context.opted_in(driver) and not any(one.listed for one in believable):
                self._findings.violated(SENT_ASTRAY, f"{key} to {decided.node}: {driver}")

    def _note_limits(self, node: str) -> None:
        now, listed = self._accounts.now, self._accounts.slots.limits.get(node, {})
        for driver in {*listed, *(name for one, name in self._told if one == node)}:
            known = self._told[node, driver]
            told = _Told(now, driver in listed, listed.get(driver))
            if known[-1][1:] != told[1:]:
                self._check_change(node, driver, told)
                known.append(told)

    def _check_change(self, node: str, driver: str, told: _Told) -> None:
        """A limit below what is there already is nobody's doing, if it was not for want of care."""
        used = self._accounts.slots.used(node, driver)
        if not told.listed or told.limit is None or used <= told.limit:
            return
        before = next((one for one in reversed(self._told[node, driver]) if one.listed), None)
        if before is not None and before.room(opted_in=True) > told.limit:
            self._findings.excuse(LOWERED_UNDER)
        elif not self._context.opted_in(driver):
            self._findings.excuse(TOLD_LATE)
        elif before is None:
            what = f"{driver} on {node}: {told.limit} slots, {used} volumes"
            self._findings.violated(REGISTERED_BELOW, what)

    def _check_binding(self, pod: str, node: str, *, uid: str) -> None:
        decision = self._decisions.get(pod)
        since = self._accounts.now
        if decision is not None and (decision.uid, decision.node) == (uid, node):
            since = decision.since
        for driver in {volume.driver for volume in self._accounts.pods[pod].volumes}:
            used = self._accounts.slots.used(node, driver)
            opted_in, now = self._context.opted_in(driver), self._told[node, driver][-1]
            believable = self._believable(node, driver, since=since)
            if opted_in and not now.listed:
                if any(one.listed for one in believable):
                    self._findings.excuse(LEFT_SINCE)
                else:
                    self._findings.violated(DRIVER_MISSING, f"{pod} on {node}: {driver}")
                continue
            if used <= now.room(opted_in=opted_in):
                continue
            if used <= max(one.room(opted_in=True) for one in believable):
                self._findings.excuse(LOWERED_SINCE)
            elif used <= max(one.room(opted_in=opted_in) for one in believable):
                self._findings.excuse(NOT_REGISTERED_YET)
            else:
                what = f"{pod} on {node}: {used} volumes of {driver}, which has {now.limit} slots"
                self._findings.violated(BEYOND_LIMIT, what)

    def _check_attachment(self, node: str, attached: Volume) -> None:
        """An attachment takes a slot of its own only if no pod of the node has the volume."""
        if any(attached in pod.volumes for pod in self._accounts.pods.values() if pod.node == node):
            return
        driver = attached.driver
        told, used = self._told[node, driver][-1], self._accounts.slots.used(node, driver)
        if told.listed and told.limit is not None and used > told.limit:
            what = f"{used} volumes of {driver} on {node}, which has {told.limit} slots"
            self._findings.violated(ATTACHED_BEYOND, what)

    def _believable(self, node: str, driver: str, *, since: float) -> list[_Told]:
        """What was so at some moment from `since` on, or until it."""
        known = self._told[node, driver]
        return [
            one
            for one, later in zip(known, [*known[1:], None], strict=True)
            if later is None or later.since >= since
        ]
