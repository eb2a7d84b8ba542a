"""Kubernetes objects for tests, built by keyword with defaults that do not get in the way.

    pod("web", cpu="100m", pvcs=["data"])
    node("n1", cpu="4", zone="z1")
    csinode("n1", {"ebs.csi.aws.com": 25})

Names make identities: a uid follows from kind, namespace and name.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tonnage.objects import kinds
from tonnage.objects.labels import HOSTNAME as HOSTNAME
from tonnage.objects.labels import ZONE as ZONE
from tonnage.objects.meta import (
    LabelRequirement,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Quantity,
    ResourceList,
)
from tonnage.objects.nodes import NAMESPACE_NAME, Namespace, Node, NodeSpec, NodeStatus, Taint
from tonnage.objects.pods import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SchedulingGate,
    Toleration,
    TopologySpreadConstraint,
)
from tonnage.objects.storage import (
    BIND_COMPLETED_ANNOTATION,
    MIGRATED_PLUGINS_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    AttachmentSource,
    AttachmentSpec,
    AttachmentStatus,
    ClaimStatus,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeSpec,
    CSIStorageCapacity,
    NodeDriver,
    NodeDriverAllocatable,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologyRequirement,
    TopologyTerm,
    VolumeAttachment,
    VolumeNodeAffinity,
    VolumeSpec,
    VolumeStatus,
)
from tonnage.objects.volume_sources import (
    ClaimReference,
    ClaimSpec,
    ClaimTemplate,
    CSISource,
    EphemeralSource,
    VolumeResources,
    VolumeSource,
)

A_WHILE_AGO = "2026-01-01T00:00:00Z"


def pod(
    name: str,
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    owner: OwnerReference | None = None,
    on: str = "",
    phase: str = "",
    deleting: bool = False,
    cpu: Quantity | None = None,
    memory: Quantity | None = None,
    requests: ResourceList | None = None,
    overhead: ResourceList | None = None,
    init_containers: Iterable[Container] = (),
    containers: Iterable[Container] = (),
    host_ports: Iterable[int | ContainerPort] = (),
    pvcs: Iterable[str] = (),
    ephemeral: Iterable[str] = (),
    volumes: Iterable[VolumeSource] = (),
    node_selector: Mapping[str, str] | None = None,
    node_affinity: NodeSelector | None = None,
    near: Iterable[PodAffinityTerm] = (),
    apart: Iterable[PodAffinityTerm] = (),
    tolerations: Iterable[Toleration] = (),
    spread: Iterable[TopologySpreadConstraint] = (),
    gates: Iterable[str] = (),
    priority: int | None = None,
) -> Pod:
    """A pod with one container, pending unless it is `on` a node.

    `containers` are further ones. `pvcs` are claim names, `ephemeral` volume names; volumes
    come in the order pvcs, ephemeral, volumes. `near` and `apart` are required terms.
    """
    named = {"cpu": cpu, "memory": memory, **(requests or {})}
    main = container(
        "main",
        requests={resource: amount for resource, amount in named.items() if amount is not None},
        host_ports=host_ports,
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid if uid is not None else pod_uid(name, namespace),
            labels=dict(labels or {}),
            owner_references=(owner,) if owner is not None else (),
            deletion_timestamp=A_WHILE_AGO if deleting else None,
        ),
        spec=PodSpec(
            node_name=on,
            scheduler_name="default-scheduler",
            containers=(main, *containers),
            init_containers=tuple(init_containers),
            volumes=(
                *(claim_volume(claim) for claim in pvcs),
                *(ephemeral_volume(volume) for volume in ephemeral),
                *volumes,
            ),
            node_selector=dict(node_selector or {}),
            affinity=_affinity(node_affinity, tuple(near), tuple(apart)),
            tolerations=tuple(tolerations),
            topology_spread_constraints=tuple(spread),
            overhead=dict(overhead or {}),
            priority=priority,
            scheduling_gates=tuple(SchedulingGate(name=gate) for gate in gates),
        ),
        status=PodStatus(phase=phase or ("Running" if on else "Pending")),
    )


def container(
    name: str,
    *,
    cpu: Quantity | None = None,
    requests: ResourceList | None = None,
    host_ports: Iterable[int | ContainerPort] = (),
    sidecar: bool = False,
) -> Container:
    """A container; as an init container it may be a `sidecar`, which keeps running."""
    return Container(
        name=name,
        resources=ResourceRequirements(
            requests={**({"cpu": cpu} if cpu is not None else {}), **(requests or {})}
        ),
        ports=tuple(
            ContainerPort(container_port=port, host_port=port) if isinstance(port, int) else port
            for port in host_ports
        ),
        restart_policy="Always" if sidecar else "",
    )


def claim_volume(claim: str) -> VolumeSource:
    return VolumeSource(name=claim, persistent_volume_claim=ClaimReference(claim_name=claim))


def ephemeral_volume(name: str, *, storage_class: str = "", size: Quantity = "1Gi") -> VolumeSource:
    """A generic ephemeral volume; its claim is built with `pvc(..., owner=...)`."""
    spec = _claim_spec(storage_class, size)
    template = ClaimTemplate(spec=spec)
    return VolumeSource(name=name, ephemeral=EphemeralSource(volume_claim_template=template))


def pod_uid(name: str, namespace: str = "default") -> str:
    return f"uid-pod-{namespace}-{name}"


def node(
    name: str,
    *,
    cpu: Quantity = "4",
    memory: Quantity = "16Gi",
    pods: Quantity = 110,
    ephemeral_storage: Quantity = "100Gi",
    allocatable: ResourceList | None = None,
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    unschedulable: bool = False,
    features: Iterable[str] = (),
) -> Node:
    """A node labelled with its own hostname, and with a zone if given."""
    offered: ResourceList = {
        "cpu": cpu,
        "memory": memory,
        "pods": pods,
        "ephemeral-storage": ephemeral_storage,
        **(allocatable or {}),
    }
    zone_label = {ZONE: zone} if zone else {}
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-node-{name}",
            labels={HOSTNAME: name, **zone_label, **(labels or {})},
        ),
        spec=NodeSpec(unschedulable=unschedulable, taints=tuple(taints)),
        status=NodeStatus(capacity=offered, allocatable=offered, declared_features=tuple(features)),
    )


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Namespace:
    """A namespace, with the label every one of them has."""
    return Namespace(
        metadata=ObjectMeta(name=name, labels={NAMESPACE_NAME: name, **(labels or {})})
    )


def csinode(
    name: str, drivers: Mapping[str, int | None] | None = None, *, migrated: Iterable[str] = ()
) -> CSINode:
    """A CSINode with the attach limit of each driver; `None` is no limit."""
    plugins = ",".join(migrated)
    return CSINode(
        metadata=ObjectMeta(
            name=name, annotations={MIGRATED_PLUGINS_ANNOTATION: plugins} if plugins else {}
        ),
        spec=CSINodeSpec(
            drivers=tuple(
                NodeDriver(
                    name=driver,
                    node_id=name,
                    allocatable=NodeDriverAllocatable(count=count) if count is not None else None,
                )
                for driver, count in (drivers or {}).items()
            )
        ),
    )


def pvc(
    name: str,
    *,
    namespace: str = "default",
    storage_class: str | None = None,
    volume: str = "",
    bound: bool = True,
    size: Quantity | None = "1Gi",
    access_modes: Sequence[str] = ("ReadWriteOnce",),
    selector: LabelSelector | None = None,
    volume_mode: str | None = None,
    attributes_class: str | None = None,
    owner: Pod | None = None,
    selected_node: str = "",
    annotations: Mapping[str, str] | None = None,
    phase: str = "",
    deleting: bool = False,
) -> PersistentVolumeClaim:
    """A claim, bound to `volume` if that is named; with `bound=False` merely asking for it.

    `owner` is the pod whose generic ephemeral volume the claim is for.
    """
    complete = bool(volume) and bound
    notes = dict(annotations or {})
    if complete:
        notes[BIND_COMPLETED_ANNOTATION] = "yes"
    if selected_node:
        notes[SELECTED_NODE_ANNOTATION] = selected_node
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-pvc-{namespace}-{name}",
            annotations=notes,
            owner_references=(kinds.owner_reference(owner),) if owner is not None else (),
            deletion_timestamp=A_WHILE_AGO if deleting else None,
        ),
        spec=msgspec.structs.replace(
            _claim_spec(storage_class, size),
            access_modes=tuple(access_modes),
            selector=selector,
            volume_name=volume,
            volume_mode=volume_mode,
            volume_attributes_class_name=attributes_class,
        ),
        status=ClaimStatus(phase=phase or ("Bound" if complete else "Pending")),
    )


def pv(
    name: str,
    *,
    driver: str = "",
    handle: str | None = None,
    source: VolumeSource | None = None,
    size: Quantity = "1Gi",
    storage_class: str = "",
    claim: PersistentVolumeClaim | None = None,
    access_modes: Sequence[str] = ("ReadWriteOnce",),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_affinity: NodeSelector | None = None,
    volume_mode: str | None = None,
    attributes_class: str | None = None,
    phase: str = "",
    deleting: bool = False,
) -> PersistentVolume:
    """A volume of a CSI driver (its handle is its name by default) or of an in-tree `source`.

    With a `claim` it is bound to it, otherwise available.
    """
    if driver:
        csi = CSISource(driver=driver, volume_handle=name if handle is None else handle)
        source = VolumeSource(csi=csi)
    parts = msgspec.structs.asdict(source) if source is not None else {}
    reference = None
    if claim is not None:
        reference = ObjectReference(
            kind="PersistentVolumeClaim",
            namespace=claim.metadata.namespace,
            name=claim.metadata.name,
            uid=claim.metadata.uid,
        )
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name,
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            deletion_timestamp=A_WHILE_AGO if deleting else None,
        ),
        spec=VolumeSpec(
            **{**parts, "name": ""},
            capacity={"storage": size},
            access_modes=tuple(access_modes),
            claim_ref=reference,
            storage_class_name=storage_class,
            volume_mode=volume_mode,
            volume_attributes_class_name=attributes_class,
            node_affinity=VolumeNodeAffinity(required=node_affinity) if node_affinity else None,
        ),
        status=VolumeStatus(phase=phase or ("Bound" if claim is not None else "Available")),
    )


def storage_class(
    name: str,
    provisioner: str,
    *,
    immediate: bool = False,
    zones: Sequence[str] = (),
    zone_key: str = ZONE,
) -> StorageClass:
    """A class that waits for the first consumer unless `immediate`, limited to zones if given."""
    requirement = TopologyRequirement(key=zone_key, values=tuple(zones))
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=provisioner,
        volume_binding_mode="Immediate" if immediate else "WaitForFirstConsumer",
        allowed_topologies=(
            (TopologyTerm(match_label_expressions=(requirement,)),) if zones else ()
        ),
    )


def csidriver(
    name: str, *, opt_in: bool | None = None, storage_capacity: bool | None = None
) -> CSIDriver:
    """A driver; `opt_in` keeps pods off nodes where it is not registered."""
    return CSIDriver(
        metadata=ObjectMeta(name=name),
        spec=CSIDriverSpec(
            storage_capacity=storage_capacity, prevent_pod_scheduling_if_missing=opt_in
        ),
    )


def attachment(volume: str, node: str, *, attacher: str, attached: bool = True) -> VolumeAttachment:
    """A PersistentVolume attached to a node, in use there or not."""
    return VolumeAttachment(
        metadata=ObjectMeta(name=f"{volume}-on-{node}"),
        spec=AttachmentSpec(
            attacher=attacher,
            node_name=node,
            source=AttachmentSource(persistent_volume_name=volume),
        ),
        status=AttachmentStatus(attached=attached),
    )


def capacity(
    name: str,
    storage_class: str,
    *,
    free: Quantity | None = None,
    largest: Quantity | None = None,
    topology: Mapping[str, str] | None = None,
    namespace: str = "default",
) -> CSIStorageCapacity:
    """Free space of a class, seen from nodes with the labels of `topology` (all by default)."""
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace=namespace),
        storage_class_name=storage_class,
        node_topology=LabelSelector(match_labels=dict(topology or {})),
        capacity=free,
        maximum_volume_size=largest,
    )


def selecting(
    labels: Mapping[str, str] | None = None, *requirements: LabelRequirement
) -> LabelSelector:
    return LabelSelector(match_labels=dict(labels or {}), match_expressions=requirements)


def nodes_with(key: str, *values: str) -> NodeSelector:
    """A node selector of one term: the label has one of the values, or any if none is given."""
    requirement = NodeSelectorRequirement(
        key=key, operator="In" if values else "Exists", values=values
    )
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),))


def _claim_spec(storage_class: str | None, size: Quantity | None) -> ClaimSpec:
    requests: ResourceList = {"storage": size} if size is not None else {}
    return ClaimSpec(
        access_modes=("ReadWriteOnce",),
        resources=VolumeResources(requests=requests),
        storage_class_name=storage_class,
    )


def _affinity(
    node_affinity: NodeSelector | None,
    near: tuple[PodAffinityTerm, ...],
    apart: tuple[PodAffinityTerm, ...],
) -> Affinity | None:
    if node_affinity is None and not near and not apart:
        return None
    return Affinity(
        node_affinity=NodeAffinity(required=node_affinity) if node_affinity is not None else None,
        pod_affinity=PodAffinity(required=near) if near else None,
        pod_anti_affinity=PodAffinity(required=apart) if apart else None,
    )
