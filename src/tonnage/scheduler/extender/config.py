"""What the operator may set while the extender runs: one file, every field with a default."""

from typing import Literal

import msgspec

from tonnage.errors import InputError
from tonnage.objects.meta import Record
from tonnage.objects.scenarios import API_VERSION, SlotPool
from tonnage.rules import features

KIND = "ExtenderConfig"


class ExtenderConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times are in seconds, or Go durations such as 1m30s.

    `unknown_limits`: what to do with a node that does not list a driver that has not opted in.
    `allow` and `warn` let pods through, `hold` keeps them off for `registration_window` after the
    node was made, then does as `warn`.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    unknown_limits: Literal["allow", "warn", "hold"] = "warn"
    registration_window: float = 300.0
    reservation_time: float = 30.0
    """How long slots are kept for a pod that was let through and is seen nowhere."""
    settle_wait: float = 0.5
    """How long an answer waits for what the scheduler knows already; it schedules nothing else
    meanwhile, and its httpTimeout has to be longer."""
    startup_grace: float = 2.0
    """Pods let through by the process before this one are on their nodes by then."""
    returning_volume_once: bool = True
    legacy_attach_limits: bool = False
    kube_max_pd_vols: int | None = None
    kubernetes_version: str = ""
    feature_gates: dict[str, bool] = {}
    pools: tuple[SlotPool, ...] = ()
    """Slots that several drivers share, as in the autoscaler's configuration."""
    provisioning_requests: bool = False
    """Whether room that ProvisioningRequests have booked is left to the pods that take it."""
    cache_check_interval: float = 3600.0

    def __post_init__(self) -> None:
        if (self.api_version, self.kind) != (API_VERSION, KIND):
            raise InputError(
                f"apiVersion {self.api_version}, kind {self.kind}: expected {API_VERSION}, {KIND}"
            )
        for field in msgspec.structs.fields(type(self)):
            value = getattr(self, field.name)
            if field.type is float and value < 0:
                raise InputError(f"`{field.encode_name}`: {value:g}: expected 0 or more")
        features.check_gates(self.feature_gates, field="featureGates")
        if self.settle_wait > self.reservation_time:
            raise InputError(
                f"`settleWait`: {self.settle_wait:g}: expected no more than reservationTime,"
                f" which is {self.reservation_time:g}"
            )

    @property
    def remarks(self) -> tuple[str, ...]:
        """What can be used, and does nothing."""
        told = features.without_effect(self.feature_gates)
        return (f"featureGates: {told}",) if told else ()
