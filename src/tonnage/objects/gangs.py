"""Pods that are of use only together: the PodGroups that say so, and the ways pods name them.

Three conventions are read. The server's own PodGroup (`scheduling.k8s.io`), which a pod names in
its spec; that of coscheduling (`scheduling.x-k8s.io`), named by a label; and Kueue's groups of
plain pods, which have no object: a label names the group, an annotation its size.
"""

import re
from typing import TypeAlias

import msgspec

from tonnage.objects.meta import ObjectMeta, ObjectRecord, Record
from tonnage.objects.pods import Pod

SCHEDULING_GROUP = "scheduling.k8s.io"
COSCHEDULING_GROUP = "scheduling.x-k8s.io"
KUEUE_GROUP = "kueue.x-k8s.io"
PROVISIONING_GROUP = "autoscaling.x-k8s.io"
"""Of ProvisioningRequests, whose pods are planned as a gang before they exist."""

COSCHEDULING_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
"""The label of today, and the one before it."""
KUEUE_LABEL = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"

_MOST_PODS = 100_000
_SIZE = r"[0-9]{1,6}"


class GangPolicy(Record, frozen=True, kw_only=True):
    min_count: int = 0


class PodGroupPolicy(Record, frozen=True, kw_only=True):
    gang: GangPolicy | None = None


class WorkloadPodGroupSpec(Record, frozen=True, kw_only=True):
    scheduling_policy: PodGroupPolicy = PodGroupPolicy()


class WorkloadPodGroup(ObjectRecord, frozen=True, kw_only=True):
    """A PodGroup of the server's own API; without a gang its pods go one by one."""

    spec: WorkloadPodGroupSpec = WorkloadPodGroupSpec()


class CoschedulingPodGroupSpec(Record, frozen=True, kw_only=True):
    min_member: int = 0


class CoschedulingPodGroup(ObjectRecord, frozen=True, kw_only=True):
    """A PodGroup of the coscheduling plugin."""

    spec: CoschedulingPodGroupSpec = CoschedulingPodGroupSpec()


AnyPodGroup: TypeAlias = WorkloadPodGroup | CoschedulingPodGroup

_LABELS = frozenset((*COSCHEDULING_LABELS, KUEUE_LABEL))


class GangName(msgspec.Struct, frozen=True):
    """Whose convention it is, and what the gang is called."""

    api_group: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kinds = {KUEUE_GROUP: "pod group", PROVISIONING_GROUP: "ProvisioningRequest"}
        kind = kinds.get(self.api_group, "PodGroup")
        return f"{kind} {self.namespace}/{self.name} ({self.api_group})"


def gang_of(pod: Pod) -> GangName | None:
    """The gang that a pod says it is of."""
    meta, group = pod.metadata, pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return GangName(SCHEDULING_GROUP, meta.namespace, group.pod_group_name)
    labels = meta.labels
    if _LABELS.isdisjoint(labels):
        return None
    for label in COSCHEDULING_LABELS:
        if labels.get(label):
            return GangName(COSCHEDULING_GROUP, meta.namespace, labels[label])
    if labels.get(KUEUE_LABEL):
        return GangName(KUEUE_GROUP, meta.namespace, labels[KUEUE_LABEL])
    return None


def name_of(group: AnyPodGroup) -> GangName:
    api_group = SCHEDULING_GROUP if isinstance(group, WorkloadPodGroup) else COSCHEDULING_GROUP
    return GangName(api_group, group.metadata.namespace, group.metadata.name)


def minimum_of(group: AnyPodGroup) -> int | None:
    """How many pods have to run at once; `None` if they need not."""
    if isinstance(group, CoschedulingPodGroup):
        return group.spec.min_member
    gang = group.spec.scheduling_policy.gang
    return gang.min_count if gang is not None else None


def kueue_total(meta: ObjectMeta) -> int | None:
    """The size that a pod of a Kueue group tells; `None` if that is no number."""
    told = meta.annotations.get(KUEUE_TOTAL_ANNOTATION, "")
    if not re.fullmatch(_SIZE, told):
        return None
    size = int(told)
    return size if 0 < size <= _MOST_PODS else None
