"""What every check looks at: the API, the cloud, what was counted of both; how pods are read."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tonnage.clock import Clock
from tonnage.embedded.apiserver.store import ObjectStore, Occurrence, Stored
from tonnage.groups.model import Group
from tonnage.simulation.accounts import Accounts
from tonnage.simulation.checks.findings import Findings
from tonnage.simulation.recorded_cloud import RecordedCloud
from tonnage.snapshot.reservations import Reservation


class CheckContext(NamedTuple):
    """`assumed` are the pods that the scheduler has decided on and not bound yet.

    `behind` says whether the autoscaler has yet to hear of changes.
    """

    accounts: Accounts
    store: ObjectStore
    cloud: RecordedCloud
    groups: Mapping[str, Group]
    clock: Clock
    findings: Findings
    assumed: Callable[[], Mapping[str, Reservation]]
    behind: Callable[[], bool]

    def pod(self, key: str) -> Stored | None:
        return self.store.built_in("pods").get(*key.split("/", 1))

    def opted_in(self, driver: str) -> bool:
        """Whether the driver wants pods kept off nodes it is not registered on."""
        found = self.store.collections["storage.k8s.io", "v1", "csidrivers"].get("", driver)
        spec = found.tree.get("spec", {}) if found is not None else {}
        return bool(spec.get("preventPodSchedulingIfMissing"))

    def breach(self, rule: str, what: str, *, not_heard: str) -> None:
        """A rule was broken, excused as `not_heard` if the autoscaler could not know better."""
        if self.behind():
            self.findings.excuse(not_heard)
        else:
            self.findings.violated(rule, what)


def node_of(pod: Stored | None) -> str:
    """The node that a pod is bound to, if it is."""
    return str(pod.tree["spec"].get("nodeName", "")) if pod is not None else ""


def was_bound(occurrence: Occurrence) -> bool:
    """Whether a pod got its node by this change."""
    return bool(node_of(occurrence.after)) and not node_of(occurrence.before)
