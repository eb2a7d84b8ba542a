"""Carrying out what was decided: only while we lead, within a bound of time, never in a dry run."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

from tonnage.autoscaler.provider_state import ProviderReader
from tonnage.autoscaler.report import Deed, Done
from tonnage.cluster.errors import Forbidden
from tonnage.cluster.events import Recorder, Severity
from tonnage.cluster.records import InvolvedObject
from tonnage.cluster.resources import Named
from tonnage.errors import ClusterError, ProviderError

_log = logging.getLogger(__name__)


class EventReason(StrEnum):
    TRIGGERED_SCALE_UP = "TriggeredScaleUp"
    NOT_TRIGGER_SCALE_UP = "NotTriggerScaleUp"
    SCALED_UP_GROUP = "ScaledUpGroup"
    FAILED_TO_SCALE_UP_GROUP = "FailedToScaleUpGroup"
    FAILED_TO_REVERT_SCALE_UP = "FailedToRevertScaleUp"
    SCALE_UP_FAILED = "ScaleUpFailed"
    SCALE_UP_TIMED_OUT = "ScaleUpTimedOut"
    MAX_NODES_TOTAL_REACHED = "MaxNodesTotalReached"
    SET_APART = "SetApart"
    BAD_CAPACITY_BUFFER = "BadCapacityBuffer"
    PROVISIONING_REQUEST = "ProvisioningRequest"
    WAITS_FOR_FREED_ROOM = "WaitsForFreedRoom"
    SCALE_DOWN = "ScaleDown"
    EVICTION_REQUESTED = "EvictionRequested"
    SCALE_DOWN_EMPTY = "ScaleDownEmpty"
    SCALE_DOWN_FAILED = "ScaleDownFailed"
    SCALE_DOWN_CANCELLED = "ScaleDownCancelled"
    CONSOLIDATION = "Consolidation"
    CONSOLIDATION_GIVEN_UP = "ConsolidationGivenUp"
    VOLUMES_STILL_ATTACHED = "VolumesStillAttached"
    DELETE_UNREGISTERED = "DeleteUnregistered"
    DELETE_UNREGISTERED_FAILED = "DeleteUnregisteredFailed"
    REPLACE_UNREADY = "ReplaceUnready"
    REPLACE_UNREADY_FAILED = "ReplaceUnreadyFailed"
    NODE_GROUP_PROBLEM = "NodeGroupProblem"
    CLUSTER_UNHEALTHY = "ClusterUnhealthy"
    CSI_DRIVER_NOT_REGISTERED = "CSIDriverNotRegistered"
    CSI_DRIVER_OUTAGE = "CSIDriverOutage"
    CSI_DRIVER_BACK = "CSIDriverBack"
    STARTUP_TAINT_REMOVED = "StartupTaintRemoved"


class NotLeadingError(ClusterError):
    """Somebody else may be leader by now, so nothing may be done any more."""


class Actuator:
    """The only way to the provider's verbs; `done` lists what was asked in this round."""

    def __init__(
        self,
        provider_reader: ProviderReader,
        *,
        leading: Callable[[], bool],
        recorder: Recorder | None,
        dry_run: bool,
    ) -> None:
        self._reader = provider_reader
        self._leading = leading
        self._recorder = recorder
        self.dry_run = dry_run
        self.timeout = 60.0
        self.done: list[Done] = []

    @property
    def refused(self) -> Forbidden | None:
        """The right for want of which events are not written, if so."""
        return self._recorder.refused if self._recorder is not None else None

    async def increase(self, group: str, delta: int, *, reason: str) -> None:
        provider = self._reader.provider
        await self._act("increase", group, delta, reason, lambda: provider.increase(group, delta))

    async def delete(self, group: str, names: Sequence[str], *, reason: str) -> None:
        provider = self._reader.provider
        await self._act(
            "delete", group, len(names), reason, lambda: provider.delete(group, names), names
        )

    async def decrease_target(self, group: str, delta: int, *, reason: str) -> None:
        provider = self._reader.provider
        await self._act(
            "decreaseTarget", group, delta, reason, lambda: provider.decrease_target(group, delta)
        )

    def check(self, what: str) -> None:
        """Refuse to go on unless we lead; looking may act too, where a provider tidies up."""
        if not self.dry_run and not self._leading():
            raise NotLeadingError(f"{what}: no longer leader")

    def tell(
        self,
        about: Named | InvolvedObject,
        reason: EventReason,
        message: str,
        *,
        warning: bool = False,
    ) -> None:
        """An event for users; only the log has it in a dry run."""
        named = about if isinstance(about, InvolvedObject) else about.metadata
        _log.log(
            logging.WARNING if warning else logging.INFO,
            message,
            extra={
                "event": reason,
                "about": "/".join(filter(None, (named.namespace, named.name))),
                "dry_run": self.dry_run,
            },
        )
        if self._recorder is not None and not self.dry_run:
            severity = Severity.WARNING if warning else Severity.NORMAL
            self._recorder.record(about, reason=reason, message=message, severity=severity)

    async def _act(
        self,
        deed: Deed,
        group: str,
        nodes: int,
        reason: str,
        start: Callable[[], Awaitable[None]],
        names: Sequence[str] = (),
    ) -> None:
        fields = {"deed": deed, "group": group, "nodes": nodes, "why": reason}
        error = ""
        try:
            if self.dry_run:
                _log.info("would ask the provider", extra=fields)
                return
            self.check(f"{deed} of group {group}")
            _log.info("asking the provider", extra=fields)
            what = f"{deed} of group {group}"
            await self._reader.within(start(), seconds=self.timeout, what=what)
        except (ProviderError, NotLeadingError) as refused:
            error = str(refused)
            _log.error("provider not asked or not able", extra={**fields, "error": error})
            raise
        finally:
            self.done.append(
                Done(
                    deed=deed,
                    group=group,
                    nodes=nodes,
                    reason=reason,
                    names=tuple(names),
                    error=error,
                    dry_run=self.dry_run,
                )
            )
