"""Nodes that do not exist: templates to ask about, copies of them to place pods on.

A template is a shadow row, so that one question is answered for every template at once
without any of them being part of the cluster. Copies are living rows. Pods are held on
rows by the class and the number, without a record each.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSINode
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.nodes import PODS
from tonnage.snapshot.snapshot import NodeRecord, Snapshot

HOSTNAME = "kubernetes.io/hostname"


class Held(NamedTuple):
    """A class of pods and what each of them takes: slots by driver, bytes by storage class."""

    pods: PodClass
    slots: Mapping[str, int]
    storage: Mapping[str, int] = MappingProxyType({})


class TemplateRow(NamedTuple):
    """A template in the table, with the pods every copy of it starts with.

    `host_keys` are the labels whose value is the node's own name: each copy has its own.
    """

    row: int
    node: Node
    starting: tuple[Held, ...]
    host_keys: frozenset[str]


def add_template(
    snapshot: Snapshot,
    node: Node,
    csinode: CSINode | None,
    starting: Iterable[tuple[Pod, Mapping[str, int]]],
    *,
    host_keys: Iterable[str] = (HOSTNAME,),
    storage: Callable[[Pod], Mapping[str, int]] = lambda _: {},
) -> TemplateRow:
    """Take a template in, with its starting pods and the slots and storage each of them takes."""
    held = tuple(
        Held(snapshot.record_of(pod).pods, dict(slots), storage(pod)) for pod, slots in starting
    )
    row = snapshot.table.allocate(shadow=True)
    snapshot.undo_by(snapshot.table.release, row)
    snapshot.columns.set(row, node)
    snapshot.set_node_limits(row, node, csinode)
    one = np.ones(1, dtype=np.int64)
    for group in held:
        _change_columns(snapshot, group, np.array([row]), one)
        snapshot.host_ports.take(row, group.pods.ports)
        snapshot.undo_by(snapshot.host_ports.give_back, row, group.pods.ports)
    present = frozenset(key for key in host_keys if key in node.metadata.labels)
    return TemplateRow(row, node, held, present)


def free_names(snapshot: Snapshot, prefix: str, count: int, *, first: int = 1) -> list[str]:
    """Names for new nodes, numbered from `first` on, that no node has."""
    numbered = (f"{prefix}{number}" for number in itertools.count(first))
    return list(itertools.islice((n for n in numbered if n not in snapshot.nodes), count))


def add_copies(snapshot: Snapshot, template: TemplateRow, names: Sequence[str]) -> slice:
    """New nodes made from a template; gives their rows, which lie side by side."""
    rows = snapshot.table.copy(template.row, len(names))
    snapshot.undo_by(_remove_copies, snapshot, template, rows, tuple(names))
    snapshot.columns.labels.rename(rows, names, keys=template.host_keys)
    for row, name in zip(range(rows.start, rows.stop), names, strict=True):
        snapshot.nodes[name] = NodeRecord(name, row, snapshot.next_order(), template.node)
    for group in template.starting:
        _count(
            snapshot, group.pods, np.arange(rows.start, rows.stop), np.ones(len(names), np.int64)
        )
        if group.pods.ports:
            for row in range(rows.start, rows.stop):
                snapshot.host_ports.take(row, group.pods.ports)
    return rows


def hold(
    snapshot: Snapshot,
    group: Held,
    rows: npt.NDArray[np.intp],
    counts: npt.NDArray[np.int64],
) -> None:
    """Put so many pods of a class on each of the rows (each row at most once in `rows`)."""
    snapshot.undo_by(_release, snapshot, group, rows, counts)
    _change_columns(snapshot, group, rows, counts)
    _count(snapshot, group.pods, rows, counts)
    if group.pods.ports:
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            for _ in range(count):
                snapshot.host_ports.take(row, group.pods.ports)


def _release(
    snapshot: Snapshot,
    group: Held,
    rows: npt.NDArray[np.intp],
    counts: npt.NDArray[np.int64],
) -> None:
    _change_columns(snapshot, group, rows, -counts)
    _count(snapshot, group.pods, rows, -counts)
    if group.pods.ports:
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            for _ in range(count):
                snapshot.host_ports.give_back(row, group.pods.ports)


def _remove_copies(
    snapshot: Snapshot, template: TemplateRow, rows: slice, names: tuple[str, ...]
) -> None:
    for group in template.starting:
        _count(
            snapshot, group.pods, np.arange(rows.start, rows.stop), -np.ones(len(names), np.int64)
        )
        if group.pods.ports:
            for row in range(rows.start, rows.stop):
                snapshot.host_ports.give_back(row, group.pods.ports)
    for name in names:
        del snapshot.nodes[name]
    snapshot.table.release(rows)


def _change_columns(
    snapshot: Snapshot,
    group: Held,
    rows: npt.NDArray[np.intp],
    counts: npt.NDArray[np.int64],
) -> None:
    used = snapshot.columns.used
    for resource, amount in group.pods.usage_columns:
        used[resource].data[rows] += amount * counts
    used[PODS].data[rows] += counts
    for driver, slots in group.slots.items():
        snapshot.slots.driver(driver).used.data[rows] += slots * counts
    if group.storage and snapshot.storage_ledger is not None:
        snapshot.storage_ledger.take(rows, counts, group.storage)


def _count(
    snapshot: Snapshot,
    pods: PodClass,
    rows: npt.NDArray[np.intp],
    counts: npt.NDArray[np.int64],
) -> None:
    nodes = pods.nodes
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        left = nodes.get(row, 0) + count
        if left:
            nodes[row] = left
        else:
            nodes.pop(row, None)
    snapshot.counters.added_many(pods, rows, counts)
