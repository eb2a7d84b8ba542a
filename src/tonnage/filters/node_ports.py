"""NodePorts: host ports are held by one pod of a node at a time."""

import numpy as np

from tonnage.filters.causes import Cause
from tonnage.filters.framework import SKIP, Ask, Begun, Code, Outcome, Screen, always


class NodePorts:
    name = "NodePorts"
    cures = ("Node.add", "Pod.delete")

    def begin(self, ask: Ask) -> Outcome:
        wanted = ask.pods.ports
        if not wanted:
            return SKIP

        def screen() -> Screen:
            passes = np.ones(ask.size, dtype=np.bool_)
            passes[list(ask.snapshot.host_ports.conflicts(wanted))] = False
            ports = ",".join(f"{port.protocol}/{port.port}" for port in wanted)
            return Screen.passing(
                passes, Code.UNSCHEDULABLE, always(Cause.HOST_PORT_TAKEN, ports=ports)
            )

        return Begun(screen)
