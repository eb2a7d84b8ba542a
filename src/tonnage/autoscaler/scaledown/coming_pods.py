"""Pods that are to come in the place of those that leave: what is known of them before they do."""

from typing import NamedTuple

import msgspec

from tonnage.objects.pods import Pod
from tonnage.snapshot.reservations import Reservation, Source
from tonnage.snapshot.snapshot import Snapshot

_SUCCESSOR = ":next"
"""What the pod to come is known by until it has a name of its own; no pod is called so."""


class ComingPod(NamedTuple):
    """A pod that is to come to a node in the place of one that leaves."""

    pod: Pod
    node: str
    since: float

    def reservation(self, snapshot: Snapshot) -> Reservation:
        """Its place, which others have to leave to it."""
        record = snapshot.record_of(self.pod)
        uid = self.pod.metadata.uid
        return Reservation(
            record.key, Source.MOVING, self.since, node=self.node, uid=uid, pod=record
        )


def successor(pod: Pod) -> Pod:
    """The pod that comes in the stead of another, as far as that is known."""
    replace = msgspec.structs.replace
    meta = replace(
        pod.metadata,
        name=f"{pod.metadata.name}{_SUCCESSOR}",
        uid=f"{pod.metadata.uid}{_SUCCESSOR}",
        deletion_timestamp=None,
    )
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=""))
