"""What a well-typed object may still have wrong: quantities, sizes, ranges.

Types are checked while decoding; this module checks what the types cannot say and a
Kubernetes API would refuse, so that nothing behind it has to be defensive. It runs once
for each of 150,000 pods: quantities already seen are recognised by one set operation,
and a path is built only for what looks suspicious.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from tonnage.objects import limit_keys, printable, quantities
from tonnage.objects.meta import Quantity, ResourceList
from tonnage.objects.nodes import Node
from tonnage.objects.pods import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from tonnage.objects.scenarios import MOST_NODES, NodeGroup
from tonnage.objects.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tonnage.objects.volume_sources import ClaimSpec
from tonnage.objects.workloads import (
    DaemonSet,
    Job,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

Path: TypeAlias = tuple[str | int, ...]
"""Where in an object: field names and keys as strings, list positions as integers."""

QUANTITY = "a quantity such as 500m, 2 or 10Gi"
SCALING = ("any", "zeroOrMax")

_INT32 = 2**31
_LAST_PORT = 65535
_LONGEST_NAME = 253
_REMEMBERED = 200_000


class Fault(msgspec.Struct, frozen=True):
    """One thing wrong with an object, in words a person can act on."""

    path: Path
    expected: str
    found: str


def first_fault(obj: object) -> Fault | None:
    """The first thing wrong with the object, `None` for a good one."""
    check = _CHECKS.get(type(obj))
    return next(check(obj), None) if check is not None else None


def describe(value: object) -> str:
    """A value as a message shows it: JSON for scalars, a word for containers."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, float) and not math.isfinite(value):
        return "a number out of range"
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    if isinstance(value, str):
        return f'"{one_line(value)}"' if len(value) <= 60 else f'"{one_line(value[:57])}..."'
    import json  # only who is told off has to wait for it

    return json.dumps(value)


def one_line(text: str) -> str:
    """Text from the input, fit for a message: not too long, control characters escaped."""
    shown = printable.escape(text[:_LONGEST_NAME])
    return shown if len(text) <= _LONGEST_NAME else f"{shown}..."


def _quantity(value: Quantity, path: Path, *, signed: bool = False) -> Iterator[Fault]:
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        # No server writes it so, and on its way through a float it would be another number.
        yield Fault(path, "a number of at most 64 bits, or a quantity in quotes", describe(value))
        return
    try:
        negative = quantities.exact(value) < 0
    except ValueError:  # a QuantityError, or an integer of thousands of digits
        yield Fault(path, QUANTITY, describe(value))
        return
    if not negative:
        if len(_nonnegative) >= _REMEMBERED:
            _nonnegative.clear()
        _nonnegative.add(value)
    elif not signed:
        yield Fault(path, "a quantity that is not negative", describe(value))


def _resource_list(resources: ResourceList, at: Path, *, signed: bool = False) -> Iterator[Fault]:
    for name, value in resources.items():
        yield from _quantity(value, (*at, name), signed=signed)


def _requirements(
    requirements: ResourceRequirements, at: Path, *, signed: bool = False
) -> Iterator[Fault]:
    yield from _resource_list(requirements.requests, (*at, "requests"), signed=signed)
    yield from _resource_list(requirements.limits, (*at, "limits"), signed=signed)


def _whole(
    value: int | None, path: Path, *, least: int = -_INT32, below: int = _INT32
) -> Iterator[Fault]:
    if value is not None and not least <= value < below:
        wanted = "0 or more" if least == 0 else f"{least:,} or more"
        yield Fault(path, f"a whole number, {wanted} and below {below:,}", describe(value))


_nonnegative: set[Quantity] = set()
"""Quantities known to parse and not to be negative."""

_known = _nonnegative.issuperset

_requestable_names: set[str] = {"cpu", "memory", "ephemeral-storage"}
_requestable = _requestable_names.issuperset


def _pod(pod: Pod) -> Iterator[Fault]:
    yield from _pod_spec(pod.spec, ("spec",))
    status = pod.status
    # Status quantities must parse; their sign is the kubelet's business, no API refuses it.
    for position, container in enumerate(status.container_statuses):
        if not _known_status(container):
            yield from _container_status(container, ("status", "containerStatuses", position))
    for position, container in enumerate(status.init_container_statuses):
        if not _known_status(container):
            yield from _container_status(container, ("status", "initContainerStatuses", position))
    if status.resources is not None:
        yield from _requirements(status.resources, ("status", "resources"), signed=True)
    if status.allocated_resources:
        here = ("status", "allocatedResources")
        yield from _resource_list(status.allocated_resources, here, signed=True)


