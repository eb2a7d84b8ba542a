"""Workloads as their controllers read them: with the whole template, which becomes pods.

The records of `objects` hold what decisions read; a pod made from those would lack the rest.
"""

from typing import Any, TypeAlias

from tonnage.cluster.resources import Resource
from tonnage.objects.meta import LabelSelector, ObjectMeta, Record

Tree: TypeAlias = dict[str, Any]


class PodTemplate(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Tree = {}


class NewPod(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Tree = {}


class NewClaim(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Tree = {}


class ReplicaSetSpec(Record, frozen=True, kw_only=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()


class ReplicaSet(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: Tree = {}


class RollingUpdate(Record, frozen=True, kw_only=True):
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"
    partition: int = 0


class Strategy(Record, frozen=True, kw_only=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Record, frozen=True, kw_only=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()
    strategy: Strategy = Strategy()


class Deployment(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: Tree = {}


class Ordinals(Record, frozen=True, kw_only=True):
    start: int = 0


class StatefulSetSpec(Record, frozen=True, kw_only=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    service_name: str = ""
    template: PodTemplate = PodTemplate()
    volume_claim_templates: tuple[NewClaim, ...] = ()
    pod_management_policy: str = "OrderedReady"
    update_strategy: Strategy = Strategy()
    ordinals: Ordinals = Ordinals()


class StatefulSet(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: Tree = {}


class DaemonSetSpec(Record, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()


class DaemonSet(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: Tree = {}


class JobSpec(Record, frozen=True, kw_only=True):
    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int = 6
    suspend: bool = False
    ttl_seconds_after_finished: int | None = None
    template: PodTemplate = PodTemplate()


class Job(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: Tree = {}


_APPS = "apps"

REPLICA_SETS = Resource(
    ReplicaSet, group=_APPS, version="v1", plural="replicasets", namespaced=True
)
DEPLOYMENTS = Resource(Deployment, group=_APPS, version="v1", plural="deployments", namespaced=True)
STATEFUL_SETS = Resource(
    StatefulSet, group=_APPS, version="v1", plural="statefulsets", namespaced=True
)
DAEMON_SETS = Resource(DaemonSet, group=_APPS, version="v1", plural="daemonsets", namespaced=True)
JOBS = Resource(Job, group="batch", version="v1", plural="jobs", namespaced=True)
PODS = Resource(NewPod, kind="Pod", group="", version="v1", plural="pods", namespaced=True)
CLAIMS = Resource(
    NewClaim,
    kind="PersistentVolumeClaim",
    group="",
    version="v1",
    plural="persistentvolumeclaims",
    namespaced=True,
)
