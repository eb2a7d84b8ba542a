"""All that the page shows as tables and values, and what differs between two moments.

A table has rows by key; a value is sent whole when it changes. What the page gets first is the
whole state, then differences, cut into parts that are never larger than `LARGEST_PART`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tonnage.board import history
from tonnage.board.history import BoardHistory, BoardSample
from tonnage.board.limit_rows import LimitRowReader
from tonnage.board.moment import Moment
from tonnage.board.node_rows import NodeReader, NodeTable
from tonnage.board.pending_rows import LOOKED_AT, PendingReader, PendingRow
from tonnage.board.plan_summary import PlanSummary, summary
from tonnage.board.removal_rows import RemovalReader
from tonnage.groups.model import Group
from tonnage.objects.meta import Record
from tonnage.objects.timestamps import rfc3339
from tonnage.scaleup.plan import Plan

LARGEST_PART = 96 * 1024

NODES = "nodes"
_encode = msgspec.json.Encoder().encode


class GroupRow(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A node group, for totals and for what-ifs."""

    size: int
    target: int
    min_size: int
    max_size: int
    price_per_hour: float | None


class Head(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What stands above every view. `mode` says where the cluster comes from."""

    title: str
    mode: str
    time: str
    nodes: int
    pods: int
    pending: int
    cost_per_hour: float | None
    held: str
    notes: tuple[str, ...]
    decides: bool
    """Whether somebody acts on the plan, or it only says what would be bought."""


class PageState(NamedTuple):
    """One state of the page: `nodes` as arrays, all else as rows by key and as values."""

    nodes: NodeTable
    tables: Mapping[str, Mapping[str, Any]]
    values: Mapping[str, Any]

    def document(self, revision: int) -> dict[str, Any]:
        """The whole, for who comes new."""
        rows = dict(zip(self.nodes.names, self.nodes.rows.tolist(), strict=True))
        return {
            "revision": revision,
            "tables": {NODES: rows, **self.tables},
            "values": self.values,
        }


class StateReader:
    """Makes a state of each moment; it remembers what it must to do that quickly."""

    def __init__(
        self, *, title: str, mode: str, decides: bool, asked_at_once: int = LOOKED_AT
    ) -> None:
        self._title, self._mode, self._decides = title, mode, decides
        self._nodes = NodeReader()
        self._pending = PendingReader(at_once=asked_at_once)
        self._removals = RemovalReader()
        self._limits = LimitRowReader()
        self._history = BoardHistory()
        self._plan: Plan | None = None
        self._summary: PlanSummary | None = None
        self._revision = 0
        self._rows: Any = None

    def read(self, moment: Moment) -> PageState:
        inputs = moment.inputs
        nodes = self._nodes.read(moment)
        if self._rows is None or nodes.changed_since(self._rows) != ({}, []):
            self._revision += 1
        self._rows = nodes
        pending = self._pending.read(moment, revision=self._revision)
        removals, removal_summary = self._removals.read(moment)
        waiting = sum(row.count for row in pending.values())
        sample = self._history.take(moment, nodes, pending=waiting)
        plan = self._planned(moment)
        sizes = nodes.group_sizes()
        return PageState(
            nodes,
            {
                "pending": pending,
                "removals": removals,
                "limits": self._limits.read(moment),
                "samples": dict(self._history.samples),
                "decisions": history.marks(moment.decisions),
                "groups": {group.id: _group_row(group, sizes) for group in inputs.groups},
            },
            {
                "head": self._head(moment, nodes, sample),
                "lanes": nodes.lanes,
                "labels": nodes.labels,
                "plan": plan,
                "removal": removal_summary,
                "workloads": workloads(pending),
            },
        )

    def _planned(self, moment: Moment) -> PlanSummary | None:
        """The plan, compared with the last one that was another."""
        if moment.plan is None:
            return self._summary
        if self._summary is None or moment.plan != self._plan:
            before, self._plan = self._plan, moment.plan
            self._summary = summary(moment.plan, moment.inputs.groups, before=before)
        return self._summary

    def _head(self, moment: Moment, nodes: NodeTable, sample: BoardSample) -> Head:
        return Head(
            title=self._title,
            mode=self._mode,
            time=rfc3339(moment.now),
            nodes=len(nodes.names),
            pods=len(moment.inputs.cluster.snapshot.pods),
            pending=sample.pending,
            cost_per_hour=sample.cost,
            held=moment.held,
            notes=moment.notes,
            decides=self._decides,
        )


def _group_row(group: Group, sizes: Mapping[str, int]) -> GroupRow:
    return GroupRow(
        size=sizes.get(group.id, 0),
        target=group.target,
        min_size=group.min_size,
        max_size=group.max_size,
        price_per_hour=group.price_per_hour,
    )


def workloads(pending: Mapping[str, PendingRow]) -> tuple[str, ...]:
    """Pods by which what-ifs can name their workload: the first of each row that waits."""
    return tuple(key for key, _ in sorted(pending.items(), key=lambda pair: -pair[1].count)[:50])


def differences(before: PageState, after: PageState, *, revision: int) -> Iterator[bytes]:
    """Parts, as JSON, that turn one state into the other; none if nothing differs.

    A part that says `more` is to be shown together with the next.
    """
    changes = list(_changes(before, after))
    if not changes:
        return
    part: list[bytes] = []
    size = 0
    for change in changes:
        if part and size + len(change) > LARGEST_PART:
            yield _part(part, revision=revision, more=True)
            part, size = [], 0
        part.append(change)
        size += len(change) + 1
    yield _part(part, revision=revision, more=False)


def _part(changes: list[bytes], *, revision: int, more: bool) -> bytes:
    told = b'{"revision":%d,"more":%s,"changes":[' % (revision, b"true" if more else b"false")
    return told + b",".join(changes) + b"]}"


def _changes(before: PageState, after: PageState) -> Iterator[bytes]:
    """`[table, key, row]`, without a row if it is gone; `["", name, value]` for values."""
    for name, value in after.values.items():
        if before.values.get(name) != value:
            yield _encode(("", name, value))
    rows, gone = after.nodes.changed_since(before.nodes)
    for key in gone:
        yield _encode((NODES, key))
    for key, row in rows.items():
        yield _encode((NODES, key, row))
    for name, table in after.tables.items():
        old = before.tables.get(name, {})
        if old is table:
            continue
        for key in old:
            if key not in table:
                yield _encode((name, key))
        for key, row in table.items():
            if old.get(key) != row:
                yield _encode((name, key, row))
