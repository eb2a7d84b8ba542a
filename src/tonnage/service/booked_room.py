"""Room that ProvisioningRequests have booked, left to their pods by whoever schedules.

All that is needed is in the API: the condition `Provisioned` of the request says that its room is
booked and since when, its PodTemplate what one pod takes, and an annotation of a pod that it takes
its part. So a process that starts anew knows the same as the one before.

Where the room lies is worked out here as in a plan, before anybody else is placed, and held in the
overlay of reservations. While others are placed beside it, it is found in the same place again.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.watch_events import Change, EventType
from tonnage.groups import provisioning_requests
from tonnage.groups.headroom import of_chunk
from tonnage.groups.provisioning_requests import RequestedRoom
from tonnage.objects.buffers import PodTemplate
from tonnage.objects.pods import Pod
from tonnage.objects.provisioning_requests import ProvisioningRequest, consumed_by
from tonnage.rules import pipeline
from tonnage.rules.causes import Cause
from tonnage.rules.features import Features
from tonnage.rules.framework import Code, NodeResults, always
from tonnage.rules.pipeline import Verdicts
from tonnage.scaleup import headroom, placement, pod_groups, refusals
from tonnage.service.live_cluster import OF_SCHEDULING, LiveCluster
from tonnage.service.wanted_kinds import WantedKinds
from tonnage.snapshot.reservations import Reservation, Reservations, Source
from tonnage.snapshot.rows import Bools
from tonnage.snapshot.snapshot import PodRecord, Snapshot

PROVISIONING_REQUESTS = "ProvisioningRequests"
"""By what name refusals for the sake of booked room go."""

_ON_THEIR_WAY = (Source.ASSUMED, Source.SELECTED_NODE, Source.LET_THROUGH)


class BookedRoom:
    """Every booking that still holds is in `reservations`, as far as there are nodes for it.

    A pod that takes room of a request is not kept off that room, and counts for itself once it has
    a node or is on its way to one. Pods of DaemonSets belong on their nodes whatever is booked.
    """

    def __init__(
        self,
        cluster: LiveCluster,
        reservations: Reservations,
        kinds: WantedKinds,
        *,
        clock: Clock,
        wanted: Callable[[], bool],
    ) -> None:
        """`wanted` says whether bookings are to be respected; if not, nothing is read for it."""
        self._cluster = cluster
        self._reservations = reservations
        self._kinds = kinds
        self._clock = clock
        self._wanted = wanted
        self._stale = True
        self._ends = math.inf
        """When the first of the bookings ends, in seconds since 1970."""
        self._snapshot: Snapshot | None = None
        self.consumers: dict[str, tuple[str, str]] = {}
        """Pods that name a request, with its namespace and name; all there are."""
        self._holders: dict[str, tuple[str, str]] = {}
        """Entries in the overlay, each with the request."""
        cluster.cache(Pod).subscribe(self._pod_changed)
        # Whatever makes room makes it for what is booked first, a volume that is detached too.
        for kind in OF_SCHEDULING:
            cache: Cache[Any] = cluster.cache(kind)
            cache.subscribe(self.changed)

    def __len__(self) -> int:
        """How many places are held."""
        return len(self._holders)

    def changed(self, *_: object) -> None:
        """Something may be booked otherwise from now on."""
        self._stale = True

    def unknown(self) -> str:
        """Why it cannot be said yet what is booked; empty if it can, or never will."""
        if self._wanted():
            for kind in (ProvisioningRequest, PodTemplate):
                cache = self._kinds.cache(kind)
                if cache.obstacle is None and not cache.synced:
                    return f"{kind.__name__} objects are not all known yet"
        return ""

    def problems(self) -> Iterator[str]:
        """What keeps bookings from being respected."""
        if self._wanted():
            for kind in (ProvisioningRequest, PodTemplate):
                found = self._kinds.cache(kind).obstacle
                if found is not None and found.forbidden:
                    yield f"bookings are not respected: {found.right}"

    def refresh(self, features: Features) -> bool:
        """Bring what is held up to date; whether that has changed."""
        snapshot, now = self._cluster.snapshot, self._clock.now().timestamp()
        if not self._wanted():
            return self._hold({}, {})
        if not self._stale and now < self._ends and self._snapshot is snapshot:
            return False
        self._stale, self._snapshot = False, snapshot
        rooms = self._rooms(now)
        entries: dict[str, Reservation] = {}
        holders: dict[str, tuple[str, str]] = {}
        if rooms:
            with snapshot.trial():
                for entry in self._places(snapshot, rooms, features):
                    chunk = of_chunk(entry.holder.partition("@")[0])
                    entries[entry.holder] = entry
                    holders[entry.holder] = (chunk.namespace, chunk.name.rpartition(".")[0])
        return self._hold(entries, holders)

    def evaluate(self, record: PodRecord, features: Features) -> Verdicts:
        """What becomes of the pod on every node, beside all that is booked for others."""
        verdicts = pipeline.evaluate(self._cluster.snapshot, record, features)
        rows = self.refused_rows(record, verdicts, features)
        if rows is not None:
            # No pod that is preempted would help.
            results = NodeResults.passing(~rows, Code.UNRESOLVABLE, always(Cause.ROOM_BOOKED))
            verdicts.add("Filter", PROVISIONING_REQUESTS, results)
        return verdicts

    def refused_rows(
        self, record: PodRecord, verdicts: Verdicts, features: Features
    ) -> Bools | None:
        """Rows that the pod fits on, and would not beside what is booked; `None`: there is none."""
        self.refresh(features)
        if not self.concerns(record) or not verdicts.fits.any():
            return None
        snapshot = self._cluster.snapshot
        with snapshot.trial():
            self.place(record)
            beside = pipeline.evaluate(snapshot, record, features).fits
        refused: Bools = verdicts.fits & ~beside
        return refused if refused.any() else None

    def concerns(self, record: PodRecord) -> bool:
        """Whether anything is booked that the pod has to leave to others."""
        return (
            bool(self._holders)
            and not refusals.is_daemon(record)
            and any(one != self._request_of(record) for one in self._holders.values())
        )

    def place(self, record: PodRecord) -> None:
        """Put all on its nodes that is booked for others than the pod; meant for a trial."""
        own, request_of = self._request_of(record), self._holders
        self._reservations.place(
            self._cluster.snapshot,
            only=lambda entry: (
                entry.source is Source.BOOKED and request_of.get(entry.holder, own) != own
            ),
        )

    def nodes(self) -> set[str]:
        """The nodes on which room is booked."""
        return {entry.node for entry in self._reservations.of(Source.BOOKED)}

    def taken_by(self, record: PodRecord) -> None:
        """Note that a pod is on its way to a node."""
        if record.key in self.consumers:
            self._stale = True

    def _request_of(self, record: PodRecord) -> tuple[str, str]:
        return self.consumers.get(record.key, ("", ""))

    def _rooms(self, now: float) -> list[RequestedRoom]:
        requests = list(self._kinds.cache(ProvisioningRequest))
        find = self._kinds.cache(PodTemplate).get
        readings = provisioning_requests.read(
            requests,
            lambda namespace, name: find(name, namespace=namespace),
            self._taken(),
            now=now,
        )
        booked = [one for one in readings if one.room is not None and one.room.booked]
        ends = [provisioning_requests.booked_until(one.request) for one in booked]
        self._ends = min(ends, default=math.inf)
        return [one.room for one in booked if one.room is not None]

    def _taken(self) -> Counter[tuple[str, str]]:
        """How many pods have taken their part of each request, or are about to."""
        pods, found = self._cluster.snapshot.pods, Counter[tuple[str, str]]()
        for key, request in self.consumers.items():
            record = pods.get(key)
            if (record is not None and record.node_name) or any(
                self._reservations.get(key, source) is not None for source in _ON_THEIR_WAY
            ):
                found[request] += 1
        return found

    def _places(
        self, snapshot: Snapshot, rooms: list[RequestedRoom], features: Features
    ) -> Iterator[Reservation]:
        since = self._clock.monotonic()
        records = [one for room in rooms for one in headroom.pods_of_request(snapshot, room)]
        # Sets are not put together, or it would not be known whose room is where.
        parts = {record.key: of_chunk(record.key) for record in records}
        groups = pod_groups.group(snapshot, records, parts=parts)
        alive = snapshot.table.alive.data[: snapshot.table.size]
        fits, _ = placement.place(snapshot, groups, features, rows=alive)
        counts: Counter[tuple[int, int]] = Counter()
        by_number = {id(group): group for group in groups}
        for placed in fits:
            counts[id(placed.group), placed.row] += len(placed.pods)
            by_number.setdefault(id(placed.group), placed.group)
        for (number, row), count in counts.items():
            group, node = by_number[number], snapshot.name_of(row)
            yield Reservation(
                f"{group.sample.key}@{node}",
                Source.BOOKED,
                since,
                node=node,
                footprint=group.footprint,
                pods=count,
            )

    def _hold(self, entries: dict[str, Reservation], holders: dict[str, tuple[str, str]]) -> bool:
        before = {
            holder: entry.pods
            for holder in self._holders
            if (entry := self._reservations.get(holder, Source.BOOKED)) is not None
        }
        for holder in self._holders.keys() - entries.keys():
            self._reservations.release(holder, Source.BOOKED)
        for entry in entries.values():
            self._reservations.hold(entry)
        self._holders = holders
        return before != {holder: entry.pods for holder, entry in entries.items()}

    def _pod_changed(self, change: Change[Any]) -> None:
        pod = change.object
        name = consumed_by(pod.metadata) if pod.metadata.annotations else ""
        if name and change.type is not EventType.DELETED:
            self.consumers[pod.metadata.key] = (pod.metadata.namespace, name)
        elif self.consumers:
            self.consumers.pop(pod.metadata.key, None)
