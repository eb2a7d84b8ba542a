"""What the operator may set while the scheduler runs: one file, every field with a default."""

import msgspec

from tonnage.errors import InputError
from tonnage.objects.meta import Record
from tonnage.objects.scenarios import API_VERSION

KIND = "SchedulerConfig"


class Weights(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much each score, 0 to 100, counts; the first three are kube-scheduler's."""

    least_allocated: float = 1.0
    balanced_allocation: float = 1.0
    topology_spread: float = 2.0
    free_slots: float = 1.0


class SchedulerConfig(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names are kube-scheduler's in camelCase where it has the setting; times are in seconds.

    `batch` is how many waiting pods are looked at in one go, `parallelism` how many calls to the
    API server are under way at once. Without `count_pledged_storage` each claim alone is held
    against what drivers published last, as kube-scheduler does. With `provisioning_requests` room
    that a ProvisioningRequest has booked is left to the pods that take it.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    weights: Weights = Weights()
    pod_initial_backoff: float = 1.0
    pod_max_backoff: float = 10.0
    unschedulable_flush: float = 300.0
    bind_timeout: float = 600.0
    preemption: bool = True
    count_pledged_storage: bool = True
    provisioning_requests: bool = False
    batch: int = 1024
    parallelism: int = 64
    legacy_attach_limits: bool = False
    cache_check_interval: float = 3600.0
    kube_max_pd_vols: int | None = None

    def __post_init__(self) -> None:
        if (self.api_version, self.kind) != (API_VERSION, KIND):
            raise InputError(
                f"apiVersion {self.api_version}, kind {self.kind}: expected {API_VERSION}, {KIND}"
            )
        for owner in (self, self.weights):
            for field in msgspec.structs.fields(type(owner)):
                value = getattr(owner, field.name)
                if field.type is float and value < 0:
                    raise InputError(f"`{field.encode_name}`: {value:g}: expected 0 or more")
                if field.type is int and value < 1:
                    raise InputError(f"`{field.encode_name}`: {value}: expected 1 or more")
        if self.pod_max_backoff < self.pod_initial_backoff:
            raise InputError(
                f"`podMaxBackoff`: {self.pod_max_backoff:g}: expected at least podInitialBackoff,"
                f" which is {self.pod_initial_backoff:g}"
            )
