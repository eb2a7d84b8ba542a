"""Slots that are kept free are those of nodes on which their driver is registered.

A pod may go where a driver is missing that has not opted in, and where nobody told of a limit; but
slots there are no use to anybody. It holds for the chunks of `headroom` alone.
"""

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

DRIVER_ANNOTATION = "tonnage.dev/headroom-driver"
"""On a chunk, the driver whose slot it stands for."""


class KeptSlots(Rule):
    """Asked beside the other rules while room is looked for."""

    name = "KeptSlots"
    cures = (EventKind.NODE_ADDED, EventKind.CSI_NODE_ADDED, EventKind.CSI_NODE_UPDATED)

    def pre_filter(self, ask: Ask) -> Outcome:
        driver = ask.pod.meta.annotations.get(DRIVER_ANNOTATION)
        return SKIP if driver is None else PreFilter(lambda: _results(ask, driver))


def _results(ask: Ask, driver: str) -> NodeResults:
    listed = ask.snapshot.slots.driver(driver).listed.data[: ask.size]
    return NodeResults.passing(
        listed,
        Code.UNRESOLVABLE,
        always(Cause.CSI_DRIVER_MISSING, driver=driver),
    )


KEPT_SLOTS = KeptSlots()
