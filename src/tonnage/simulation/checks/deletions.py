"""No node deleted that is as it should be.

One may go that has lacked a driver for as long as it has to register it; not one whose driver is
only gone for a while.
"""

from collections.abc import Sequence

from tonnage.embedded.apiserver.store import Occurrence
from tonnage.simulation.checks.context import CheckContext

HEALTHY = "a healthy node was deleted"
NOT_HEARD = "deleted before the autoscaler could hear of the latest changes"

_SECOND = 1.0
"""Of a node's creation the API tells the second, no more."""


class DeletionCheck:
    """Is told of every request before it is made, and of what happens to nodes and drivers."""

    def __init__(self, context: CheckContext, *, patience: float) -> None:
        """`patience` is how long a node may lack a driver."""
        self._context = context
        self._accounts = context.accounts
        self._patience = patience
        self._lacking: dict[str, float] = {}
        """Since when nodes lack a driver."""

    def changed(self, kind: str, occurrence: Occurrence) -> None:
        if kind not in ("nodes", "csinodes"):
            return
        name = occurrence.subject.name
        node = self._accounts.nodes.get(name)
        if node is None or node.expected <= self._accounts.slots.limits.get(name, {}).keys():
            self._lacking.pop(name, None)
        else:
            self._lacking.setdefault(name, self._accounts.now)

    def check(self, group: str, nodes: Sequence[str]) -> None:
        """Just before nodes of a group are deleted."""
        now = self._accounts.now
        for name in nodes:
            node = self._accounts.nodes.get(name)
            lacking = now - self._lacking.get(name, now)
            if node is None or not node.ready or lacking >= self._patience - _SECOND:
                continue
            what = f"{name} of {group}, which has lacked a driver for {lacking:.0f} s"
            self._context.breach(HEALTHY, what, not_heard=NOT_HEARD)
