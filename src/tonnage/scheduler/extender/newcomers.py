"""Nodes so young that their drivers may still be registering."""

from collections.abc import Callable, Iterable

import numpy as np

from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects import timestamps
from tonnage.objects.nodes import Node
from tonnage.scheduler.extender import node_verdicts
from tonnage.snapshot.rows import Bools
from tonnage.snapshot.snapshot import Snapshot


class Newcomers:
    """Holds the nodes that were younger than the longest window when last looked at."""

    def __init__(self, now: Callable[[], float], *, window: Callable[[], float]) -> None:
        """`now` is in seconds since 1970, as nodes say when they were made."""
        self._now = now
        self._window = window
        self._born: dict[str, float] = {}

    def take(self, change: Change[Node]) -> None:
        """One change of the watch."""
        meta = change.object.metadata
        if change.type is EventType.DELETED:
            self._born.pop(meta.name, None)
        elif change.type is EventType.ADDED:
            born = timestamps.moment(meta.creation_timestamp)
            if born is not None:
                self._born[meta.name] = born

    def registering(self, snapshot: Snapshot, drivers: Iterable[str]) -> dict[str, Bools]:
        """By driver, rows of young nodes that do not list it.

        A name that nothing in the cluster knows for a driver, such as that of a provisioner for
        local disks, will never be registered and is not waited for.
        """
        since = self._now() - self._window()
        self._born = {name: born for name, born in self._born.items() if born > since}
        found: dict[str, Bools] = {}
        rows = [node.row for name in self._born if (node := snapshot.nodes.get(name)) is not None]
        size = snapshot.table.size
        for driver in drivers if rows else ():
            if node_verdicts.is_driver(snapshot, driver):
                young = np.zeros(size, dtype=np.bool_)
                young[rows] = True
                found[driver] = young & ~snapshot.slots.driver(driver).listed.data[:size]
        return found
