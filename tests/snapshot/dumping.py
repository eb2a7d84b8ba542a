"""Everything a snapshot holds, as plain values by name: what "the same snapshot" means in tests.

Numbers that depend on history alone (ids of interned values, rows, the order of dictionaries)
are read through to what they stand for. Zeros and empty entries are left out: a column that
nobody has a value in is as good as no column.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from tonnage.rules import pipeline
from tonnage.rules.features import Features
from tonnage.rules.framework import Code
from tonnage.snapshot.rows import Column
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import PodRecord, Snapshot

Dump: TypeAlias = dict[str, Any]
Told: TypeAlias = dict[str, dict[str, tuple[str, ...]]]


def dump(snapshot: Snapshot) -> Dump:
    """The whole state, by names. Two snapshots of the same objects dump alike."""
    names = _names(snapshot)
    storage = snapshot.storage
    return {
        "nodes": {name: record.node for name, record in snapshot.nodes.items()},
        "columns": {name: _row(snapshot, row) for row, name in names.items()},
        "classes": _classes(snapshot, names),
        "miscounted": miscounted(snapshot),
        "not blank": rows_not_blank(snapshot),
        "pods": {key: _pod(record, names) for key, record in snapshot.pods.items()},
        "host ports": _host_ports(snapshot, names),
        "slot users": _ledger(snapshot.slots._users, names),
        "slot attachments": _ledger(snapshot.slots._attachments, names),
        "problem pods": _keys(snapshot.problem_pods, names),
        "disk pods": _keys(snapshot.disk_pods, names),
        "nominated pods": _keys(snapshot.nominated_pods),
        "pods by node": _keys(snapshot._pods_by_node),
        "claim users": _keys(snapshot._claim_users),
        "claims of volumes": {
            name: set(keys) for name, keys in snapshot._storage_changes.volume_claims.items()
        },
        "namespaces": dict(snapshot.namespaces),
        "csinodes": dict(snapshot.csinodes),
        "attachments": dict(snapshot.attachments),
        "claims": dict(storage.claims),
        "volumes": dict(storage.volumes),
        "storage classes": dict(storage.classes),
        "drivers": dict(storage.drivers),
        "capacities": {
            key: one for found in storage._capacities.values() for key, one in found.items()
        },
    }


def exact(snapshot: Snapshot) -> Dump:
    """The whole state to the bit: what a trial must lead back to.

    Besides what the objects say that is rows, orders of everything that can be iterated over,
    and what plans set up in their trials.
    """
    return {
        **dump(snapshot),
        "rows": rows(snapshot),
        "taken rows": np.flatnonzero(snapshot.table.taken).tolist(),
        "first free row": _first_free_row(snapshot),
        "orders": orders(snapshot),
        "sequences": _sequences(snapshot),
        "storage ledger": _storage_ledger(snapshot),
        "slot pools": _slot_pools(snapshot),
        "may be taken back": snapshot._journal.recording,
    }


def orders(snapshot: Snapshot) -> dict[str, list[tuple[int, str]]]:
    """Who came before whom, among nodes and pods."""
    return {
        "nodes": sorted((record.order, name) for name, record in snapshot.nodes.items()),
        "pods": sorted((record.order, key) for key, record in snapshot.pods.items()),
    }


def rows(snapshot: Snapshot) -> dict[str, int]:
    return {name: record.row for name, record in snapshot.nodes.items()}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Where two dumps differ, down to the smallest entries that do; empty if nowhere."""
    found = {}
    for key in before.keys() | after.keys():
        one, other = before.get(key), after.get(key)
        if one != other:
            both = isinstance(one, dict) and isinstance(other, dict)
            found[str(key)] = differences(one, other) if both else (one, other)  # type: ignore[arg-type]
    return found


def told(snapshot: Snapshot, features: Features, pods: Iterable[PodRecord]) -> Told:
    """What each pod is told about each node.

    An error about the pods on a node names the first of them, which depends on who came first:
    of errors only the plugin is kept.
    """
    return {
        record.key: {
            verdict.node: (
                str(verdict.code),
                verdict.phase or "",
                verdict.plugin or "",
                *(() if verdict.code is Code.ERROR else sorted(verdict.texts)),
            )
            for verdict in pipeline.evaluate(snapshot, record, features)
        }
        for record in pods
    }


