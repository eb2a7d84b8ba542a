"""NodePorts: host ports are held by one pod of a node at a time."""

import numpy as np

from tonnage.rules.causes import Cause
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Aspect,
    Code,
    EventKind,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    always,
)
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.rows import Ints, Rows
from tonnage.snapshot.snapshot import PodRecord, Snapshot


class NodePorts(Rule):
    name = "NodePorts"
    about = frozenset({Aspect.OTHER_PODS})
    cures = (
        EventKind.NODE_ADDED,
        EventKind.POD_DELETED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        wanted = ask.pod_class.ports
        if not wanted:
            return SKIP

        def results() -> NodeResults:
            passes = np.ones(ask.size, dtype=np.bool_)
            passes[list(ask.snapshot.host_ports.conflicts(wanted))] = False
            ports = ",".join(f"{port.protocol}/{port.port}" for port in wanted)
            return NodeResults.passing(
                passes, Code.UNSCHEDULABLE, always(Cause.HOST_PORT_TAKEN, ports=ports)
            )

        return PreFilter(results)

    def room(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> Ints | None:
        wanted = footprint.pod_class.ports
        if not wanted:
            return None
        free = np.ones(snapshot.table.size, dtype=np.int64)
        free[list(snapshot.host_ports.conflicts(wanted))] = 0
        return free[rows]

    def counts(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> tuple[()] | None:
        return None if footprint.pod_class.ports else ()

    def helps(self, event: EventKind, subject: object, pod: PodRecord, snapshot: Snapshot) -> bool:
        return not isinstance(subject, PodRecord) or bool(subject.pod_class.ports)
