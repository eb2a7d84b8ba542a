"""Room that is asked to be kept ready: CapacityBuffer, and the PodTemplate that it may name."""

from tonnage.objects.meta import Condition, ObjectRecord, Record, ResourceList
from tonnage.objects.pods import PodTemplateSpec

ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
"""The strategy that keeps room on nodes that are there; the API's default."""


class PodTemplateReference(Record, frozen=True, kw_only=True):
    name: str = ""


class ScalableReference(Record, frozen=True, kw_only=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class CapacityBufferSpec(Record, frozen=True, kw_only=True):
    provisioning_strategy: str | None = None
    pod_template_ref: PodTemplateReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: ResourceList | None = None


class CapacityBufferStatus(Record, frozen=True, kw_only=True):
    pod_template_ref: PodTemplateReference | None = None
    pod_template_generation: int | None = None
    replicas: int | None = None
    provisioning_strategy: str | None = None
    conditions: tuple[Condition, ...] = ()


class CapacityBuffer(ObjectRecord, frozen=True, kw_only=True):
    spec: CapacityBufferSpec = CapacityBufferSpec()
    status: CapacityBufferStatus = CapacityBufferStatus()


class PodTemplate(ObjectRecord, frozen=True, kw_only=True):
    template: PodTemplateSpec = PodTemplateSpec()
