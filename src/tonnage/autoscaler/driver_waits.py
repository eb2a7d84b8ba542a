"""How long nodes wait for their CSI drivers, from the first look that missed one to the last."""

from typing import NamedTuple

from tonnage.groups.readiness import READY, Readiness


class Wait(NamedTuple):
    """A node that has got the last driver it lacked."""

    node: str
    group: str
    seconds: float


class DriverWaits:
    """Knows since when each node lacks a driver; one that leaves without it has no wait."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def over(self, readiness: Readiness, *, now: float) -> list[Wait]:
        """The waits that have ended since the look before."""
        ended = [
            Wait(name, node.group or "", now - since)
            for name, since in self._since.items()
            if (node := readiness.nodes.get(name)) is not None and node.state == READY
        ]
        # A node that is not Ready for a while meanwhile waits on.
        over = {one.node for one in ended}
        still = {
            name: since
            for name, since in self._since.items()
            if name in readiness.nodes and name not in over
        }
        lacking = {name: now for name, one in readiness.nodes.items() if one.missing_drivers}
        self._since = {**lacking, **still}
        return ended

    def longest(self, *, now: float) -> float:
        """Seconds for which the most patient node has waited so far."""
        return max((now - since for since in self._since.values()), default=0.0)
