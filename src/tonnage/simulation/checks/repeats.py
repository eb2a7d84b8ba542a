"""Nothing bought bit by bit, and nothing bought again: purchases that soon follow another.

When a decision to buy is over, everybody who waits is provided for as far as groups may grow. So
what is bought soon after may be for two things only: pods that came since, and slots that were
counted on then and are lost, with machines that failed and nodes that have fewer than was hoped.
Both are counted here from the API and the cloud, and set against the nodes that are bought.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tonnage.embedded.apiserver.store import Occurrence, Stored
from tonnage.simulation.checks.context import CheckContext, was_bound
from tonnage.simulation.checks.disks import SELECTED
from tonnage.simulation.checks.places import Expected, NodeRoom, PlaceCheck, PodDemand, Slots

BY_HALVES = "bought by halves what was wanted at once"
PACKED_OTHERWISE = "bought again for pods that what comes has slots for"
BEYOND_LOSSES = "bought again more than was lost and is wanted since"

PLACED_OTHERWISE = "bought again after the scheduler had filled nodes otherwise than planned"
PASSED_OVER = "bought again, of a group that may have been passed over for its failures"
NOT_HEARD = "bought again, and one of the two before hearing of the latest changes"

_A_ROUND = 1.0
"""Seconds within which everything that is asked for belongs to one decision."""
_SOON_AFTER = 60.0
_BACK_OFF = 180.0
"""Seconds after a failure in which a group may be passed over."""


class _Round(NamedTuple):
    """The state of things when a decision to buy was made."""

    at: float
    pods: frozenset[str]
    """Those that were known to have no node, and none in sight."""
    machines: int
    """How many there were before it."""
    counted_on: dict[str, Expected]
    """What machines could be thought to have, by name; its own are added."""
    in_trouble: frozenset[str]
    """Groups that may have been passed over for what had gone wrong with them."""
    behind: bool
    """Whether it was made without knowing all that had happened."""
    nodes: int
    """What it has bought so far."""
    follows: "_Round | None"
    """The one before, as long as this one is the latest."""


class RepeatCheck:
    """Is told of every request before it is made, and of every change."""

    def __init__(self, context: CheckContext, places_: PlaceCheck) -> None:
        self._accounts = context.accounts
        self._cloud = context.cloud
        self._groups = context.groups
        self._findings = context.findings
        self._behind = context.behind
        self._places = places_
        self._last: _Round | None = None
        self._placed_at = -math.inf
        """When last a pod got its node, or the node that its volumes are made for."""
        self._failed_at: dict[str, float] = {}
        """When a group was last seen to have a machine that failed, or that is overdue."""

    def changed(self, kind: str, occurrence: Occurrence) -> None:
        before, after = occurrence.before, occurrence.after
        if (kind == "pods" and was_bound(occurrence)) or (
            kind == "persistentvolumeclaims" and _is_sent(after) and not _is_sent(before)
        ):
            self._placed_at = self._accounts.now
        self._note_machines()

    def _note_machines(self) -> None:
        """Machines that were just bought, and groups that have one that failed."""
        if self._last is not None:
            for machine, expected in self._places.counted_on():
                self._last.counted_on.setdefault(machine, expected)
        for group in self._groups:
            if self._places.is_in_doubt(group):
                self._failed_at[group] = self._accounts.now

    def check(
        self, group: str, delta: int, *, helped: list[PodDemand], wishes: Iterable[PodDemand]
    ) -> None:
        """Just before `delta` nodes of a group are bought, which can help some who wait."""
        self._note_machines()
        now, last = self._accounts.now, self._last
        if last is not None and now - last.at < _A_ROUND:
            self._last = last._replace(
                nodes=last.nodes + delta, behind=last.behind or self._behind()
            )
        else:
            counted_on = dict(self._places.counted_on())
            self._last = _Round(
                at=now,
                pods=frozenset(wish.key for wish in wishes if wish.refused and not wish.promised),
                machines=len(counted_on),
                counted_on=counted_on,
                in_trouble=frozenset(self._in_trouble()),
                behind=self._behind(),
                nodes=delta,
                follows=last._replace(follows=None) if last is not None else None,
            )
        before = self._last.follows
        if before is not None and now - before.at <= _SOON_AFTER:
            self._check_repeated(group, helped, before, self._last)

    def _check_repeated(
        self, group: str, helped: list[PodDemand], before: _Round, this: _Round
    ) -> None:
        known = [one for one in helped if one.key in before.pods]
        came = [one for one in helped if one.key not in before.pods]
        allowed = self._allowed(group, came, before)
        if not helped or this.nodes <= allowed:
            return
        what = (
            f"{group} for {len(helped)} pods, {len(known)} of which waited"
            f" {this.at - before.at:.0f} s ago already"
        )
        if before.behind or this.behind:
            self._findings.excuse(NOT_HEARD)
        elif group in before.in_trouble:
            self._findings.excuse(PASSED_OVER)
        elif not allowed and self._is_too_little(helped):
            self._findings.violated(BY_HALVES, what)
        elif self._placed_at > before.at:
            self._findings.excuse(PLACED_OTHERWISE)
        elif not allowed:
            self._findings.violated(PACKED_OTHERWISE, what)
        else:
            what += f": {this.nodes} nodes, and {allowed:g} would do for what has changed"
            self._findings.violated(BEYOND_LOSSES, what)

    def _allowed(self, group: str, came: list[PodDemand], before: _Round) -> float:
        """Nodes of the group that pods that came and slots that were lost may need, at most."""
        new = self._places.new(group, "modest")
        there = dict(self._places.there())
        lost: list[Slots] = []
        fewer: list[Slots] = []
        for machine, expected in before.counted_on.items():
            if machine not in there:
                lost.append(expected.most)
            elif short := expected.short(there[machine]):
                fewer.append(short)
        # Those that were refused, or failed and were gone before anything else happened.
        unseen = before.nodes - (len(before.counted_on) - before.machines)
        lost += [self._places.new(group, "generous").free] * unseen
        # For pods that lost their slots there are new nodes for each old one, or for all together.
        displaced = sum(sum(short.values()) for short in fewer)
        together = max(_nodes(dict.fromkeys(new.free, displaced), new), default=0)
        one_by_one = sum(_replacing(short, new) for short in fewer)
        replacing = sum(_replacing(slots, new) for slots in lost)
        return replacing + min(one_by_one, together) + _for_pods(came, new)

    def _in_trouble(self) -> Iterator[str]:
        since = self._accounts.now - _BACK_OFF
        yield from (group for group, at in self._failed_at.items() if at > since)
        for one in self._cloud.asked:
            if one.at > since and (one.error or one.deed != "increase"):
                yield one.group

    def _is_too_little(self, helped: list[PodDemand]) -> bool:
        """Whether the pods cannot all have a place, however cleverly they are put together."""
        rooms = list(self._places.coming("generous"))
        wanted = sum((one.needs for one in helped), Counter[str]())
        return any(
            sum(room.free.get(driver, 0) for room in rooms) < count
            for driver, count in wanted.items()
        )


def _replacing(lost: Slots, new: NodeRoom) -> float:
    """New nodes that make good for what one machine lost: one, if it has as many slots."""
    return max([1, *_nodes(lost, new)])


def _for_pods(pods: list[PodDemand], new: NodeRoom) -> float:
    """New nodes that are surely enough for the pods: if each driver's volumes had their own."""
    slots = sum((pod.needs for pod in pods), Counter[str]())
    by_slots = sum(_nodes(slots, new))
    on_disks = [pod for pod in pods if pod.stored]
    fewest = min((new.times(disk) for disk in on_disks), default=1)
    return max(by_slots + math.ceil(len(on_disks) / fewest), 1 if pods else 0)


def _nodes(wanted: Mapping[str, float], new: NodeRoom) -> list[float]:
    """For each driver the new nodes that have so many slots."""
    return [
        math.ceil(count / new.free[driver]) if new.free.get(driver) else math.inf
        for driver, count in wanted.items()
        if count < math.inf
    ]


def _is_sent(claim: Stored | None) -> bool:
    return claim is not None and SELECTED in (claim.meta.get("annotations") or {})
