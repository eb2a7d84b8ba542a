"""What other pods, and a group's own, allow on new nodes: rules between pods as numbers.

New nodes of a template differ in nothing but their hostname, so that rules between pods come
down to caps: so many in all, so many on a node, none much higher than the lowest.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec
import numpy as np

from tonnage.rules.framework import Ask
from tonnage.snapshot.imagined import TemplateRow
from tonnage.snapshot.pod_counters import Scope
from tonnage.snapshot.rows import Ints

PLENTY = np.iinfo(np.int64).max // 4


class Caps(msgspec.Struct, frozen=True):
    """How many pods of a group may go on new nodes of a template, besides what there is room for.

    In all at most `total`, on a row that is there `on_row`, on one more row `fresh`. With
    `max_skew` set, no row may rise more than that above the lowest row or `global_minimum`; rows
    start at `heights`. With `one_row` all must go on a single row. `depends_on_node_count` says
    that it matters how many nodes there are, `needs_pod_by_pod` that these numbers do not say all.
    """

    total: int
    on_row: Ints
    fresh: int
    heights: Ints
    max_skew: int | None = None
    global_minimum: int = 0
    one_row: bool = False
    depends_on_node_count: bool = False
    needs_pod_by_pod: bool = False


class CapsBuilder:
    """Gathers caps for new rows, each step lowering what the ones before it left."""

    def __init__(self, ask: Ask, template: TemplateRow, rows: slice) -> None:
        self.ask = ask
        self.rows = rows
        self.template = template.row
        self.host_keys = template.host_keys
        self.starting = [held.pod_class for held in template.starting]
        count = rows.stop - rows.start
        self.total = PLENTY
        self.on_row: Ints = np.full(count, PLENTY, dtype=np.int64)
        self.fresh = PLENTY
        self.heights: Ints = np.zeros(count, dtype=np.int64)
        self.max_skew: int | None = None
        self.global_minimum = PLENTY
        self.one_row = False
        self.depends_on_node_count = False
        self.needs_pod_by_pod = False

    def build(self) -> Caps:
        return Caps(
            self.total,
            self.on_row,
            self.fresh,
            self.heights,
            self.max_skew,
            self.global_minimum,
            self.one_row,
            self.depends_on_node_count,
            self.needs_pod_by_pod or (self.one_row and self.max_skew is not None),
        )

    @property
    def none_fit(self) -> bool:
        return self.total == 0

    def refuse(self) -> None:
        self.total = 0

    def starts_with(self, scope: Scope) -> bool:
        """Whether every new node comes with a pod that the scope speaks of."""
        return any(scope.covers(pods) for pods in self.starting)

    def label(self, key: str) -> int:
        return int(self.ask.snapshot.columns.labels.find(key).data[self.template])


CapStep: TypeAlias = Callable[[CapsBuilder], None]
"""Lowers caps by one rule between pods."""
