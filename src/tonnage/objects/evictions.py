"""EvictionRequest (`lifecycle.k8s.io`, alpha in 1.37): whoever knows how is asked to move a pod."""

from tonnage.objects.meta import Condition, ObjectRecord, Record


class EvictionPodReference(Record, frozen=True, kw_only=True):
    name: str = ""
    uid: str = ""


class EvictionTarget(Record, frozen=True, kw_only=True):
    pod: EvictionPodReference | None = None


class EvictionRequestSpec(Record, frozen=True, kw_only=True):
    target: EvictionTarget = EvictionTarget()
    requester: str = ""
    intent: str = ""


class EvictionRequestStatus(Record, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None


class EvictionRequest(ObjectRecord, frozen=True, kw_only=True):
    spec: EvictionRequestSpec = EvictionRequestSpec()
    status: EvictionRequestStatus = EvictionRequestStatus()
