"""NodeResourcesFit: room for one more pod, and for everything it requests."""

from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np

from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import (
    Ask,
    Code,
    Count,
    EventKind,
    Measure,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    kinds_of,
    short_of,
)
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.nodes import PODS
from tonnage.snapshot.rows import Bools, Ints, Rows
from tonnage.snapshot.snapshot import Snapshot

# An enumeration's member takes longer to write into a column.
_UNSCHEDULABLE, _UNRESOLVABLE = int(Code.UNSCHEDULABLE), int(Code.UNRESOLVABLE)
_BASIC = ("cpu", "memory", "ephemeral-storage")


class NodeResourcesFit(Rule):
    name = "NodeResourcesFit"
    cures = (
        EventKind.NODE_ADDED,
        EventKind.NODE_ALLOCATABLE,
        EventKind.POD_DELETED,
        EventKind.POD_RESIZED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        return PreFilter(lambda: _results(ask))

    def footprint(self, snapshot: Snapshot, footprint: Footprint) -> Mapping[str, int]:
        requests = footprint.pod_class.requests
        return {name: amount for name, amount in requests.items() if amount} | {"pods": 1}

    def room(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> Ints:
        columns = snapshot.columns
        room: Ints = columns.allocatable[PODS].data[rows] - columns.used[PODS].data[rows]
        for name, amount in footprint.pod_class.requests.items():
            if amount:
                resource = columns.find_resource(name)
                if resource is None:
                    return np.zeros_like(room)
                free = columns.allocatable[resource].data[rows] - columns.used[resource].data[rows]
                room = np.minimum(room, free // amount)
        return room

    def counts(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> list[Count] | None:
        columns, pod_class = snapshot.columns, footprint.pod_class
        usage = dict(columns.columns_of(pod_class.usage))
        asked = {PODS: 1}
        for name, amount in pod_class.requests.items():
            if amount:
                resource = columns.find_resource(name)
                if resource is None:
                    return None
                asked[resource] = amount
        names = columns.resource_names
        return [
            Count(
                names[resource],
                columns.allocatable[resource].data[rows] - columns.used[resource].data[rows],
                asked.get(resource, 0),
                1 if resource == PODS else usage.get(resource, 0),
            )
            for resource in asked | usage
        ]

    def measures(self, snapshot: Snapshot, rows: Rows) -> Iterator[Measure]:
        columns = snapshot.columns
        for index, name in enumerate(columns.resource_names):
            yield Measure(
                name, columns.used[index].data[rows], columns.allocatable[index].data[rows]
            )


def _results(ask: Ask) -> NodeResults:
    size, columns = ask.size, ask.snapshot.columns
    wanted = _wanted(ask)
    limits = [column.data[:size] for column in columns.allocatable]
    used = [column.data[:size] for column in columns.used]
    full = used[PODS] + 1 > limits[PODS]
    nothing: Ints = np.zeros(size, dtype=np.int64)

    def column(resource: int | None, of: list[Ints]) -> Ints:
        return nothing if resource is None else of[resource]

    def short() -> Iterator[Bools]:
        """By resource, where it does not suffice; made anew, as there may be thousands of them."""
        for _, resource, amount in wanted:
            yield amount > column(resource, limits) - column(resource, used)

    lacking, too_small = full.copy(), np.zeros(size, dtype=np.bool_)
    for rows in short():
        lacking |= rows
    for _, resource, amount in wanted:
        too_small |= amount > column(resource, limits)
    codes = np.zeros(size, dtype=np.int8)
    codes[lacking] = _UNSCHEDULABLE
    codes[too_small] = _UNRESOLVABLE

    def reasons(row: int) -> tuple[Reason, ...]:
        found = []
        if full[row]:
            found.append(
                Reason(
                    Cause.TOO_MANY_PODS,
                    {"used": int(used[PODS][row]), "limit": int(limits[PODS][row])},
                )
            )
        for name, resource, amount in wanted:
            has, taken = int(column(resource, limits)[row]), int(column(resource, used)[row])
            if amount > has - taken:
                found.append(
                    short_of(
                        name,
                        Cause.INSUFFICIENT_RESOURCE,
                        resource=name,
                        wanted=amount,
                        used=taken,
                        limit=has,
                    )
                )
        return tuple(found)

    return NodeResults(codes, reasons, kinds=lambda: kinds_of(chain((full,), short())))


def _wanted(ask: Ask) -> list[tuple[str, int | None, int]]:
    """Name, column and amount of what the pod requests, in upstream's order of checks."""
    requests, columns = ask.pod_class.requests, ask.snapshot.columns
    basic = [name for name in _BASIC if requests.get(name)]
    scalar = [name for name, amount in requests.items() if name not in _BASIC and amount]
    return [(name, columns.find_resource(name), requests[name]) for name in (*basic, *scalar)]
