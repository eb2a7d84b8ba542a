"""The kinds of object Tonnage reads: their names on the wire and their types here.

Everything that has to know "which kinds are there" (files, the API client, the
embedded cluster) asks this registry, so a new kind is one new row.
"""

from typing import TypeAlias

import msgspec

from tonnage.objects import (
    buffers,
    evictions,
    gangs,
    nodes,
    pods,
    provisioning_requests,
    quotas,
    scenarios,
    storage,
    workloads,
)
from tonnage.objects.meta import OwnerReference

KubeObject: TypeAlias = (
    nodes.Node
    | nodes.Namespace
    | pods.Pod
    | storage.PersistentVolume
    | storage.PersistentVolumeClaim
    | storage.StorageClass
    | storage.CSINode
    | storage.CSIDriver
    | storage.CSIStorageCapacity
    | storage.VolumeAttachment
    | workloads.Service
    | workloads.Deployment
    | workloads.ReplicaSet
    | workloads.ReplicationController
    | workloads.StatefulSet
    | workloads.DaemonSet
    | workloads.Job
    | workloads.CronJob
    | workloads.PodDisruptionBudget
    | workloads.PriorityClass
    | workloads.Lease
    | buffers.CapacityBuffer
    | buffers.PodTemplate
    | evictions.EvictionRequest
    | gangs.WorkloadPodGroup
    | gangs.CoschedulingPodGroup
    | provisioning_requests.ProvisioningRequest
    | quotas.ResourceQuota
    | scenarios.NodeGroup
    | scenarios.Scenario
)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the registry. The core group is the empty string.

    A server may lack a kind that is `optional`: it comes with a definition, or behind a gate.
    """

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool
    type: type[KubeObject]
    optional: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def by_kind(api_version: str, kind: str) -> Kind | None:
    """The row for `apiVersion` and `kind` as a manifest has them, `None` if we do not read it."""
    return _BY_NAME.get((api_version, kind))


def of(obj: KubeObject) -> Kind:
    """The row an object belongs to."""
    return _BY_TYPE[type(obj)]


def by_type(type_: type[KubeObject]) -> Kind:
    """The row of a type."""
    return _BY_TYPE[type_]


def owner_reference(obj: KubeObject, *, uid: str = "") -> OwnerReference:
    """As objects have it that this one controls."""
    row, meta = of(obj), obj.metadata
    return OwnerReference(
        api_version=row.api_version,
        kind=row.kind,
        name=meta.name,
        uid=uid or meta.uid,
        controller=True,
    )


def _row(
    api_version: str,
    plural: str,
    type_: type[KubeObject],
    *,
    namespaced: bool,
    optional: bool = False,
    kind: str = "",
) -> Kind:
    group, _, version = api_version.rpartition("/")
    return Kind(
        kind=kind or type_.__name__,
        group=group,
        version=version,
        plural=plural,
        namespaced=namespaced,
        type=type_,
        optional=optional,
    )


ALL: tuple[Kind, ...] = (
    _row("v1", "nodes", nodes.Node, namespaced=False),
    _row("v1", "namespaces", nodes.Namespace, namespaced=False),
    _row("v1", "pods", pods.Pod, namespaced=True),
    _row("v1", "podtemplates", buffers.PodTemplate, namespaced=True),
    _row("v1", "persistentvolumes", storage.PersistentVolume, namespaced=False),
    _row("v1", "persistentvolumeclaims", storage.PersistentVolumeClaim, namespaced=True),
    _row("v1", "services", workloads.Service, namespaced=True),
    _row("v1", "resourcequotas", quotas.ResourceQuota, namespaced=True),
    _row("v1", "replicationcontrollers", workloads.ReplicationController, namespaced=True),
    _row("apps/v1", "deployments", workloads.Deployment, namespaced=True),
    _row("apps/v1", "replicasets", workloads.ReplicaSet, namespaced=True),
    _row("apps/v1", "statefulsets", workloads.StatefulSet, namespaced=True),
    _row("apps/v1", "daemonsets", workloads.DaemonSet, namespaced=True),
    _row("batch/v1", "jobs", workloads.Job, namespaced=True),
    _row("batch/v1", "cronjobs", workloads.CronJob, namespaced=True),
    _row("policy/v1", "poddisruptionbudgets", workloads.PodDisruptionBudget, namespaced=True),
    _row("scheduling.k8s.io/v1", "priorityclasses", workloads.PriorityClass, namespaced=False),
    _row("coordination.k8s.io/v1", "leases", workloads.Lease, namespaced=True),
    _row("storage.k8s.io/v1", "storageclasses", storage.StorageClass, namespaced=False),
    _row("storage.k8s.io/v1", "csinodes", storage.CSINode, namespaced=False),
    _row("storage.k8s.io/v1", "csidrivers", storage.CSIDriver, namespaced=False),
    _row("storage.k8s.io/v1", "csistoragecapacities", storage.CSIStorageCapacity, namespaced=True),
    _row("storage.k8s.io/v1", "volumeattachments", storage.VolumeAttachment, namespaced=False),
    _row(
        "autoscaling.x-k8s.io/v1beta1",
        "capacitybuffers",
        buffers.CapacityBuffer,
        namespaced=True,
        optional=True,
    ),
    _row(
        "autoscaling.x-k8s.io/v1",
        "provisioningrequests",
        provisioning_requests.ProvisioningRequest,
        namespaced=True,
        optional=True,
    ),
    _row(
        "scheduling.k8s.io/v1beta1",
        "podgroups",
        gangs.WorkloadPodGroup,
        namespaced=True,
        optional=True,
        kind="PodGroup",
    ),
    _row(
        "scheduling.x-k8s.io/v1alpha1",
        "podgroups",
        gangs.CoschedulingPodGroup,
        namespaced=True,
        optional=True,
        kind="PodGroup",
    ),
    _row(
        "lifecycle.k8s.io/v1alpha1",
        "evictionrequests",
        evictions.EvictionRequest,
        namespaced=True,
        optional=True,
    ),
    _row(scenarios.API_VERSION, "nodegroups", scenarios.NodeGroup, namespaced=False),
    _row(scenarios.API_VERSION, "scenarios", scenarios.Scenario, namespaced=False),
)

_BY_NAME = {(row.api_version, row.kind): row for row in ALL}
_BY_TYPE: dict[type, Kind] = {row.type: row for row in ALL}
