"""Controllers of pods and the policies around them."""

from tonnage.objects.meta import Condition, LabelSelector, ObjectRecord, Record
from tonnage.objects.pods import PodTemplateSpec
from tonnage.objects.storage import PersistentVolumeClaim


class ServiceSpec(Record, frozen=True, kw_only=True):
    selector: dict[str, str] = {}


class Service(ObjectRecord, frozen=True, kw_only=True):
    spec: ServiceSpec = ServiceSpec()


class ReplicaStatus(Record, frozen=True, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0


class ReplicaSetSpec(Record, frozen=True, kw_only=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(ObjectRecord, frozen=True, kw_only=True):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaStatus = ReplicaStatus()


class DeploymentStrategy(Record, frozen=True, kw_only=True):
    type: str = ""


class DeploymentSpec(ReplicaSetSpec, frozen=True, kw_only=True):
    strategy: DeploymentStrategy = DeploymentStrategy()


class Deployment(ObjectRecord, frozen=True, kw_only=True):
    spec: DeploymentSpec = DeploymentSpec()
    status: ReplicaStatus = ReplicaStatus()


class ReplicationControllerSpec(Record, frozen=True, kw_only=True):
    replicas: int | None = None
    selector: dict[str, str] = {}
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicationController(ObjectRecord, frozen=True, kw_only=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaStatus = ReplicaStatus()


class StatefulSetOrdinals(Record, frozen=True, kw_only=True):
    start: int = 0


class StatefulSetSpec(ReplicaSetSpec, frozen=True, kw_only=True):
    service_name: str = ""
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()
    ordinals: StatefulSetOrdinals | None = None
    pod_management_policy: str = ""


class StatefulSet(ObjectRecord, frozen=True, kw_only=True):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: ReplicaStatus = ReplicaStatus()


class DaemonSetSpec(Record, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSet(ObjectRecord, frozen=True, kw_only=True):
    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(Record, frozen=True, kw_only=True):
    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Record, frozen=True, kw_only=True):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[Condition, ...] = ()


class Job(ObjectRecord, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(ObjectRecord, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()


class CronJobSpec(Record, frozen=True, kw_only=True):
    suspend: bool = False
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(ObjectRecord, frozen=True, kw_only=True):
    spec: CronJobSpec = CronJobSpec()


class DisruptionBudgetSpec(Record, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class DisruptionBudgetStatus(Record, frozen=True, kw_only=True):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(ObjectRecord, frozen=True, kw_only=True):
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


class PriorityClass(ObjectRecord, frozen=True, kw_only=True):
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class LeaseSpec(Record, frozen=True, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(ObjectRecord, frozen=True, kw_only=True):
    spec: LeaseSpec = LeaseSpec()
