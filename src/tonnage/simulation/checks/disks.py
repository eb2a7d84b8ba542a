"""No node's disk pledged beyond what it has.

A volume on a local disk takes its space from when its claim is sent to a node: from then on it is
to be made there and nowhere else. What is pledged so, and what volumes have taken, is counted from
the API; what a disk has in all, the scenario says.
"""

import math
from collections import defaultdict
from typing import NamedTuple

from tonnage.embedded.apiserver.store import Occurrence, Stored
from tonnage.objects import quantities
from tonnage.simulation.checks.context import CheckContext

SELECTED = "volume.kubernetes.io/selected-node"

PLEDGED_BEYOND = "a disk pledged beyond what it has"


class _Pledge(NamedTuple):
    node: str
    driver: str
    size: int


class DiskCheck:
    """Follows claims from when they are sent to a node until their volumes are there."""

    def __init__(self, context: CheckContext) -> None:
        self._disks = context.accounts.disks
        self._classes = context.store.collections["storage.k8s.io", "v1", "storageclasses"]
        self._findings = context.findings
        self._made: set[str] = set()
        """Claims that have a volume, which the ledger counts."""
        self._pledges: dict[str, _Pledge] = {}
        self._pledged: defaultdict[tuple[str, str], int] = defaultdict(int)

    def changed(self, kind: str, occurrence: Occurrence) -> None:
        if kind == "persistentvolumes":
            claim = occurrence.subject.tree["spec"].get("claimRef") or {}
            self._volume_changed(
                f"{claim.get('namespace', '')}/{claim.get('name', '')}",
                there=occurrence.after is not None,
            )
        elif kind == "persistentvolumeclaims":
            self._claim_changed(occurrence.subject, occurrence.after)

    def left(self, node: str, driver: str) -> float:
        """Bytes of a node's disk that are neither taken nor pledged; a node without a name is new.

        Where the driver's disks have no size, there is room for everything.
        """
        if not self._disks.has_end(driver):
            return math.inf
        return self._disks.left(node, driver) - self._pledged[node, driver]

    def _volume_changed(self, claim: str, *, there: bool) -> None:
        if there:
            self._made.add(claim)
            self._pledge(claim, None)
        else:
            self._made.discard(claim)

    def _claim_changed(self, subject: Stored, after: Stored | None) -> None:
        key = subject.key
        node = after.meta.get("annotations", {}).get(SELECTED, "") if after is not None else ""
        if after is None or not node or key in self._made or after.tree["spec"].get("volumeName"):
            self._pledge(key, None)
            return
        pledge = _Pledge(node, self.driver_of(after), size_of(after))
        if pledge == self._pledges.get(key):
            return
        self._pledge(key, pledge)
        over = -self.left(pledge.node, pledge.driver)
        if over > 0:
            what = f"{key} on {node}, {quantities.render(int(over), binary=True)} too much"
            self._findings.violated(PLEDGED_BEYOND, what)

    def _pledge(self, claim: str, pledge: _Pledge | None) -> None:
        before = self._pledges.pop(claim, None)
        if before is not None:
            self._pledged[before.node, before.driver] -= before.size
        if pledge is not None:
            self._pledges[claim] = pledge
            self._pledged[pledge.node, pledge.driver] += pledge.size

    def driver_of(self, claim: Stored) -> str:
        """Who makes the claim's volume."""
        found = self._classes.get("", claim.tree["spec"].get("storageClassName") or "")
        return str(found.tree.get("provisioner", "")) if found is not None else ""


def size_of(claim: Stored) -> int:
    """Bytes that a claim asks for."""
    requests = (claim.tree["spec"].get("resources") or {}).get("requests") or {}
    return quantities.value(requests.get("storage", 0))
