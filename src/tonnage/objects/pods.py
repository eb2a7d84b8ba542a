"""Pod, with the fields that scheduling, packing and draining read."""

import msgspec

from tonnage.objects.meta import (
    Condition,
    LabelSelector,
    ObjectRecord,
    Record,
    ResourceList,
)
from tonnage.objects.volume_sources import VolumeSource

FINISHED = ("Succeeded", "Failed")

DISRUPTION_TARGET = "DisruptionTarget"
"""The condition of a pod that is taken from its node, and its reason where it was evicted."""
EVICTED = "EvictionByEvictionAPI"
"""Phases of pods that take nothing any more."""


class ResourceRequirements(Record, frozen=True, kw_only=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerPort(Record, frozen=True, kw_only=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerRestartRule(Record, frozen=True, kw_only=True):
    action: str = ""


class VolumeMount(Record, frozen=True, kw_only=True):
    """Without its name, which nobody reads and which differs between replicas."""

    bind_mount_options: tuple[str, ...] = ()


class Container(Record, frozen=True, kw_only=True):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class NodeSelectorRequirement(Record, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Record, frozen=True, kw_only=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Record, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNodeTerm(Record, frozen=True, kw_only=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Record, frozen=True, kw_only=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredNodeTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Record, frozen=True, kw_only=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(Record, frozen=True, kw_only=True):
    """Used for affinity and anti-affinity alike; only required terms filter nodes."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Record, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Record, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(Record, frozen=True, kw_only=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(Record, frozen=True, kw_only=True):
    name: str


class SchedulingGroup(Record, frozen=True, kw_only=True):
    """The PodGroup that the pod is of, in the server's own API."""

    pod_group_name: str = ""


class ResourceClaimReference(Record, frozen=True, kw_only=True):
    name: str = ""


class EvictionResponder(Record, frozen=True, kw_only=True):
    """Somebody who moves the pod when its eviction is requested."""

    name: str = ""
    priority: int | None = None


class PodSpec(Record, frozen=True, kw_only=True):
    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[VolumeSource, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    restart_policy: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    resource_claims: tuple[ResourceClaimReference, ...] = ()
    eviction_responders: tuple[EvictionResponder, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: int | None = None


class ContainerStatus(Record, frozen=True, kw_only=True):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodStatus(Record, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}
    start_time: str | None = None


class Pod(ObjectRecord, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(ObjectRecord, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