def told_waiting(snapshot: Snapshot, features: Features) -> Told:
    """What the pods that wait are told, on the snapshot as it is."""
    waiting = sorted(snapshot.pending_pods(), key=lambda record: record.key)
    return told(snapshot, features, waiting)


def miscounted(snapshot: Snapshot) -> list[Hashable]:
    """Counters that do not equal a count from scratch over the classes."""
    wrong: list[Hashable] = []
    for key, counter in snapshot.counters._counters.items():
        expected: Counter[int] = Counter()
        for pods in snapshot.classes.values():
            if counter.covers(pods):
                expected.update(pods.nodes)
                if not counter.terminating:
                    expected.subtract(pods.terminating)
        found = counter.column.data
        counted = {int(row): int(found[row]) for row in np.flatnonzero(found)}
        if counted != dict(+expected) or counter.total != expected.total():
            wrong.append(key)
    return wrong


def rows_not_blank(snapshot: Snapshot) -> list[int]:
    """Rows that are not taken and yet hold something."""
    table = snapshot.table
    wrong = np.zeros(len(table._taken.data), dtype=np.bool_)
    for column in (*table._columns, *table._tallies):
        wrong |= column.data != column.fill
    return [int(row) for row in np.flatnonzero(wrong & ~table._taken.data)]


def _names(snapshot: Snapshot) -> dict[int, str]:
    """Rows by name; templates of the same name are numbered by their rows."""
    names = {record.row: name for name, record in snapshot.nodes.items()}
    for row in np.flatnonzero(
        snapshot.table.taken & ~snapshot.table.alive.data[: snapshot.table.size]
    ).tolist():
        name = snapshot.name_of(row)
        number = sum(one.startswith(f"template {name} ") for one in names.values())
        names[row] = f"template {name} {number}"
    return names


def _first_free_row(snapshot: Snapshot) -> int:
    row = snapshot.table.allocate()
    snapshot.table.release(row)
    return row


def _sequences(snapshot: Snapshot) -> Dump:
    """Everything that can be iterated over, in the order it comes in."""
    storage = snapshot.storage
    return {
        "nodes": list(snapshot.nodes),
        "ordered nodes": [record.name for record in snapshot.ordered_nodes()],
        "pods": list(snapshot.pods),
        "pending pods": [record.key for record in snapshot.pending_pods()],
        "pods on nodes": {
            name: [record.key for record in snapshot.pods_on(name)]
            for name in snapshot._pods_by_node
        },
        "claim users": {
            key: [record.key for record in snapshot.claim_users(*key)]
            for key in snapshot._claim_users
        },
        "problem pods": {row: list(pods) for row, pods in snapshot.problem_pods.items()},
        "disk pods": {row: list(pods) for row, pods in snapshot.disk_pods.items()},
        "nominated pods": {name: list(pods) for name, pods in snapshot.nominated_pods.items()},
        "namespaces": list(snapshot.namespaces),
        "csinodes": list(snapshot.csinodes),
        "attachments": list(snapshot.attachments),
        "claims": list(storage.claims),
        "volumes": list(storage.volumes),
        "reserved": {
            key: [volume.metadata.name for volume in storage.reserved_for(*key)]
            for key in storage.claims
        },
        "storage classes": list(storage.classes),
        "drivers": list(storage.drivers),
        "capacities": {
            name: [one.metadata.name for one in storage.capacities_of(name)]
            for name in storage.classes
        },
    }


def _storage_ledger(snapshot: Snapshot) -> Dump:
    ledger = snapshot.storage_ledger
    return {
        name: {
            "capacity": ledger.capacity(name).tolist(),
            "largest": ledger.largest(name).tolist(),
            "left": ledger.left(name).tolist(),
            "taken": ledger._classes[name].pool.taken.data[: snapshot.table.size].tolist(),
            "shared": ledger._classes[name].pool.shared.tolist(),
        }
        for name in ledger.class_names
    }


