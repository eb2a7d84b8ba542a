"""No node deleted that is as it should be.

One may go that has lacked a driver for as long as it has to register it; not one whose driver is
only gone for a while.
"""

from collections.abc import Callable, Sequence

from tonnage.embedded.apiserver.store import Occurrence
from tonnage.simulation.accounts import Accounts
from tonnage.simulation.checks.findings import Findings

HEALTHY = "a healthy node was deleted"
NOT_HEARD = "deleted before the autoscaler could hear of the latest changes"

_SECOND = 1.0
"""Of a node's creation the API tells the second, no more."""


class DeletionCheck:
    """Is told of every request before it is made, and of what happens to nodes and drivers."""

    def __init__(
        self,
        accounts: Accounts,
        findings: Findings,
        *,
        patience: float,
        behind: Callable[[], bool],
    ) -> None:
        """`patience` is how long a node may lack a driver.

        `behind` says whether the autoscaler has yet to hear of changes.
        """
        self._accounts = accounts
        self._findings = findings
        self._patience = patience
        self._behind = behind
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
            if self._behind():
                self._findings.excuse(NOT_HEARD)
            else:
                what = f"{name} of {group}, which has lacked a driver for {lacking:.0f} s"
                self._findings.violated(HEALTHY, what)
