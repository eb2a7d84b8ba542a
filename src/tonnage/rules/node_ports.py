"""NodePorts: host ports are held by one pod of a node at a time."""

import numpy as np

from tonnage.rules.causes import Cause
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Code,
    Event,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    always,
)


class NodePorts(Rule):
    name = "NodePorts"
    cures = (
        Event.NODE_ADDED,
        Event.POD_DELETED,
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
