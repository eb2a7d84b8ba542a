"""Carrying out a decision: volumes first, then the pod, each call tried until it is clear.

What the volumes need is written to the server, and the pod is bound once every claim of it is.
"""

import asyncio
from collections.abc import Iterable

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.errors import ClusterError
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    SELECTED_NODE_ANNOTATION,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tonnage.rules import volume_binding
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask
from tonnage.scheduler.placer import PlacedPod
from tonnage.scheduler.scheduler_cache import ClaimKey, SchedulerCache, VolumeChoice, reference_to

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"

_ATTEMPTS = 4
_FIRST_WAIT = 0.25


class BindingFailed(Exception):  # noqa: N818 - it is an outcome more than an error
    """The pod stays without a node for now; the message says why."""


class PodGone(Exception):  # noqa: N818 - the same
    """There is no such pod any more, so there is nothing to bind."""


class Binder:
    """Talks to the server for decided pods, with a bound on the calls under way at once."""

    def __init__(
        self,
        client: Client,
        world: SchedulerCache,
        *,
        clock: Clock,
        parallelism: int,
    ) -> None:
        self._client = client
        self._world = world
        self._clock = clock
        self._calls = asyncio.Semaphore(parallelism)
        self._awaited: dict[ClaimKey, set[asyncio.Event]] = {}

    def volumes_changed(self, claims: Iterable[ClaimKey]) -> None:
        """Let those look again who wait for one of the claims."""
        for key in claims:
            for event in self._awaited.get(key, ()):
                event.set()

    async def bind(self, pod: Pod, placed: PlacedPod, features: Features, *, within: float) -> None:
        """See a decision through; `BindingFailed` or `PodGone` if it cannot be."""
        if placed.volumes.claims:
            await self._bind_volumes(placed, features, within=within)
        await self._bind_pod(pod, placed.node)

    # Volumes

    async def _bind_volumes(self, placed: PlacedPod, features: Features, *, within: float) -> None:
        changed = asyncio.Event()
        keys = [(claim.metadata.namespace, claim.metadata.name) for claim in placed.volumes.claims]
        for key in keys:
            self._awaited.setdefault(key, set()).add(changed)
        try:
            await self._write_volumes(placed.volumes, placed.node)
            selected: set[ClaimKey] = set()
            async with self._clock.timeout(within):
                while not self._all_bound(placed, selected, features):
                    changed.clear()
                    await changed.wait()
        except ClusterError as error:
            raise BindingFailed(f"binding volumes: {error}") from error
        except TimeoutError as error:
            message = f"binding volumes: not all claims were bound within {within:g} s"
            raise BindingFailed(message) from error
        finally:
            for key in keys:
                waiting = self._awaited[key]
                waiting.discard(changed)
                if not waiting:
                    del self._awaited[key]

    async def _write_volumes(self, choice: VolumeChoice, node: str) -> None:
        for volume, claim in choice.prebind:
            reference = volume.spec.claim_ref
            if reference is None or reference.uid != claim.metadata.uid:
                await self._prebind(volume, claim)
        for claim in choice.provision:
            if claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION) != node:
                await self._select_node(claim, node)

    async def _prebind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Set the volume aside for the claim; the volume controller does the rest."""
        known = reference_to(claim)
        change = {
            "metadata": {
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {BOUND_BY_CONTROLLER: "yes"},
            },
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": known.kind,
                    "namespace": known.namespace,
                    "name": known.name,
                    "uid": known.uid,
                    "resourceVersion": claim.metadata.resource_version,
                }
            },
        }
        async with self._calls:
            await self._client.patch(PersistentVolume, volume.metadata.name, change)

    async def _select_node(self, claim: PersistentVolumeClaim, node: str) -> None:
        """Say where the volume of the claim is wanted, to whoever makes it."""
        meta = claim.metadata
        notes = {SELECTED_NODE_ANNOTATION: node}
        change = {"metadata": {"uid": meta.uid, "annotations": notes}}
        async with self._calls:
            await self._client.patch(
                PersistentVolumeClaim, meta.name, change, namespace=meta.namespace
            )

    def _all_bound(self, placed: PlacedPod, selected: set[ClaimKey], features: Features) -> bool:
        """`selected` are the claims that were seen with their node."""
        if not self._world.is_assumed(placed.record):
            raise PodGone(f"pod {placed.record.key}: is gone")
        done = True
        for asked in placed.volumes.claims:
            key = (asked.metadata.namespace, asked.metadata.name)
            claim = self._world.claim(key)
            if claim is None or claim.metadata.uid != asked.metadata.uid:
                raise BindingFailed(f'binding volumes: PVC "{key[0]}/{key[1]}" is gone')
            if claim.fully_bound:
                done &= self._reachable(claim, placed, features)
                continue
            done = False
            # Whoever makes volumes takes the node away again if it cannot make one there.
            if claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION) == placed.node:
                selected.add(key)
            elif key in selected:
                raise BindingFailed(
                    f'binding volumes: provisioning failed for PVC "{claim.metadata.name}"'
                )
        return done

    def _reachable(
        self, claim: PersistentVolumeClaim, placed: PlacedPod, features: Features
    ) -> bool:
        """Whether the volume is known; one that its pod cannot reach is no use."""
        snapshot = self._world.snapshot
        volume = snapshot.storage.volume(claim.spec.volume_name)
        node = snapshot.nodes.get(placed.node)
        if node is None:
            raise BindingFailed(f'binding volumes: node "{placed.node}" is gone')
        if volume is None:
            return False
        ask = Ask(snapshot, placed.record, features)
        if not volume_binding.reachable(ask, volume)[node.row]:
            raise BindingFailed(
                f'binding volumes: pv "{volume.metadata.name}" node affinity doesn\'t match'
                f' node "{placed.node}"'
            )
        return True

    # The pod

    async def _bind_pod(self, pod: Pod, node: str) -> None:
        wait = _FIRST_WAIT
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with self._calls:
                    await self._client.bind(pod, node)
                return
            except errors.NotFound as error:
                raise PodGone(str(error)) from error
            except (errors.ConnectionFailed, errors.ServerError) as error:
                # It may have been carried out all the same.
                if await self._is_bound(pod, node):
                    return
                if attempt == _ATTEMPTS:
                    raise BindingFailed(f"binding rejected: {error}") from error
            except errors.Conflict as error:
                if await self._is_bound(pod, node):
                    return
                raise BindingFailed(f"binding rejected: {error}") from error
            except ClusterError as error:
                raise BindingFailed(f"binding rejected: {error}") from error
            await self._clock.sleep(wait)
            wait *= 2

    async def _is_bound(self, pod: Pod, node: str) -> bool:
        meta = pod.metadata
        try:
            async with self._calls:
                found = await self._client.get(Pod, meta.name, namespace=meta.namespace)
        except errors.NotFound as error:
            raise PodGone(str(error)) from error
        except ClusterError:
            return False
        if found.metadata.uid != meta.uid:
            raise PodGone(f"pod {meta.key}: another has taken its name")
        return found.spec.node_name == node
