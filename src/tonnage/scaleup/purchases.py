"""What a plan in the making has bought and placed so far."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tonnage.scaleup.plan import GroupDelta, Placement, Step
from tonnage.scaleup.pod_groups import Placed
from tonnage.snapshot.snapshot import PodRecord, Snapshot


class Purchases:
    """Every pod that has a place is in `on_existing` or in one of the `steps`, in that order.

    `by_group` are the rows bought of each group with the pods on them, `placed` counts the pods on
    bought rows by the id of what a pod of their group holds.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.by_group: dict[str, dict[int, list[PodRecord]]] = {}
        self.placed: Counter[int] = Counter()
        self.steps: list[Step] = []
        self.on_existing: list[Placement] = []

    @property
    def rows(self) -> list[int]:
        return [row for rows in self.by_group.values() for row in rows]

    def count(self, group: str) -> int:
        """Nodes bought of a group."""
        return len(self.by_group.get(group, ()))

    def add_rows(self, rows: Mapping[str, Sequence[int]]) -> None:
        for name, found in rows.items():
            self.by_group.setdefault(name, {}).update((row, []) for row in found)

    def add_step(
        self,
        chosen: str,
        rows: Mapping[str, Sequence[int]],
        placed: Sequence[Placed],
        *,
        reason: str,
    ) -> None:
        """Book a purchase of rows that were added, and whom it gives a place."""
        self.steps.append(
            Step(
                chosen=chosen,
                scale_ups=tuple(
                    GroupDelta(group=name, delta=len(found)) for name, found in rows.items()
                ),
                pods=tuple(pod.key for one in placed for pod in one.pods),
                fit_on_existing=self._book(placed),
                reason=reason,
            )
        )

    def add_without_buying(self, placed: Sequence[Placed]) -> None:
        """Book pods that found a place; if something was bought, it is only then that they fit."""
        if not self.steps:
            self.on_existing += self._book(placed)
        elif placed:
            last = self.steps[-1]
            self.steps[-1] = msgspec.structs.replace(
                last,
                pods=(*last.pods, *(pod.key for one in placed for pod in one.pods)),
                fit_on_existing=(*last.fit_on_existing, *self._book(placed)),
            )

    def _book(self, placed: Iterable[Placed]) -> tuple[Placement, ...]:
        """Write pods down on the rows that were bought; gives those that are on others."""
        owner = {row: rows for rows in self.by_group.values() for row in rows}
        others: list[Placement] = []
        for group, pods, row in placed:
            if row in owner:
                owner[row][row].extend(pods)
                self.placed[id(group.footprint)] += len(pods)
            else:
                node = self._snapshot.name_of(row)
                others.extend(Placement(pod=pod.key, node=node) for pod in pods)
        return tuple(others)