def _slot_pools(snapshot: Snapshot) -> list[Any]:
    everywhere = slice(0, snapshot.table.size)
    pools = snapshot.slot_pools
    return [
        (
            pool.name,
            pool.weights,
            pool.free.data[everywhere].tolist(),
            pool.left(everywhere).tolist(),
        )
        for pool in pools.columns
    ]


def _row(snapshot: Snapshot, row: int) -> Dump:
    columns = snapshot.columns
    return {
        "alive": bool(snapshot.table.alive.data[row]),
        "name": snapshot.name_of(row),
        "labels": {
            key: column.values.values[column.data[row] - 1]
            for key, column in columns.labels._keys.items()
            if column.data[row]
        },
        "unschedulable": bool(columns.unschedulable.data[row]),
        "taints": columns.taints_of(row),
        "features": columns._feature_sets.values[columns._features.data[row]],
        "allocatable": _amounts(snapshot, columns.allocatable, row),
        "used": _amounts(snapshot, columns.used, row),
        "has csinode": bool(snapshot.slots.has_csinode.data[row]),
        "has limits": bool(snapshot.slots.has_limits.data[row]),
        "migrated": snapshot.plugin_sets.values[snapshot.migrated_plugins.data[row]],
        "slots": {
            slots.name: facts
            for slots in snapshot.slots.drivers()
            if (
                facts := (
                    bool(slots.listed.data[row]),
                    int(slots.limit.data[row]),
                    int(slots.used.data[row]),
                    int(slots.idle_attachments.data[row]),
                )
            )
            != (False, UNLIMITED, 0, 0)
        },
    }


def _amounts(snapshot: Snapshot, columns: Iterable[Column[np.int64]], row: int) -> dict[str, int]:
    """By name; of what no node offers any more nobody has to know how much is used."""
    names, offered = snapshot.columns.resource_names, snapshot.columns.allocatable
    return {
        name: int(column.data[row])
        for name, column, limits in zip(names, columns, offered, strict=True)
        if column.data[row] and limits.data.any()
    }


def _classes(snapshot: Snapshot, names: Mapping[int, str]) -> Dump:
    """Pods and terminating pods per node, by the facts of the class.

    Parts of a class that are told apart by labels of their own are put together again: which
    labels tell apart is only ever learnt, and never unlearnt.
    """
    found: dict[bytes, tuple[Counter[str], Counter[str]]] = {}
    for pods in snapshot.classes.values():
        for place, counts in enumerate((pods.nodes, pods.terminating)):
            for row, count in counts.items():
                both = found.setdefault(pods.key, (Counter(), Counter()))
                both[place][_name(names, row)] += count
    return {repr(key): (dict(on), dict(leaving)) for key, (on, leaving) in found.items()}


def _pod(record: PodRecord, names: Mapping[int, str]) -> Dump:
    return {
        "meta": record.meta,
        "class": record.pod_class.key,
        "volumes": record.volumes,
        "node": record.node_name,
        "nominated": record.nominated,
        "pin": record.pin,
        "placed on": names.get(record.row),
        "slots": record.slots,
    }


def _host_ports(snapshot: Snapshot, names: Mapping[int, str]) -> Dump:
    return {
        f"{protocol}/{port}": {_name(names, row): dict(holders) for row, holders in by_row.items()}
        for (protocol, port), by_row in snapshot.host_ports._held.items()
        if by_row
    }


def _ledger(counts: Mapping[Any, Mapping[int, int]], names: Mapping[int, str]) -> Dump:
    return {
        f"{use.driver}/{use.handle}": {_name(names, row): count for row, count in by_row.items()}
        for use, by_row in counts.items()
    }


def _keys(
    index: Mapping[Any, Mapping[str, PodRecord]], names: Mapping[int, str] | None = None
) -> Dump:
    return {
        key if names is None else _name(names, key): set(members) for key, members in index.items()
    }


def _name(names: Mapping[int, str], row: int) -> str:
    """A row that nobody has any more has a number for a name, and no dump should show one."""
    return names.get(row, f"row {row}")
