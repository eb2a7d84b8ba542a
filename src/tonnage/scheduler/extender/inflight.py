"""What the watch says about pods on their way: seen on a node, gone, or about to be on one.

A scheduler that binds claims at their first use writes the node it chose on the claim, long before
the pod is bound. That narrows a reservation to the node, also for pods that were let through before
this process started. From then on the pod can go nowhere else, so it holds for as long as the
annotation is on an unbound claim.
"""

from collections.abc import Callable

import numpy as np

from tonnage.clock import Clock
from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects import volumes
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import SELECTED_NODE_ANNOTATION, PersistentVolumeClaim
from tonnage.scheduler.extender.node_verdicts import new_on
from tonnage.service.live_cluster import LiveCluster
from tonnage.snapshot.reservations import Reservation, Reservations, Share, Source


class InFlight:
    """Keeps reservations true to what is known of their pods."""

    def __init__(
        self,
        standing: LiveCluster,
        reservations: Reservations,
        *,
        clock: Clock,
        seconds: Callable[[], float],
    ) -> None:
        self._standing = standing
        self._reservations = reservations
        self._clock = clock
        self._seconds = seconds
        self._users: dict[tuple[str, str], set[str]] = {}
        self._claims_of: dict[str, tuple[tuple[str, str], ...]] = {}
        standing.cache(Pod).subscribe(self._take_pod)
        standing.cache(PersistentVolumeClaim).subscribe(self._take_claim)

    def again(self) -> None:
        """Learn once more who is going where: what a claim stands for may not have been known."""
        for namespace, name in list(self._users):
            claim = self._standing.cache(PersistentVolumeClaim).get(name, namespace=namespace)
            if claim is not None:
                self._follow(claim, anew=True)

    def _take_pod(self, change: Change[Pod]) -> None:
        pod = change.object
        key = pod.metadata.key
        gone = change.type is EventType.DELETED or pod.status.phase in FINISHED
        if gone or pod.spec.node_name:
            self._forget(key)
            self._reservations.seen(pod, gone=gone)
        elif pod.spec.volumes and key not in self._claims_of:
            namespace = pod.metadata.namespace
            names = [one.claim for one in volumes.of_pod(pod) if one.claim]
            claims = self._claims_of[key] = tuple((namespace, name) for name in names)
            for claim in claims:
                self._users.setdefault(claim, set()).add(key)
                known = self._standing.cache(PersistentVolumeClaim).get(
                    claim[1], namespace=claim[0]
                )
                if known is not None:
                    self._follow(known)

    def _take_claim(self, change: Change[PersistentVolumeClaim]) -> None:
        if change.type is not EventType.DELETED:
            self._follow(change.object)

    def _follow(self, claim: PersistentVolumeClaim, *, anew: bool = False) -> None:
        meta = claim.metadata
        users = self._users.get((meta.namespace, meta.name))
        if not users:
            return
        node = meta.annotations.get(SELECTED_NODE_ANNOTATION, "")
        heading = bool(node) and not claim.spec.volume_name
        for pod in users:
            held = self._reservations.get(pod)
            if heading and (anew or held is None or held.node != node):
                self._narrow(pod, node)
            elif not heading and held is not None and held.node:
                end = self._clock.monotonic() + self._seconds()
                self._reservations.end_at(pod, Source.SELECTED_NODE, end)

    def _narrow(self, pod: str, name: str) -> None:
        snapshot = self._standing.snapshot
        record, node = snapshot.pods.get(pod), snapshot.nodes.get(name)
        if record is None or node is None:
            return
        slots = volumes.slots(record.meta, record.volumes, snapshot.storage, placed=True)
        row = np.array([node.row], dtype=np.int32)
        shares = [
            Share(driver, row, np.array([count], dtype=np.int16))
            for driver, count in new_on(snapshot, slots, node.row).items()
        ]
        self._reservations.release(pod, Source.LET_THROUGH, Source.SELECTED_NODE)
        self._reservations.hold(
            Reservation(
                pod,
                Source.SELECTED_NODE,
                self._clock.monotonic(),
                node=name,
                shares=tuple(shares),
            )
        )

    def _forget(self, pod: str) -> None:
        for claim in self._claims_of.pop(pod, ()):
            users = self._users[claim]
            users.discard(pod)
            if not users:
                del self._users[claim]
