"""Room that is asked for before its pods exist: ProvisioningRequest."""

from tonnage.objects.buffers import PodTemplateReference
from tonnage.objects.meta import Condition, ObjectMeta, ObjectRecord, Record

CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
ATOMIC_SCALE_UP = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

CONSUME_ANNOTATION = "autoscaling.x-k8s.io/consume-provisioning-request"
"""On a pod: the request whose room it takes."""
OLD_CONSUME_ANNOTATION = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"


class PodSet(Record, frozen=True, kw_only=True):
    pod_template_ref: PodTemplateReference = PodTemplateReference()
    count: int = 0


class ProvisioningRequestSpec(Record, frozen=True, kw_only=True):
    pod_sets: tuple[PodSet, ...] = ()
    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}


class ProvisioningRequestStatus(Record, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    provisioning_class_details: dict[str, str] = {}


class ProvisioningRequest(ObjectRecord, frozen=True, kw_only=True):
    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()


def consumed_by(meta: ObjectMeta) -> str:
    """The name of the request whose room a pod takes; empty if it takes none."""
    annotations = meta.annotations
    return annotations.get(CONSUME_ANNOTATION) or annotations.get(OLD_CONSUME_ANNOTATION, "")
