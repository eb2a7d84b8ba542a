"""Booked room is left to the pods that take it, and bought once.

A booking is so many slots of one driver, wherever they are: whoever else is decided on has to leave
as many free as are booked and not taken yet.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tonnage.embedded.apiserver.store import Occurrence, Stored
from tonnage.groups.provisioning_requests import (
    BOOKED_FOR,
    BOOKING_EXPIRED,
    FAILED,
    PROVISIONED,
)
from tonnage.objects.provisioning_requests import ATOMIC_SCALE_UP, CONSUME_ANNOTATION
from tonnage.simulation.checks.context import CheckContext, node_of
from tonnage.simulation.checks.places import PlaceCheck, PodDemand, is_open
from tonnage.simulation.random_bookings import DRIVER

GIVEN_AWAY = "booked room was given to a pod that does not take it"
NOT_THERE = "room was booked that is neither there nor coming"

NOT_HEARD = "booked room was given away as nodes, limits or requests changed"

_LASTS = BOOKED_FOR - 1
"""Seconds that room is booked at least: the moment is written down to the second."""
_FACTS = frozenset(
    {"nodes", "csinodes", "volumeattachments", "provisioningrequests", "podtemplates"}
)


class _Request(NamedTuple):
    """A request that has neither failed nor expired; `left` are the pods yet to come for it.

    `came` are those that have.
    """

    name: str
    left: int
    came: int
    asked: int
    booked: bool
    may_buy: bool


class BookingCheck:
    """Follows requests, and what the scheduler decides."""

    def __init__(self, context: CheckContext, places_: PlaceCheck) -> None:
        self._context = context
        self._accounts = context.accounts
        self._findings = context.findings
        self._places = places_
        store = context.store
        self._pods = store.built_in("pods")
        self._nodes = store.built_in("nodes")
        self._requests = store.collections["autoscaling.x-k8s.io", "v1", "provisioningrequests"]
        self._decided: dict[str, tuple[str, str]] = {}
        self._booked_at: dict[str, float] = {}
        self._facts_at = -math.inf

    def changed(self, kind: str, occurrence: Occurrence) -> None:
        if next(iter(self._requests.within()), None) is None:
            return
        if kind in _FACTS:
            self._facts_at = self._accounts.now
        self._note_decisions()
        if kind == "provisioningrequests":
            self._note_booked(occurrence.subject.name)

    def demands(self) -> list[PodDemand]:
        """Room that nodes may be bought for: booked for good, or asked for by who can be helped."""
        return [
            _demand(one, number)
            for one in self._open()
            if one.may_buy and (one.booked or self._most() >= one.left)
            for number in range(one.left)
        ]

    def in_the_way(self) -> list[PodDemand]:
        """Room that is never bought: booked, or perhaps found in this very round."""
        return [
            _demand(one, number)
            for one in self._open()
            if not one.may_buy
            for number in range(one.left)
        ]

    def kept_from(self, request: str, *, within: float) -> bool:
        """Whether room was kept lately for pods of other requests that have not come."""
        since = self._accounts.now - within
        return any(
            one.booked and one.left and one.name != request for one in self._open(since=since)
        )

    def _note_decisions(self) -> None:
        assumed, before = self._context.assumed(), self._decided
        self._decided = {key: (entry.uid, entry.node) for key, entry in assumed.items()}
        fresh = [key for key, decided in self._decided.items() if before.get(key) != decided]
        booked = [one for one in self._open() if one.booked]
        if not fresh or not booked:
            return
        free = self._free()
        for key in fresh:
            pod = self._context.pod(key)
            if pod is None or not self._new_slots(pod, assumed[key].node):
                continue
            own = next((one for one in booked if one.name == request_of(pod)), None)
            if own is not None and own.came <= own.asked:
                # Its own room; where there is too little for all bookings, one of them loses.
                continue
            kept = sum(one.left for one in booked if one is not own)
            if free >= kept:
                continue
            if self._facts_at == self._accounts.now:
                self._findings.excuse(NOT_HEARD)
            else:
                what = f"{key} on {assumed[key].node}: {free:g} slots are left for {kept}"
                self._findings.violated(GIVEN_AWAY, what)

    def _note_booked(self, name: str) -> None:
        found = self._requests.get("default", name)
        if found is None or name in self._booked_at or PROVISIONED not in _conditions(found):
            return
        self._booked_at[name] = self._accounts.now
        wanted = sum(one.left for one in self._open() if one.booked)
        coming = self._places.coming("generous", perhaps=True)
        there = sum(room.free.get(DRIVER, 0) for room in coming)
        if there < wanted:
            self._findings.violated(NOT_THERE, f"{name}: {there:g} slots for {wanted}")

    def _open(self, *, since: float | None = None) -> Iterator[_Request]:
        """Requests that are not at their end, or were not at that moment."""
        taken, now = self._taken(), self._accounts.now if since is None else since
        for one in self._requests.within():
            conditions = _conditions(one)
            spec, booked = one.tree["spec"], PROVISIONED in conditions
            if FAILED in conditions or (BOOKING_EXPIRED in conditions and since is None):
                continue
            if booked and now > self._booked_at.get(one.name, math.inf) + _LASTS:
                continue
            count = spec["podSets"][0]["count"]
            left = max(count - taken[one.name], 0) if booked else count
            may_buy = spec["provisioningClassName"] == ATOMIC_SCALE_UP
            yield _Request(one.name, left, taken[one.name], count, booked, may_buy)

    def _taken(self) -> Counter[str]:
        assumed = self._context.assumed()
        return Counter(
            request
            for pod in self._pods.within()
            if (request := request_of(pod)) and (node_of(pod) or pod.key in assumed)
        )

    def _free(self) -> float:
        """Slots that are left when all are there who were decided on."""
        coming: Counter[str] = Counter()
        for key, entry in self._context.assumed().items():
            pod = self._context.pod(key)
            if pod is not None and not node_of(pod):
                coming[entry.node] += self._new_slots(pod, entry.node)
        found = 0.0
        for node in self._nodes.within():
            limits = self._accounts.slots.limits.get(node.name, {})
            if DRIVER not in limits or not is_open(node):
                continue
            limit = limits[DRIVER]
            used = self._accounts.slots.used(node.name, DRIVER) + coming[node.name]
            found += math.inf if limit is None else max(limit - used, 0)
        return found

    def _new_slots(self, pod: Stored, node: str) -> int:
        slots = self._accounts.slots
        return sum(
            one.driver == DRIVER and not slots.holds(node, one) for one in slots.volumes_of(pod)
        )

    def _most(self) -> float:
        """Slots at most, on nodes that are there, coming, or to be had."""
        return sum(room.free.get(DRIVER, 0) for room in self._places.in_all("generous"))


def _demand(request: _Request, number: int) -> PodDemand:
    return PodDemand(
        key=f"booked:{request.name}:{number}", needs=Counter({DRIVER: 1}), stored=Counter()
    )


def _conditions(request: Stored) -> set[str]:
    told = (request.tree.get("status") or {}).get("conditions") or ()
    return {one["type"] for one in told if one["status"] == "True"}


def request_of(pod: Stored) -> str:
    """The request whose room a pod takes, if it takes some."""
    return str((pod.meta.get("annotations") or {}).get(CONSUME_ANNOTATION, ""))
