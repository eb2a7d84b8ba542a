"""NodeName: a pod that names its node goes nowhere else."""

import numpy as np

from tonnage.filters.causes import Cause
from tonnage.filters.framework import SKIP, Ask, Begun, Code, Outcome, Screen, always


class NodeName:
    name = "NodeName"
    cures = ("Node.add",)

    def begin(self, ask: Ask) -> Outcome:
        wanted = ask.pod.node_name
        if not wanted:
            return SKIP
        passes = np.zeros(ask.size, dtype=np.bool_)
        node = ask.snapshot.nodes.get(wanted)
        if node is not None:
            passes[node.row] = True
        return Begun(
            lambda: Screen.passing(
                passes, Code.UNRESOLVABLE, always(Cause.OTHER_NODE_REQUESTED, node=wanted)
            ),
            only={wanted} if ask.features.node_name_first else None,
        )
