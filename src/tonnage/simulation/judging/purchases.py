"""Nothing bought that was already coming, nor more than is needed, nor bit by bit.

A purchase is judged by the pods that it can help: those that a new node of the group would take.
Only what is certain is a breach: that all of these find a place without it, in whatever order the
scheduler fills the nodes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tonnage.embedded.apiserver.store import Occurrence, Stored
from tonnage.groups.model import Group
from tonnage.simulation.judging import places
from tonnage.simulation.judging.findings import Findings
from tonnage.simulation.judging.places import Places, Room, View, Wish
from tonnage.simulation.tapping import NotedCloud

ALREADY_COMING = "bought what was already coming"
MORE_THAN_NEEDED = "bought more than is needed"
BY_HALVES = "bought by halves what was wanted at once"
PACKED_OTHERWISE = "bought again for pods that what comes has slots for"

MODEST_NODES = "bought while live nodes told of fewer slots than new ones have"
PLACED_OTHERWISE = "bought again after the scheduler had filled nodes otherwise than planned"
REPLACED = "bought in place of a node that never got its drivers, at the minimum of its group"
NOT_HEARD = "bought before the autoscaler could hear of the latest changes"

_A_ROUND = 1.0
"""Seconds within which everything that is asked for belongs to one decision."""
_SOON_AFTER = 60.0
_BACK_OFF = 180.0
"""Seconds after a failure in which a group may be passed over."""


class _Bought(NamedTuple):
    """The state of things after a decision to buy."""

    at: float
    pods: frozenset[str]
    """Those that were known to have no node."""
    behind: bool
    """Whether it was made without knowing all that had happened."""


class Purchases:
    """Is told of every request before it is made."""

    def __init__(
        self,
        places_: Places,
        cloud: NotedCloud,
        groups: Mapping[str, Group],
        findings: Findings,
        *,
        now: Callable[[], float],
        behind: Callable[[], bool],
    ) -> None:
        """`behind` says whether the autoscaler has yet to hear of changes."""
        self._places = places_
        self._cloud = cloud
        self._groups = groups
        self._findings = findings
        self._now = now
        self._behind = behind
        self._last: _Bought | None = None
        self._upset_at = 0.0
        """When last more was wanted than before, or less was there than expected."""
        self._placed_at = 0.0
        """When last a pod got its node, or the node that its volumes are made for."""

    def changed(self, kind: str, occurrence: Occurrence) -> None:
        before, after = occurrence.before, occurrence.after
        if kind == "pods" and (before is None or after is None):
            self._upset_at = self._now()
        elif (kind == "pods" and _has_node(after) and not _has_node(before)) or (
            kind == "persistentvolumeclaims" and _is_sent(after) and not _is_sent(before)
        ):
            self._placed_at = self._now()
        elif kind == "nodes" and before is not None:
            if after is None or (places.takes_pods(before) and not places.takes_pods(after)):
                self._upset_at = self._now()
        elif kind == "csinodes":
            lost = before is not None and (after is None or _drivers(before) - _drivers(after))
            if lost or self._places.disappoints(occurrence.subject.name):
                self._upset_at = self._now()

    def check(self, group: str, delta: int) -> None:
        """Just before `delta` nodes of a group are bought."""
        wishes = self._places.wishes()
        free = [wish for wish in wishes if not wish.promised]
        labels, slots = self._places.new(group, "template")
        helped = [one for one in free if Room(group, labels, slots).times(one)]
        self._check_need(group, delta, helped, wishes)
        self._check_halves(group, helped)
        known = frozenset(one.key for one in wishes if one.refused)
        behind, last = self._behind(), self._last
        if last is not None and self._now() - last.at < _A_ROUND:
            known, behind = last.pods, behind or last.behind
        self._last = _Bought(self._now(), known, behind)

    def _check_need(
        self, group: str, delta: int, helped: list[Wish], wishes: Iterable[Wish]
    ) -> None:
        wishes = list(wishes)
        for bought, rule in ((0, ALREADY_COMING), (delta - 1, MORE_THAN_NEEDED)):
            modest = self._are_sure(group, bought, helped, wishes, "modest")
            if not modest and not self._are_sure(group, bought, helped, wishes, "template"):
                continue
            if self._behind():
                self._findings.excuse(NOT_HEARD)
            elif delta == 1 and self._places.is_replaced(group):
                self._findings.excuse(REPLACED)
            elif not modest:
                self._findings.excuse(MODEST_NODES)
            else:
                what = f"{group} +{delta} for {len(helped)} pods, all sure of a place with {bought}"
                self._findings.violated(rule, what)
            return

    def _are_sure(
        self, group: str, bought: int, helped: list[Wish], wishes: list[Wish], view: View
    ) -> bool:
        rooms = list(self._places.coming(view))
        labels, slots = self._places.new(group, view)
        rooms += [Room(f"{group} new {number}", labels, slots) for number in range(bought)]
        return places.are_sure(helped, wishes, rooms)

    def _check_halves(self, group: str, helped: list[Wish]) -> None:
        """Nothing has happened since the last purchase but pods getting their nodes, and yet more
        is bought for pods that waited then already: it could have been known then."""
        last, now = self._last, self._now()
        if last is None or not _A_ROUND <= now - last.at <= _SOON_AFTER:
            return
        if self._upset_at > last.at or self._behind() or self._has_failed(last.at):
            return
        if not helped or not all(one.key in last.pods for one in helped):
            return
        what = f"{group} for {len(helped)} pods that waited {now - last.at:.0f} s ago already"
        if last.behind:
            self._findings.excuse(NOT_HEARD)
        elif self._is_too_little(helped):
            self._findings.violated(BY_HALVES, what)
        elif self._placed_at > last.at:
            self._findings.excuse(PLACED_OTHERWISE)
        else:
            self._findings.violated(PACKED_OTHERWISE, what)

    def _is_too_little(self, helped: list[Wish]) -> bool:
        """Whether the pods cannot all have a place, however cleverly they are put together."""
        rooms = list(self._places.coming("generous"))
        wanted = sum((one.needs for one in helped), Counter[str]())
        return any(
            sum(room.free.get(driver, 0) for room in rooms) < count
            for driver, count in wanted.items()
        )

    def _has_failed(self, since: float) -> bool:
        """Whether a group may have been passed over for what went wrong with it, or nodes that were
        counted on may not be any more."""
        if any(machine.error is not None for machine in self._cloud.machines):
            return True
        if any(map(self._places.is_in_doubt, self._groups)):
            return True
        return any(
            one.at > since - _BACK_OFF and (one.error or one.deed != "increase")
            for one in self._cloud.asked
        )


def _drivers(csi_node: Stored) -> set[str]:
    return {one["name"] for one in csi_node.tree.get("spec", {}).get("drivers") or ()}


def _has_node(pod: Stored | None) -> bool:
    return pod is not None and bool(pod.tree["spec"].get("nodeName"))


def _is_sent(claim: Stored | None) -> bool:
    return claim is not None and places.SELECTED in (claim.meta.get("annotations") or {})
