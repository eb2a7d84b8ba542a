"""ProvisioningRequests of the live cluster: read while they are wanted, and told what they get."""

import logging
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from tonnage.autoscaler.actuator import EventReason
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.cluster import errors
from tonnage.errors import ClusterError
from tonnage.groups import provisioning_requests
from tonnage.groups.provisioning_requests import (
    ACCEPTED,
    FAILED,
    PROVISIONED,
    RequestedRoom,
    RequestReading,
)
from tonnage.objects.buffers import PodTemplate
from tonnage.objects.meta import Condition
from tonnage.objects.provisioning_requests import ProvisioningRequest, consumed_by
from tonnage.objects.timestamps import rfc3339
from tonnage.scaleup import requested_room, underway
from tonnage.scaleup.plan import Plan
from tonnage.service.wanted_kinds import WantedKinds

_log = logging.getLogger(__name__)

_FIRST_RETRY, _LATEST_RETRY = 60.0, 600.0
"""Seconds until a request without room is tried again; each time twice as many. Upstream's."""


class _Retry(NamedTuple):
    """When a request is tried again, and how long that was put off."""

    at: float
    seconds: float


class ProvisioningRequests:
    """What requests ask for, as of the last look, and their conditions."""

    def __init__(self, context: AutoscalingContext, kinds: WantedKinds) -> None:
        self._client = context.client
        self._world = context.world
        self._actuator = context.actuator
        self._kinds = kinds
        self._readings: tuple[RequestReading, ...] = ()
        self._retries: dict[str, _Retry] = {}
        """By uid, for requests that had no room when they were last tried."""

    def rooms(self, config: AutoscalerConfig, *, now: float) -> tuple[RequestedRoom, ...]:
        """The room that is asked for or booked now."""
        self._readings = ()
        if not config.provisioning_requests:
            return ()
        requests = list(self._kinds.cache(ProvisioningRequest))
        if requests and self._kinds.cache(PodTemplate).synced:
            find = self._kinds.cache(PodTemplate).get
            self._readings = provisioning_requests.read(
                requests,
                lambda namespace, name: find(name, namespace=namespace),
                self._consumers(now),
                now=now,
            )
        there = {one.request.metadata.uid for one in self._readings}
        self._retries = {uid: one for uid, one in self._retries.items() if uid in there}
        return tuple(
            one.room
            for one in self._readings
            if one.room is not None and (one.room.booked or self._is_due(one.request, now))
        )

    def hold(self, config: AutoscalerConfig) -> str:
        """Why no node may go: it is not known whether room is booked."""
        if not config.provisioning_requests:
            return ""
        cache = self._kinds.cache(ProvisioningRequest)
        if cache.obstacle is None and not cache.synced:
            return "ProvisioningRequest objects are not all known yet"
        if len(cache) and not self._kinds.cache(PodTemplate).synced:
            return "PodTemplate objects are not all known yet"
        return ""

    def problems(self, config: AutoscalerConfig) -> Iterator[str]:
        """What is wrong with requests, for the status."""
        if not config.provisioning_requests:
            return
        for kind in (ProvisioningRequest, PodTemplate):
            found = self._kinds.cache(kind).obstacle
            if found is not None and found.forbidden:
                yield f"ProvisioningRequests: {found.right}"
        for one in self._readings:
            if one.problem:
                yield one.problem

    @property
    def readings(self) -> tuple[RequestReading, ...]:
        """The requests of the last look."""
        return self._readings

    async def tell(self, plan: Plan | None, *, now: float) -> None:
        """Write into the requests what became of them, where that has changed."""
        if self._actuator.dry_run:
            return
        outcomes = {one.gang: one for one in plan.gangs or ()} if plan is not None else {}
        for reading in self._readings:
            wanted = [] if reading.ending is None else [reading.ending]
            room = reading.room
            outcome = outcomes.get(requested_room.title(room)) if room is not None else None
            if room is not None and not room.booked and outcome is not None:
                reason = outcome.reason
                if outcome.helped:
                    self._retries.pop(reading.request.metadata.uid, None)
                else:
                    reason += f"; tried again in {self._put_off(reading.request, now):.0f} s"
                wanted = [_accepted(), _provisioned(room, outcome.helped, reason)]
            if wanted:
                await self._write(reading.request, wanted, now=now)

    def _is_due(self, request: ProvisioningRequest, now: float) -> bool:
        known = self._retries.get(request.metadata.uid)
        return known is None or now >= known.at

    def _put_off(self, request: ProvisioningRequest, now: float) -> float:
        """Leave the request alone for a while; gives the seconds."""
        known = self._retries.get(request.metadata.uid)
        seconds = min(2 * known.seconds, _LATEST_RETRY) if known is not None else _FIRST_RETRY
        self._retries[request.metadata.uid] = _Retry(now + seconds, seconds)
        return seconds

    def _consumers(self, now: float) -> Counter[tuple[str, str]]:
        """How many pods have taken their part of each request's room, or are about to.

        Until then the booking stands for them.
        """
        snapshot = self._world.snapshot
        binding = underway.being_bound(snapshot, self._world.without_node(), now=now)
        bound = {entry.holder for entry in binding}
        return Counter(
            (record.meta.namespace, name)
            for record in snapshot.pods.values()
            if (record.node_name or record.key in bound)
            and record.meta.annotations
            and (name := consumed_by(record.meta))
        )

    async def _write(
        self, request: ProvisioningRequest, wanted: list[Condition], *, now: float
    ) -> None:
        before = {one.type: one for one in request.status.conditions}
        after = dict(before)
        for one in wanted:
            known = before.get(one.type)
            same = known is not None and known.status == one.status
            time = known.last_transition_time if known is not None and same else rfc3339(now)
            after[one.type] = msgspec.structs.replace(one, last_transition_time=time)
        if after == before:
            return
        meta = request.metadata
        change = {"status": {"conditions": [msgspec.to_builtins(one) for one in after.values()]}}
        try:
            await self._client.patch(
                ProvisioningRequest,
                meta.name,
                change,
                namespace=meta.namespace,
                subresource="status",
            )
        except errors.NotFound:
            return
        except ClusterError as error:
            _log.warning(
                "status of request not written", extra={"request": meta.key, "error": str(error)}
            )
            return
        last = wanted[-1]
        if (known := before.get(last.type)) is None or known.status != last.status:
            self._actuator.tell(
                request,
                EventReason.PROVISIONING_REQUEST,
                f"{last.type}={last.status}: {last.message}",
                warning=last.type == FAILED,
            )


def _accepted() -> Condition:
    return Condition(
        type=ACCEPTED, status="True", reason="Accepted", message="room is being looked for"
    )


def _provisioned(room: RequestedRoom, helped: bool, reason: str) -> Condition:
    if not helped:
        return Condition(
            type=PROVISIONED, status="False", reason="CapacityIsNotFound", message=reason
        )
    if room.may_buy:
        return Condition(
            type=PROVISIONED,
            status="True",
            reason="CapacityIsProvisioned",
            message="there is room for all pods on nodes that are there or were asked for",
        )
    return Condition(
        type=PROVISIONED,
        status="True",
        reason="CapacityIsFound",
        message="there is room for all pods",
    )
