"""NodeName: a pod that names its node goes nowhere else."""

import numpy as np

from tonnage.rules.causes import Cause
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Code,
    EventKind,
    NodeResults,
    Outcome,
    PreFilter,
    Rule,
    always,
)


class NodeName(Rule):
    name = "NodeName"
    cures = (EventKind.NODE_ADDED,)

    def pre_filter(self, ask: Ask) -> Outcome:
        wanted = ask.pod.node_name
        if not wanted:
            return SKIP
        passes = np.zeros(ask.size, dtype=np.bool_)
        node = ask.snapshot.nodes.get(wanted)
        if node is not None:
            passes[node.row] = True
        return PreFilter(
            lambda: NodeResults.passing(
                passes, Code.UNRESOLVABLE, always(Cause.OTHER_NODE_REQUESTED, node=wanted)
            ),
            only={wanted} if ask.features.node_name_first else None,
        )
