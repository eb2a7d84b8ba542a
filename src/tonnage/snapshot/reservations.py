"""What is taken and not seen yet: one overlay on the snapshot for everybody who decides.

Between a decision and the change that shows it, something is taken and looks free. An entry says
what, for whom, since when, and how that is known (`Source`). It counts

- as a pod on its node, where one node is known: `place` puts it there, and every rule sees it;
- as so many pods that are only thought of, by what one of them takes (`footprint`);
- as amounts on rows, where a pod may be on any of several nodes: `on_rows` is their sum;
- as amounts on one node by name, for what only a ledger counts: `amounts`.

An entry ends when a change shows what it stands for (`seen`), when its time is over (`expire`), or
when who made it takes it back (`release`). Moments are seconds of whatever clock the maker of the
entries goes by; it is always handed in. docs/design/reservations.md has the whole story.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType

import msgspec
import numpy as np
import numpy.typing as npt

from tonnage.objects.pods import FINISHED, Pod
from tonnage.snapshot import imagined
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.records import PodRecord
from tonnage.snapshot.rows import Ints
from tonnage.snapshot.snapshot import Snapshot


class Source(IntEnum):
    """How it is known that something is taken; the surest first."""

    ASSUMED = 1
    """We have decided it, and are telling the server."""
    SELECTED_NODE = 2
    """Volumes are made for a node, which is written on a claim."""
    LET_THROUGH = 3
    """A scheduler was told of nodes that the pod may go to, and will choose one."""
    NOMINATED = 4
    """Room on a node is kept for a pod, for which others have to leave it first."""
    MOVING = 5
    """A pod is sent away, and its successor is to have a place on the node."""
    BOUGHT = 6
    """A node was bought for the pod, and is not there yet."""
    BOOKED = 7
    """A ProvisioningRequest has the room until its pods come, or its time is over."""


class Share(msgspec.Struct, frozen=True):
    """An amount of one resource on each of the rows. Slots go by the name of their driver."""

    resource: str
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int16]


class Reservation(msgspec.Struct, frozen=True):
    """One entry. `holder` is whom it is for: a pod's namespace and name, or what the maker says.

    `node` is the only node that it can be on; without one it is on one of the rows of `shares`, or
    on a node of the `group` that is still to come.
    `until` is `None` for as long as something else proves it. `uid`, if there is one, tells the pod
    from another of its name. `pod` is what goes on the node in `place`: the pod itself, or one that
    stands for a pod to come. With a `footprint` it is so many of those instead (`pods`).
    """

    holder: str
    source: Source
    since: float
    until: float | None = None
    node: str = ""
    group: str = ""
    uid: str = ""
    pod: PodRecord | None = None
    shares: tuple[Share, ...] = ()
    amounts: Mapping[str, int] = MappingProxyType({})
    footprint: Footprint | None = None
    pods: int = 1


class Reservations:
    """A holder takes its place once: of its entries, one of each source, the surest counts.

    The sums are those of the entries that count, by resource and row; none is 0 for all. An entry
    keeps the amounts it was made with: a volume that two pods on their way share counts twice until
    they arrive. Too careful, for a moment.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[Reservation, ...]] = {}
        """By holder, the surest first; never empty."""
        self._sums: dict[str, Ints] = {}

    def __len__(self) -> int:
        """How many holders there are."""
        return len(self._held)

    def __iter__(self) -> Iterator[Reservation]:
        """The entries that count, the longest held first."""
        return (entries[0] for entries in self._held.values())

    def get(self, holder: str, source: Source | None = None) -> Reservation | None:
        """What counts for the holder, or what it has of one source."""
        for entry in self._held.get(holder, ()):
            if source is None or entry.source is source:
                return entry
        return None

    def of(self, *sources: Source) -> Iterator[Reservation]:
        """All entries of these sources, also those that do not count beside a surer one."""
        for entries in self._held.values():
            yield from (entry for entry in entries if entry.source in sources)

    def hold(self, entry: Reservation) -> None:
        """Hold an entry, in place of what its holder had of the same source."""
        kept = [one for one in self._held.get(entry.holder, ()) if one.source is not entry.source]
        self._set(entry.holder, tuple(sorted((entry, *kept), key=lambda one: one.source)))

    def release(self, holder: str, *sources: Source) -> bool:
        """Let go what the holder has of these sources, or of any; whether it had something."""
        before = self._held.get(holder, ())
        after = tuple(one for one in before if sources and one.source not in sources)
        if len(before) != len(after):
            self._set(holder, after)
        return len(before) != len(after)

    def end_at(self, holder: str, source: Source, moment: float) -> None:
        """Nothing proves the entry any longer; one that has an end already keeps it."""
        entry = self.get(holder, source)
        if entry is not None and entry.until is None:
            self.hold(msgspec.structs.replace(entry, until=moment))

    def seen(self, pod: Pod, *, gone: bool = False) -> bool:
        """Take a change of a pod: what it shows need not be held; whether something was.

        A pod that has a node is seen there, one that is gone takes nothing. A nomination is seen
        once the server says the same.
        """
        key = pod.metadata.key
        if key not in self._held:
            return False
        if gone or pod.spec.node_name or pod.status.phase in FINISHED:
            return self.release(key)
        nominated = self.get(key, Source.NOMINATED)
        if nominated is not None and nominated.node == pod.status.nominated_node_name:
            return self.release(key, Source.NOMINATED)
        return False

    def expire(self, now: float) -> list[Reservation]:
        """Let go the entries whose time is over; gives them."""
        # In no order that would help: an entry may get its end long after it was made.
        late = [
            entry
            for entries in self._held.values()
            for entry in entries
            if entry.until is not None and entry.until <= now
        ]
        for entry in late:
            self.release(entry.holder, entry.source)
        return late

    def clear(self) -> None:
        self._held.clear()
        self._sums.clear()

    def place(
        self, snapshot: Snapshot, *, only: Callable[[Reservation], bool] = lambda _: True
    ) -> None:
        """Put pods on the nodes that are known for them; meant for a trial.

        Whether they fit is not asked: who promised that has, and knew more. A pod that changed
        since, or whose node is gone, is left where it is. `only` says which entries are meant.
        """
        for entry in filter(only, self):
            pod, node = entry.pod, snapshot.nodes.get(entry.node)
            if node is None:
                continue
            if entry.footprint is not None:
                imagined.place(
                    snapshot, entry.footprint, np.array([node.row]), np.array([entry.pods])
                )
            elif pod is not None:
                known = snapshot.pods.get(pod.key)
                if known is None or known is pod:
                    snapshot.place(pod, entry.node)

    def on_rows(self, resource: str, size: int) -> Ints:
        """What is held of a resource, by row. To be read, not changed."""
        if resource not in self._sums:
            return np.zeros(size, dtype=np.int64)
        return self._sum(resource, size)[:size]

    def on_rows_of(self, counts: Callable[[Reservation], bool], resource: str, size: int) -> Ints:
        """The part of it that some of the entries hold."""
        return _total(filter(counts, self), resource, size)

    def of_holder(self, holder: str, resource: str, size: int) -> Ints:
        """The part of it that one holder has."""
        entry = self.get(holder)
        return _total(() if entry is None else (entry,), resource, size)

    def _set(self, holder: str, after: tuple[Reservation, ...]) -> None:
        before = self._held.get(holder, ())
        if before:
            self._take_back(before[0].shares)
        if after:
            self._held[holder] = after
            self._add(after[0].shares)
        else:
            del self._held[holder]

    def _add(self, shares: Iterable[Share]) -> None:
        for share in shares:
            if len(share.rows):
                self._sum(share.resource, int(share.rows.max()) + 1)[share.rows] += share.counts

    def _take_back(self, shares: Iterable[Share]) -> None:
        for share in shares:
            total = self._sums.get(share.resource)
            if total is not None and len(share.rows):
                total[share.rows] -= share.counts
                if not total.any():
                    del self._sums[share.resource]

    def _sum(self, resource: str, size: int) -> Ints:
        total = self._sums.get(resource)
        if total is None or len(total) < size:
            grown = np.zeros(max(64, 2 * size), dtype=np.int64)
            if total is not None:
                grown[: len(total)] = total
            self._sums[resource] = total = grown
        return total


def _total(entries: Iterable[Reservation], resource: str, size: int) -> Ints:
    total = np.zeros(size, dtype=np.int64)
    for entry in entries:
        for share in entry.shares:
            if share.resource == resource:
                inside = share.rows < size
                total[share.rows[inside]] += share.counts[inside]
    return total
