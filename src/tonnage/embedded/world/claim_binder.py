"""The volume controllers' part: claims and volumes find each other, ephemeral ones get a claim."""

from functools import partial

from tonnage.cluster import errors
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.objects import volumes as pod_volumes
from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    BIND_COMPLETED_ANNOTATION,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tonnage.snapshot.open_volumes import Form, is_open, size_of, size_wanted

_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_SETTLE = 0.1


class ClaimBinder:
    """Completes bindings that a provisioner or a scheduler began, and begins those it can.

    A claim that waits for its first consumer is left to the scheduler.
    """

    def __init__(self, context: WorldContext, caches: WorldCaches) -> None:
        self._client, self._clock, _, _, self._chores = context
        self._claims = caches.claims
        self._volumes = caches.volumes
        self._classes = caches.classes
        self._meant_for: dict[tuple[str, str], str] = {}
        """Volumes by the claim they name."""
        self._free: dict[str, None] = {}
        """Volumes that name no claim, and are not being given to one."""
        caches.pods.subscribe(self._pod_changed)
        caches.volumes.subscribe(self._volume_changed)
        caches.claims.subscribe(self._claim_changed)

    def _volume_changed(self, change: Change[PersistentVolume]) -> None:
        volume, name = change.object, change.object.metadata.name
        reference = volume.spec.claim_ref
        self._free.pop(name, None)
        if reference is not None:
            key = (reference.namespace, reference.name)
            if change.type is EventType.DELETED:
                self._meant_for.pop(key, None)
                return
            self._meant_for[key] = name
            claim = self._claims.get(reference.name, namespace=reference.namespace)
            if claim is not None:
                self._consider(claim)
        elif change.type is not EventType.DELETED:
            self._free[name] = None
            if volume.status.phase in ("", "Pending"):
                self._say(volume, "Available")
                return
            for claim in self._claims:
                if not claim.spec.volume_name and claim.class_name == volume.class_name:
                    self._consider(claim)

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        claim = change.object
        if change.type is not EventType.DELETED:
            self._consider(claim)
            return
        self._chores.stop(("bind", claim.metadata.uid))
        name = self._meant_for.get((claim.metadata.namespace, claim.metadata.name), "")
        volume = self._volumes.get(name)
        if volume is not None and volume.status.phase == "Bound":
            self._say(volume, "Released")

    def _consider(self, claim: PersistentVolumeClaim) -> None:
        meta = claim.metadata
        if not self._classes.synced:
            # Whether it waits for its first consumer is not known yet.
            self._chores.start(("bind", "all"), self._consider_all)
        elif not _is_settled(claim) and self._volume_for(claim) is not None:
            self._chores.start(("bind", meta.uid), partial(self._bind, meta.namespace, meta.name))

    async def _consider_all(self) -> None:
        await self._classes.wait_synced()
        for claim in self._claims:
            self._consider(claim)

    def _volume_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        meta = claim.metadata
        named = claim.spec.volume_name or self._meant_for.get((meta.namespace, meta.name), "")
        if named:
            volume = self._volumes.get(named)
            reference = volume.spec.claim_ref if volume is not None else None
            theirs = reference is not None and (
                (reference.namespace, reference.name) != (meta.namespace, meta.name)
                or reference.uid not in ("", meta.uid)
            )
            return None if theirs else volume
        storage_class = self._classes.get(claim.class_name)
        if storage_class is not None and storage_class.volume_binding_mode != "Immediate":
            return None
        fitting = [
            volume
            for name in self._free
            if (volume := self._volumes.get(name)) is not None
            and is_open(volume)
            and volume.class_name == claim.class_name
            and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
            and Form.of(volume) == Form.of(claim)
            and size_of(volume) >= size_wanted(claim)
        ]
        return min(fitting, key=lambda one: (size_of(one), one.metadata.name), default=None)

    async def _bind(self, namespace: str, name: str) -> None:
        while (claim := self._claims.get(name, namespace=namespace)) is not None:
            volume = None if _is_settled(claim) else self._volume_for(claim)
            if volume is None:
                return
            # Chosen and taken without waiting in between, so no other claim gets it as well.
            self._free.pop(volume.metadata.name, None)
            try:
                await self._join(claim, volume)
                return
            except errors.Conflict:
                # It is not as it was when it was chosen; the cache hears of it a little later.
                self._put_back(volume)
                await self._clock.sleep(_SETTLE)
            except BaseException:
                self._put_back(volume)
                raise

    def _put_back(self, volume: PersistentVolume) -> None:
        known = self._volumes.get(volume.metadata.name)
        if known is not None and known.spec.claim_ref is None:
            self._free[volume.metadata.name] = None

    async def _join(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        client, meta, name = self._client, claim.metadata, volume.metadata.name
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            reference = {
                "kind": "PersistentVolumeClaim",
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            }
            change = {
                "metadata": {"resourceVersion": volume.metadata.resource_version},
                "spec": {"claimRef": reference},
            }
            await client.patch(PersistentVolume, name, change)
        bound = {"status": {"phase": "Bound"}}
        await client.patch(PersistentVolume, name, bound, subresource="status")
        annotations = {BIND_COMPLETED_ANNOTATION: "yes", _BOUND_BY_CONTROLLER: "yes"}
        chosen = {"metadata": {"annotations": annotations}, "spec": {"volumeName": name}}
        await client.patch(PersistentVolumeClaim, meta.name, chosen, namespace=meta.namespace)
        status = {
            "phase": "Bound",
            "capacity": volume.spec.capacity,
            "accessModes": list(volume.spec.access_modes),
        }
        await client.patch(
            PersistentVolumeClaim,
            meta.name,
            {"status": status},
            namespace=meta.namespace,
            subresource="status",
        )

    def _say(self, volume: PersistentVolume, phase: str) -> None:
        meta = volume.metadata
        self._chores.start(("phase", meta.uid, phase), partial(self._tell, meta.name, phase))

    async def _tell(self, volume: str, phase: str) -> None:
        status = {"status": {"phase": phase}}
        await self._client.patch(PersistentVolume, volume, status, subresource="status")

    # Generic ephemeral volumes

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.object
        if change.type is not EventType.ADDED or pod.metadata.deletion_timestamp is not None:
            return
        for volume in pod_volumes.of_pod(pod):
            if volume.ephemeral:
                make = partial(self._make_claim, pod, volume)
                self._chores.start(("ephemeral", pod.metadata.uid, volume.name), make)

    async def _make_claim(self, pod: Pod, volume: pod_volumes.PodVolume) -> None:
        ephemeral, meta = volume.source.ephemeral, pod.metadata
        template = ephemeral.volume_claim_template if ephemeral is not None else None
        if template is None:
            return
        owner = OwnerReference(
            api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True
        )
        claim = PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=volume.claim,
                namespace=meta.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
                owner_references=(owner,),
            ),
            spec=template.spec,
        )
        try:
            await self._client.create(PersistentVolumeClaim, claim)
        except errors.Conflict as error:
            if not error.already_exists:
                raise


def _is_settled(claim: PersistentVolumeClaim) -> bool:
    """Whether there is nothing to be bound, or no longer."""
    return claim.fully_bound or claim.metadata.deletion_timestamp is not None
