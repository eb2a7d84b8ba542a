"""The external-provisioner's part: a volume for each claim that waits for one.

Binding the two is the PV controller's business.
"""

from bisect import insort
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import partial

from tonnage.cluster import errors
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.event_writer import EventWriter
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.local_capacity import LocalCapacity
from tonnage.objects import quantities
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.objects.storage import (
    SELECTED_NODE_ANNOTATION,
    CSINode,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeNodeAffinity,
    VolumeSpec,
)
from tonnage.objects.volume_sources import CSISource

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"

_IN_TREE = "kubernetes.io/"
_SMALLEST = "1Gi"
"""What a claim gets that does not say how much it wants."""
_LOOK_AGAIN = 1.0
"""Seconds between looks for a driver that is not registered where the volume should be."""


class ExternalProvisioner:
    """One volume per claim, reachable from where its pod was meant to run."""

    def __init__(
        self,
        context: WorldContext,
        caches: WorldCaches,
        *,
        space: LocalCapacity,
        event_writer: EventWriter,
    ) -> None:
        self._client, self._clock, self._behaviour, self._chance, self._chores = context
        self._nodes = caches.nodes
        self._csi_nodes = caches.csi_nodes
        self._claims = caches.claims
        self._volumes = caches.volumes
        self._classes = caches.classes
        self._space = space
        self._event_writer = event_writer
        self._drivers_on: dict[str, tuple[str, ...]] = {}
        self._registered: defaultdict[str, list[str]] = defaultdict(list)
        """Nodes by the drivers on them, in the order of their names."""
        caches.csi_nodes.subscribe(self._csi_node_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.classes.subscribe(self._class_changed)

    def _csi_node_changed(self, change: Change[CSINode]) -> None:
        node = change.object.metadata.name
        gone = change.type is EventType.DELETED
        drivers = () if gone else tuple(one.name for one in change.object.spec.drivers)
        before = self._drivers_on.pop(node, ())
        self._drivers_on[node] = drivers
        for driver in before:
            if driver not in drivers:
                self._registered[driver].remove(node)
        for driver in drivers:
            if driver not in before:
                insort(self._registered[driver], node)

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        claim = change.object
        if change.type is not EventType.DELETED:
            self._consider(claim)
            return
        self._chores.stop(("provision", claim.metadata.uid))
        volume = self._volumes.get(_volume_name(claim))
        if volume is not None and PROVISIONED_BY in volume.metadata.annotations:
            name = volume.metadata.name
            self._chores.start(
                ("volume gone", name), partial(self._client.delete, PersistentVolume, name)
            )

    def _class_changed(self, change: Change[StorageClass]) -> None:
        if change.type is EventType.ADDED:
            for claim in self._claims:
                self._consider(claim)

    def _consider(self, claim: PersistentVolumeClaim) -> None:
        if self._class_to_serve(claim) is not None:
            meta = claim.metadata
            work = partial(self._provision, meta.namespace, meta.name, uid=meta.uid)
            self._chores.start(("provision", meta.uid), work)

    def _class_to_serve(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        """The claim's class, if it is for us to make a volume now."""
        if claim.spec.volume_name or claim.metadata.deletion_timestamp is not None:
            return None
        found = self._classes.get(claim.class_name)
        if found is None or found.provisioner.startswith(_IN_TREE):
            return None
        if not any(
            fnmatchcase(found.provisioner, driver) for driver in self._behaviour.storage_drivers
        ):
            return None
        delayed = found.volume_binding_mode == "WaitForFirstConsumer"
        if delayed and not claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION):
            return None
        return found

    async def _provision(self, namespace: str, name: str, *, uid: str) -> None:
        wait = self._chance.seconds(self._behaviour.provision, "provision", namespace, name)
        while True:
            await self._clock.sleep(wait)
            wait = _LOOK_AGAIN
            claim = self._claims.get(name, namespace=namespace)
            if claim is None or claim.metadata.uid != uid:
                return
            storage_class = self._class_to_serve(claim)
            if storage_class is None:
                return
            driver = storage_class.provisioner
            place = self._place(claim, driver)
            if place is not None and self._space.has_room(driver, place, _size(claim)):
                break
            self._event_writer.provisioning_failed(claim, self._problem(claim, driver, place))
            is_sent = SELECTED_NODE_ANNOTATION in claim.metadata.annotations
            if self._is_sent_nowhere(claim) or (is_sent and place is not None):
                await self._send_back(claim)
                return
        volume = _volume(claim, driver=driver, terms=_terms(place))
        self._space.take(driver, place, volume=volume.metadata.name, size=_size(claim))
        try:
            await self._client.create(PersistentVolume, volume)
        except errors.Conflict as error:
            if not error.already_exists:
                raise

    async def _send_back(self, claim: PersistentVolumeClaim) -> None:
        """The node that was chosen has no room, or is gone: the scheduler is to choose another."""
        meta = claim.metadata
        change = {"metadata": {"uid": meta.uid, "annotations": {SELECTED_NODE_ANNOTATION: None}}}
        await self._client.patch(PersistentVolumeClaim, meta.name, change, namespace=meta.namespace)

    def _problem(
        self, claim: PersistentVolumeClaim, driver: str, place: dict[str, str] | None
    ) -> str:
        """Why no volume is made for the claim now, for people."""
        chosen = claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION, "")
        wanted = claim.spec.resources.requests.get("storage", _SMALLEST)
        if self._is_sent_nowhere(claim):
            return f"node {chosen}, which was chosen for the claim, is gone"
        if place is not None:
            return f"driver {driver} has no {wanted} left on node {chosen}"
        if chosen:
            return f"driver {driver} is not registered on node {chosen}"
        if self._registered[driver]:
            return f"driver {driver} has no {wanted} left on any node"
        return f"driver {driver} is not registered on any node"

    def _is_sent_nowhere(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the node that was chosen is gone."""
        chosen = claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION, "")
        return bool(chosen) and self._nodes.get(chosen) is None

    def _place(self, claim: PersistentVolumeClaim, driver: str) -> dict[str, str] | None:
        """The topology the volume is made in, `None` while the driver is not where it should be."""
        meta = claim.metadata
        name = meta.annotations.get(SELECTED_NODE_ANNOTATION, "")
        if not name:
            everywhere = self._registered[driver]
            if self._space.is_limited(driver):
                everywhere = [one for one in everywhere if self._fits(claim, driver, node=one)]
            if not everywhere:
                return None
            name = self._chance.dice("place", meta.namespace, meta.name).choice(everywhere)
        return self._topology(name, driver=driver)

    def _fits(self, claim: PersistentVolumeClaim, driver: str, *, node: str) -> bool:
        place = self._topology(node, driver=driver)
        return place is not None and self._space.has_room(driver, place, _size(claim))

    def _topology(self, node: str, *, driver: str) -> dict[str, str] | None:
        registered, found = self._csi_nodes.get(node), self._nodes.get(node)
        if registered is None or found is None:
            return None
        entry = next((one for one in registered.spec.drivers if one.name == driver), None)
        if entry is None:
            return None
        labels = found.metadata.labels
        return {key: labels[key] for key in entry.topology_keys if key in labels}


def _size(claim: PersistentVolumeClaim) -> int:
    return quantities.value(claim.spec.resources.requests.get("storage", _SMALLEST))


def _volume_name(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid}"


def _terms(place: dict[str, str]) -> tuple[NodeSelectorRequirement, ...]:
    return tuple(
        NodeSelectorRequirement(key=key, operator="In", values=(place[key],))
        for key in sorted(place)
    )


def _volume(
    claim: PersistentVolumeClaim, *, driver: str, terms: tuple[NodeSelectorRequirement, ...]
) -> PersistentVolume:
    meta, spec = claim.metadata, claim.spec
    reachable = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=terms),))
    return PersistentVolume(
        metadata=ObjectMeta(name=_volume_name(claim), annotations={PROVISIONED_BY: driver}),
        spec=VolumeSpec(
            capacity={"storage": spec.resources.requests.get("storage", _SMALLEST)},
            access_modes=spec.access_modes or ("ReadWriteOnce",),
            claim_ref=ObjectReference(
                kind="PersistentVolumeClaim",
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
            ),
            storage_class_name=claim.class_name,
            volume_mode=spec.volume_mode,
            csi=CSISource(driver=driver, volume_handle=f"vol-{meta.uid}"),
            node_affinity=VolumeNodeAffinity(required=reachable) if terms else None,
        ),
    )
