"""Room is promised on nodes that are up, or that come up for the first time.

A pod that waits may wait for a node that was up before and should soon be back; a promise cannot.
It holds for the pods alone that room is asked for before they exist.
"""

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

AVOIDED_ANNOTATION = "tonnage.dev/nodes-in-doubt"
"""On a pod that is only thought of, the names of the nodes on which it is promised nothing."""


class SureNodes(Rule):
    """Asked beside the other rules while room is promised."""

    name = "SureNodes"
    cures = (EventKind.NODE_ADDED, EventKind.CSI_NODE_UPDATED)

    def pre_filter(self, ask: Ask) -> Outcome:
        names = ask.pod.meta.annotations.get(AVOIDED_ANNOTATION)
        return SKIP if names is None else PreFilter(lambda: _results(ask, names.split()))


def _results(ask: Ask, names: list[str]) -> NodeResults:
    nodes = ask.snapshot.nodes
    sure = np.ones(ask.size, dtype=np.bool_)
    sure[[nodes[name].row for name in names if name in nodes]] = False
    return NodeResults.passing(sure, Code.UNRESOLVABLE, always(Cause.NODE_UNSCHEDULABLE))


SURE_NODES = SureNodes()
