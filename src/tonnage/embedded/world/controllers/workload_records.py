"""Workloads as their controllers read them: with the whole template, which becomes pods.

The records of `objects` hold what decisions read; a pod made from those would lack the rest.
"""

from typing import Any, TypeAlias

from tonnage.cluster.resources import Resource
from tonnage.objects.meta import LabelSelector, ObjectRecord, Record

Tree: TypeAlias = dict[str, Any]


class WholePodTemplate(ObjectRecord, frozen=True, kw_only=True):
    spec: Tree = {}


class NewPod(ObjectRecord, frozen=True, kw_only=True):
    spec: Tree = {}


class NewClaim(ObjectRecord, frozen=True, kw_only=True):
    spec: Tree = {}


class ReplicaSetObjectSpec(Record, frozen=True, kw_only=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: WholePodTemplate = WholePodTemplate()


class ReplicaSetObject(ObjectRecord, frozen=True, kw_only=True):
    spec: ReplicaSetObjectSpec = ReplicaSetObjectSpec()
    status: Tree = {}


class RollingUpdate(Record, frozen=True, kw_only=True):
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"
    partition: int = 0


class Strategy(Record, frozen=True, kw_only=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentObjectSpec(ReplicaSetObjectSpec, frozen=True, kw_only=True):
    strategy: Strategy = Strategy()


class DeploymentObject(ObjectRecord, frozen=True, kw_only=True):
    spec: DeploymentObjectSpec = DeploymentObjectSpec()
    status: Tree = {}


class Ordinals(Record, frozen=True, kw_only=True):
    start: int = 0


class StatefulSetObjectSpec(ReplicaSetObjectSpec, frozen=True, kw_only=True):
    service_name: str = ""
    volume_claim_templates: tuple[NewClaim, ...] = ()
    pod_management_policy: str = "OrderedReady"
    update_strategy: Strategy = Strategy()
    ordinals: Ordinals = Ordinals()


class StatefulSetObject(ObjectRecord, frozen=True, kw_only=True):
    spec: StatefulSetObjectSpec = StatefulSetObjectSpec()
    status: Tree = {}


class DaemonSetObjectSpec(Record, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    template: WholePodTemplate = WholePodTemplate()


class DaemonSetObject(ObjectRecord, frozen=True, kw_only=True):
    spec: DaemonSetObjectSpec = DaemonSetObjectSpec()
    status: Tree = {}


class JobObjectSpec(Record, frozen=True, kw_only=True):
    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int = 6
    suspend: bool = False
    ttl_seconds_after_finished: int | None = None
    template: WholePodTemplate = WholePodTemplate()


class JobObject(ObjectRecord, frozen=True, kw_only=True):
    spec: JobObjectSpec = JobObjectSpec()
    status: Tree = {}


_APPS = "apps"

REPLICA_SETS = Resource(
    ReplicaSetObject,
    kind="ReplicaSet",
    group=_APPS,
    version="v1",
    plural="replicasets",
    namespaced=True,
)
DEPLOYMENTS = Resource(
    DeploymentObject,
    kind="Deployment",
    group=_APPS,
    version="v1",
    plural="deployments",
    namespaced=True,
)
STATEFUL_SETS = Resource(
    StatefulSetObject,
    kind="StatefulSet",
    group=_APPS,
    version="v1",
    plural="statefulsets",
    namespaced=True,
)
DAEMON_SETS = Resource(
    DaemonSetObject,
    kind="DaemonSet",
    group=_APPS,
    version="v1",
    plural="daemonsets",
    namespaced=True,
)
JOBS = Resource(JobObject, kind="Job", group="batch", version="v1", plural="jobs", namespaced=True)
PODS = Resource(NewPod, kind="Pod", group="", version="v1", plural="pods", namespaced=True)
CLAIMS = Resource(
    NewClaim,
    kind="PersistentVolumeClaim",
    group="",
    version="v1",
    plural="persistentvolumeclaims",
    namespaced=True,
)
