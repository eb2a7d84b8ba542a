"""Nodes that do not exist: templates to ask about, copies of them to place pods on.

A template is a shadow row, so that one question is answered for every template at once
without any of them being part of the cluster. Copies are living rows. Pods are held on
rows by the class and the number, without a record each.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from tonnage.objects.labels import HOSTNAME
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSINode
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.rows import Ints, RowIndex
from tonnage.snapshot.snapshot import NodeRecord, Snapshot

__all__ = [
    "HOSTNAME",
    "Footprint",
    "TemplateRow",
    "add_copies",
    "add_template",
    "free_names",
    "place",
]


class TemplateRow(msgspec.Struct, frozen=True):
    """A template in the table, with the pods every copy of it starts with.

    `host_keys` are the labels whose value is the node's own name: each copy has its own.
    """

    row: int
    node: Node
    starting: tuple[Footprint, ...]
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
        Footprint(snapshot.record_of(pod).pod_class, dict(slots), storage(pod))
        for pod, slots in starting
    )
    row = snapshot.table.allocate(shadow=True)
    snapshot.undo_by(snapshot.table.release, row)
    snapshot.columns.set(row, node)
    snapshot.set_node_limits(row, node, csinode)
    for group in held:
        snapshot.undo_by(snapshot.host_ports.give_back, row, group.pod_class.ports)
        snapshot.bulk_pods.start(row, group)
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
    orders = snapshot.next_orders(len(names))
    snapshot.nodes.append(
        names,
        [
            NodeRecord(name, row, order, template.node, imagined=True)
            for name, row, order in zip(names, range(rows.start, rows.stop), orders, strict=True)
        ],
    )
    snapshot.bulk_pods.start_copies(rows, template.starting)
    return rows


def place(snapshot: Snapshot, group: Footprint, rows: RowIndex, counts: Ints) -> None:
    """Put so many pods of a class on each of the rows (each row at most once in `rows`)."""
    snapshot.undo_by(snapshot.bulk_pods.give_back)
    known = snapshot.known_class(group.pod_class)
    if known is not group.pod_class:
        group = msgspec.structs.replace(group, pod_class=known)
    snapshot.bulk_pods.place(group, rows, counts)


def _remove_copies(
    snapshot: Snapshot, template: TemplateRow, rows: slice, names: tuple[str, ...]
) -> None:
    for _ in template.starting:
        snapshot.bulk_pods.give_back()
    for name in names:
        del snapshot.nodes[name]
    snapshot.table.release(rows)
