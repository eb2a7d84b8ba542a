"""No pod with a place left pending, and none for which a place could be bought."""

import math
from collections import defaultdict
from collections.abc import Iterator

from tonnage.embedded.apiserver.store import Occurrence
from tonnage.simulation.checks.bookings import BookingCheck
from tonnage.simulation.checks.context import CheckContext, node_of
from tonnage.simulation.checks.disks import SELECTED
from tonnage.simulation.checks.places import NodeRoom, PlaceCheck, PodDemand
from tonnage.simulation.random_bookings import DRIVER

HAS_A_PLACE = "a pod with a place is pending"
COULD_BE_HELPED = "a pod that could be helped is pending"
NO_DRIVER = "a pod waits where its driver is missing"

MODEST_NODES = "not helped at the end, as live nodes tell of fewer slots than new ones have"
STILL_COMING = "not helped at the end, and machines still on their way"
NO_OPT_IN = "sent where a driver without opt-in never registers"

PATIENCE = 60.0
"""Seconds for which a pod may wait though nothing stands in its way: backoffs are far shorter, and
the five minutes after which everybody is tried again for no reason are far longer."""
_LOOK_EVERY = 20.0


class PendingPodCheck:
    """Looks now and then at pods that wait, and at nodes that nothing happens to."""

    def __init__(self, context: CheckContext, places: PlaceCheck, bookings: BookingCheck) -> None:
        self._context = context
        self._accounts = context.accounts
        self._findings = context.findings
        self._places = places
        self._bookings = bookings
        self._touched: defaultdict[str, float] = defaultdict(lambda: -math.inf)
        """When something last happened to nodes and claims, by name."""
        self._looked_at = 0.0
        self._told: set[str] = set()

    def changed(self, kind: str, occurrence: Occurrence) -> None:
        now = self._accounts.now
        for name in _touched(kind, occurrence):
            self._touched[name] = now
        if now - self._looked_at >= _LOOK_EVERY:
            self.look()

    def look(self) -> None:
        """Whoever has had a place for long should be there."""
        now = self._looked_at = self._accounts.now
        waiting = [
            wish
            for wish in self._places.wishes()
            if now - self._accounts.pods[wish.key].since > PATIENCE
            and not any(self._is_fresh(claim) for claim in wish.claims)
            and wish.key not in self._told
            and not wish.gang
        ]
        if not waiting:
            return
        # What is free may be booked for others, until they come or the time is over.
        waiting = [
            one
            for one in waiting
            if not one.needs[DRIVER] or not self._bookings.kept_from(one.request, within=PATIENCE)
        ]
        rooms = [room for room in self._places.now() if not self._is_fresh(room.name)]
        for wish in waiting:
            room = next((room for room in self._open_to(wish, rooms) if room.times(wish)), None)
            if room is not None:
                self._told.add(wish.key)
                self._findings.violated(HAS_A_PLACE, f"{wish.key}, with room on {room.name}")

    def at_the_end(self, *, settled: float) -> None:
        """All trouble is over for long, and nothing was bought for `settled` seconds."""
        self.look()
        left: list[str] = []
        for wish in self._places.wishes():
            if self._accounts.now - self._accounts.pods[wish.key].since < settled:
                continue
            if wish.request or (wish.gang and not wish.promised):
                # Nothing is bought for the one; gangs are looked at as such.
                continue
            if wish.promised:
                self._check_promise(wish)
                continue
            growing = self._places.growing(wish)
            if not growing:
                continue
            if self._places.is_busy(settled):
                self._findings.excuse(STILL_COMING)
            elif any(self._places.new(name, "modest").times(wish) for name in growing):
                left.append(f"{wish.key}, and {growing[0]} could grow")
            else:
                self._findings.excuse(MODEST_NODES)
        if left:
            more = f"; {len(left) - 1} more wait" if len(left) > 1 else ""
            self._findings.violated(COULD_BE_HELPED, left[0] + more)

    def _check_promise(self, wish: PodDemand) -> None:
        """A pod that was sent to a node has to stay with it, also if its driver never comes."""
        listed = self._accounts.slots.limits.get(wish.promised, {})
        missing = [driver for driver in wish.needs if driver not in listed]
        if any(map(self._context.opted_in, missing)):
            what = f"{wish.key} was sent to {wish.promised}: {', '.join(missing)}"
            self._findings.violated(NO_DRIVER, what)
        elif missing:
            self._findings.excuse(NO_OPT_IN)

    def _open_to(self, wish: PodDemand, rooms: list[NodeRoom]) -> list[NodeRoom]:
        """The nodes that a pod may go to: all, or the one that it was promised."""
        if not wish.promised:
            return rooms
        known = {room.name for room in rooms}
        return [
            room
            for room in self._places.now(but=wish.key)
            if room.name == wish.promised and room.name in known
        ]

    def _is_fresh(self, name: str) -> bool:
        return self._accounts.now - self._touched[name] <= PATIENCE


def _touched(kind: str, occurrence: Occurrence) -> Iterator[str]:
    """The nodes and claims that a change concerns."""
    versions = [one for one in (occurrence.before, occurrence.after) if one is not None]
    if kind in ("nodes", "csinodes"):
        yield occurrence.subject.name
    for version in versions:
        if kind == "pods":
            yield node_of(version)
        elif kind == "volumeattachments":
            yield version.tree["spec"]["nodeName"]
        elif kind == "persistentvolumeclaims":
            yield version.key
            yield version.meta.get("annotations", {}).get(SELECTED, "")
