"""ProvisioningRequests whose room is booked, and the pods that take it."""

from collections.abc import Sequence

import msgspec

from tonnage.groups.provisioning_requests import PROVISIONED
from tonnage.objects.buffers import PodTemplate, PodTemplateReference
from tonnage.objects.meta import Condition, ObjectMeta
from tonnage.objects.pods import Pod, PodTemplateSpec
from tonnage.objects.provisioning_requests import (
    ATOMIC_SCALE_UP,
    CONSUME_ANNOTATION,
    PodSet,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
)
from tonnage.objects.timestamps import rfc3339
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock


def template(
    cpu: str | None = None, *, memory: str | None = None, claims: Sequence[str] = ()
) -> PodTemplate:
    """What a worker is like; claims that it names are patterns."""
    pod = builders.pod("worker", cpu=cpu, memory=memory, pvcs=claims)
    return PodTemplate(
        metadata=ObjectMeta(name="worker", namespace="default"),
        template=PodTemplateSpec(spec=pod.spec),
    )


def booked(
    clock: VirtualClock, count: int, *, name: str = "job", ago: float = 0.0, status: str = "True"
) -> ProvisioningRequest:
    """A request for so many workers that was provisioned so long ago."""
    since = rfc3339(clock.now().timestamp() - ago)
    condition = Condition(type=PROVISIONED, status=status, last_transition_time=since)
    pods = PodSet(pod_template_ref=PodTemplateReference(name="worker"), count=count)
    return ProvisioningRequest(
        metadata=ObjectMeta(name=name, namespace="default", creation_timestamp=since),
        spec=ProvisioningRequestSpec(pod_sets=(pods,), provisioning_class_name=ATOMIC_SCALE_UP),
        status=ProvisioningRequestStatus(conditions=(condition,)),
    )


def taking(pod: Pod, name: str = "job") -> Pod:
    """The pod as one that takes its part of the request's room."""
    meta = msgspec.structs.replace(pod.metadata, annotations={CONSUME_ANNOTATION: name})
    return msgspec.structs.replace(pod, metadata=meta)