def _pod_spec(spec: PodSpec, at: Path) -> Iterator[Fault]:
    for position, container in enumerate(spec.containers):
        if not _known_container(container):
            yield from _container(container, (*at, "containers", position))
    for position, container in enumerate(spec.init_containers):
        if not _known_container(container):
            yield from _container(container, (*at, "initContainers", position))
    for position, volume in enumerate(spec.volumes):
        if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
            here = (*at, "volumes", position, "ephemeral", "volumeClaimTemplate", "spec")
            yield from _claim_spec(volume.ephemeral.volume_claim_template.spec, here)
    if spec.resources is not None:
        yield from _requirements(spec.resources, (*at, "resources"))
    if spec.overhead:
        yield from _resource_list(spec.overhead, (*at, "overhead"))
    if spec.priority is not None and not -_INT32 <= spec.priority < _INT32:
        yield from _whole(spec.priority, (*at, "priority"))
    if spec.topology_spread_constraints:
        yield from _spread(spec.topology_spread_constraints, (*at, "topologySpreadConstraints"))
    if spec.affinity is not None and spec.affinity.node_affinity is not None:
        here = (*at, "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
        for position, term in enumerate(spec.affinity.node_affinity.preferred):
            yield from _whole(term.weight, (*here, position, "weight"))


def _known_container(container: Container) -> bool:
    """Nothing here needs a closer look; the answer for nearly every container there is."""
    for port in container.ports:
        if not (0 <= port.host_port <= _LAST_PORT and 0 <= port.container_port <= _LAST_PORT):
            return False
    requests, limits = container.resources.requests, container.resources.limits
    return (
        _known(requests.values())
        and _known(limits.values())
        and _requestable(requests)
        and _requestable(limits)
    )


def _container(container: Container, at: Path) -> Iterator[Fault]:
    yield from _requirements(container.resources, (*at, "resources"))
    yield from _requested(container.resources, (*at, "resources"))
    for position, port in enumerate(container.ports):
        for field, number in (
            ("hostPort", port.host_port),
            ("containerPort", port.container_port),
        ):
            if not 0 <= number <= _LAST_PORT:
                path = (*at, "ports", position, field)
                yield Fault(path, f"a port, 0 to {_LAST_PORT}", describe(number))


def _requested(requirements: ResourceRequirements, at: Path) -> Iterator[Fault]:
    """Attach limits are resources of nodes that nobody may request."""
    for field, amounts in (("requests", requirements.requests), ("limits", requirements.limits)):
        for name in amounts:
            if limit_keys.is_attachable_volumes(name):
                yield Fault(
                    (*at, field, name),
                    "a resource that containers may request (volumes are counted by themselves)",
                    f"one that begins with {limit_keys.PREFIX}",
                )
            elif len(_requestable_names) < _REMEMBERED:
                _requestable_names.add(name)


def _spread(constraints: tuple[TopologySpreadConstraint, ...], at: Path) -> Iterator[Fault]:
    for position, constraint in enumerate(constraints):
        if not 1 <= constraint.max_skew < _INT32:
            yield from _whole(constraint.max_skew, (*at, position, "maxSkew"), least=1)
        if constraint.min_domains is not None:
            yield from _whole(constraint.min_domains, (*at, position, "minDomains"), least=1)


def _known_status(status: ContainerStatus) -> bool:
    resources = status.resources
    return _known(status.allocated_resources.values()) and (
        resources is None
        or (_known(resources.requests.values()) and _known(resources.limits.values()))
    )


def _container_status(status: ContainerStatus, at: Path) -> Iterator[Fault]:
    here = (*at, "allocatedResources")
    yield from _resource_list(status.allocated_resources, here, signed=True)
    if status.resources is not None:
        yield from _requirements(status.resources, (*at, "resources"), signed=True)


def _node(node: Node, at: Path = ()) -> Iterator[Fault]:
    for field, resources in (
        ("capacity", node.status.capacity),
        ("allocatable", node.status.allocatable),
    ):
        if not _known(resources.values()):
            yield from _resource_list(resources, (*at, "status", field))


def _claim_spec(spec: ClaimSpec, at: Path) -> Iterator[Fault]:
    if not _known(spec.resources.requests.values()):
        yield from _resource_list(spec.resources.requests, (*at, "resources", "requests"))


def _claim(claim: PersistentVolumeClaim, at: Path = ()) -> Iterator[Fault]:
    yield from _claim_spec(claim.spec, (*at, "spec"))
    yield from _resource_list(claim.status.capacity, (*at, "status", "capacity"))


def _volume(volume: PersistentVolume) -> Iterator[Fault]:
    yield from _resource_list(volume.spec.capacity, ("spec", "capacity"))


def _capacity(capacity: CSIStorageCapacity) -> Iterator[Fault]:
    if capacity.capacity is not None:
        yield from _quantity(capacity.capacity, ("capacity",))
    if capacity.maximum_volume_size is not None:
        yield from _quantity(capacity.maximum_volume_size, ("maximumVolumeSize",))


def _csi_node(csi_node: CSINode, at: Path = ()) -> Iterator[Fault]:
    for position, driver in enumerate(csi_node.spec.drivers):
        here = (*at, "spec", "drivers", position, "allocatable", "count")
        yield from _whole(driver.limit, here, least=0)


def _workload(workload: ReplicaSet | ReplicationController) -> Iterator[Fault]:
    yield from _whole(workload.spec.replicas, ("spec", "replicas"), least=0)
    yield from _pod_spec(workload.spec.template.spec, ("spec", "template", "spec"))


def _stateful_set(workload: StatefulSet) -> Iterator[Fault]:
    yield from _whole(workload.spec.replicas, ("spec", "replicas"), least=0)
    yield from _pod_spec(workload.spec.template.spec, ("spec", "template", "spec"))
    for position, claim in enumerate(workload.spec.volume_claim_templates):
        yield from _claim(claim, ("spec", "volumeClaimTemplates", position))


def _daemon_set(workload: DaemonSet) -> Iterator[Fault]:
    yield from _pod_spec(workload.spec.template.spec, ("spec", "template", "spec"))


def _job(job: Job) -> Iterator[Fault]:
    yield from _whole(job.spec.parallelism, ("spec", "parallelism"), least=0)
    yield from _whole(job.spec.completions, ("spec", "completions"), least=0)
    yield from _pod_spec(job.spec.template.spec, ("spec", "template", "spec"))


def _budget(budget: PodDisruptionBudget) -> Iterator[Fault]:
    for field, value in (
        ("minAvailable", budget.spec.min_available),
        ("maxUnavailable", budget.spec.max_unavailable),
    ):
        if isinstance(value, int):
            yield from _whole(value, ("spec", field), least=0)


def _priority_class(priority_class: PriorityClass) -> Iterator[Fault]:
    yield from _whole(priority_class.value, ("value",))


def _node_group(group: NodeGroup) -> Iterator[Fault]:
    spec = group.spec
    yield from _whole(spec.min_size, ("spec", "minSize"), least=0)
    yield from _whole(spec.max_size, ("spec", "maxSize"), least=0)
    yield from _whole(spec.target_size, ("spec", "targetSize"), least=0, below=MOST_NODES + 1)
    if spec.min_size > spec.max_size:
        limit = f"at most maxSize, which is {spec.max_size}"
        yield Fault(("spec", "minSize"), limit, describe(spec.min_size))
    if spec.scaling not in SCALING:
        yield Fault(("spec", "scaling"), " or ".join(SCALING), describe(spec.scaling))
    for driver, count in spec.limits.items():
        yield from _whole(count, ("spec", "limits", driver), least=0)
    if spec.template is not None:
        yield from _node(spec.template.node, ("spec", "template", "node"))
        if spec.template.csi_node is not None:
            yield from _csi_node(spec.template.csi_node, ("spec", "template", "csiNode"))
        for position, room in enumerate(spec.template.storage_capacity):
            here: Path = ("spec", "template", "storageCapacity", position)
            yield from _quantity(room.capacity, (*here, "capacity"))
            if room.maximum_volume_size is not None:
                yield from _quantity(room.maximum_volume_size, (*here, "maximumVolumeSize"))


_CHECKS: dict[type, Callable[[Any], Iterator[Fault]]] = {
    Pod: _pod,
    Node: _node,
    PersistentVolumeClaim: _claim,
    PersistentVolume: _volume,
    CSIStorageCapacity: _capacity,
    CSINode: _csi_node,
    ReplicaSet: _workload,
    ReplicationController: _workload,
    StatefulSet: _stateful_set,
    DaemonSet: _daemon_set,
    Job: _job,
    PodDisruptionBudget: _budget,
    PriorityClass: _priority_class,
    NodeGroup: _node_group,
}
