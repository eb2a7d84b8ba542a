"""Attach slots: per driver a limit column and columns of what is in use.

A volume used by several pods of one node takes one slot. A volume that is attached
but that no pod there uses (it is being detached, or waits for its pod) takes one too.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tonnage.objects.volumes import VolumeUse
from tonnage.snapshot.rows import Bools, Column, Ints, RowIndex, RowTable

UNLIMITED = np.iinfo(np.int64).max


class DriverSlots:
    """The columns of one driver: listed in the CSINode, its limit, and what is taken."""

    __slots__ = ("idle_attachments", "limit", "listed", "name", "used")

    def __init__(self, name: str, table: RowTable) -> None:
        self.name = name
        self.listed = table.column(np.bool_)
        self.limit = table.column(np.int64, UNLIMITED)
        self.used = table.column(np.int64)
        self.idle_attachments = table.column(np.int64)

    def columns(self) -> tuple[Column[Any], ...]:
        return self.listed, self.limit, self.used, self.idle_attachments


class SlotLedger:
    """`used` counts volumes that pods of the row use, `held` those only an attachment holds."""

    def __init__(self, table: RowTable, *, appeared: Callable[[], None] | None = None) -> None:
        """`appeared` is called for a driver that is heard of, if that makes a difference."""
        self._table = table
        self._appeared = appeared
        self._drivers: dict[str, DriverSlots] = {}
        self._unheard_of = DriverSlots("", table)
        self._users: dict[VolumeUse, dict[int, int]] = {}
        self._attachments: dict[VolumeUse, dict[int, int]] = {}
        self.has_csinode = table.column(np.bool_)
        self.has_limits = table.column(np.bool_)

    def driver(self, name: str) -> DriverSlots:
        """The columns of a driver, to be read; those of one that no node ever had are blank."""
        found = self._drivers.get(name)
        if found is not None:
            return found
        return self._unheard_of if self._appeared is None else self._written(name)

    def compact(self) -> None:
        """Forget drivers that no row has anything of any more."""
        gone = [
            name
            for name, slots in self._drivers.items()
            if not any((one.data != one.fill).any() for one in slots.columns())
        ]
        for name in gone:
            self._table.drop(self._drivers.pop(name).columns())

    def take(self, driver: str, rows: RowIndex, counts: Ints) -> None:
        """Use so many slots more, for volumes that are not known by name."""
        self._written(driver).used.data[rows] += counts

    def _written(self, name: str) -> DriverSlots:
        found = self._drivers.get(name)
        if found is None:
            found = self._drivers[name] = DriverSlots(name, self._table)
            if self._appeared is not None:
                self._appeared()
        return found

    def drivers(self) -> Iterable[DriverSlots]:
        return self._drivers.values()

    def set_limits(
        self, row: int, listed: Iterable[str], limits: dict[str, int], *, csinode: bool
    ) -> None:
        """What the node says of its drivers; a listed driver without a limit is unlimited."""
        for slots in list(self._drivers.values()):
            slots.listed.data[row] = False
            slots.limit.data[row] = UNLIMITED
        for name in listed:
            self._written(name).listed.data[row] = True
        for name, limit in limits.items():
            self._written(name).limit.data[row] = limit
        self.has_csinode.data[row] = csinode
        self.has_limits.data[row] = bool(limits)

    def use(self, row: int, volumes: Iterable[VolumeUse]) -> None:
        for volume in volumes:
            rows = self._users.setdefault(volume, {})
            count = rows.get(row, 0)
            rows[row] = count + 1
            if count == 0:
                slots = self._written(volume.driver)
                slots.used.data[row] += 1
                if row in self._attachments.get(volume, ()):
                    slots.idle_attachments.data[row] -= 1

    def unuse(self, row: int, volumes: Iterable[VolumeUse]) -> None:
        for volume in volumes:
            if _decrement(self._users, volume, row):
                slots = self.driver(volume.driver)
                slots.used.data[row] -= 1
                if row in self._attachments.get(volume, ()):
                    slots.idle_attachments.data[row] += 1

    def attach(self, row: int, volume: VolumeUse) -> None:
        rows = self._attachments.setdefault(volume, {})
        count = rows.get(row, 0)
        rows[row] = count + 1
        if count == 0 and row not in self._users.get(volume, ()):
            self._written(volume.driver).idle_attachments.data[row] += 1

    def detach(self, row: int, volume: VolumeUse) -> None:
        gone = _decrement(self._attachments, volume, row)
        if gone and row not in self._users.get(volume, ()):
            self.driver(volume.driver).idle_attachments.data[row] -= 1

    def users(self, volume: VolumeUse) -> Mapping[int, int]:
        """Rows where pods use the volume, with how many."""
        return self._users.get(volume, {})

    def attachments(self, volume: VolumeUse) -> Mapping[int, int]:
        """Rows the volume is attached to."""
        return self._attachments.get(volume, {})

    def taken(self, driver: DriverSlots) -> Ints:
        size = self._table.size
        return driver.used.data[:size] + driver.idle_attachments.data[:size]

    def with_csinode(self) -> Bools:
        return self.has_csinode.data[: self._table.size]


def _decrement(counts: dict[VolumeUse, dict[int, int]], volume: VolumeUse, row: int) -> bool:
    """Count one down; whether that was the last on the row."""
    rows = counts[volume]
    rows[row] -= 1
    if rows[row]:
        return False
    del rows[row]
    if not rows:
        del counts[volume]
    return True
