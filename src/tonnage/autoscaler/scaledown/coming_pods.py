"""Pods that are to come in the place of those that leave: what is known of them before they do."""

from typing import NamedTuple

from tonnage.objects.pods import Pod
from tonnage.snapshot.reservations import Reservation, Source
from tonnage.snapshot.snapshot import Snapshot


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
