"""What a pod asks for, what it occupies on its node, and what a node offers, in integers.

CPU is counted in thousandths of a core, everything else in whole units. Names the
scheduler does not account for are left out on both sides.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import msgspec

from tonnage.objects import quantities
from tonnage.objects.meta import Quantity, ResourceList
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

MOST = 2**52
"""More than this of anything is counted as this, so that no sum over the pods of a node, of which
there are less than two thousand, leaves 64 bits. Four pebibytes of memory, a trillion cores."""

_HUGE_PAGES = "hugepages-"
_ATTACHABLE = "attachable-volumes-"
_NATIVE = "kubernetes.io/"
_QUOTA = "requests."

_NAME_PART = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_PREFIX_PART = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")

_Amounts: TypeAlias = dict[str, Fraction]


@lru_cache(maxsize=1 << 14)
def valid_qualified_name(name: str) -> bool:
    """Whether `name` is `[dns-prefix/]name`, the form of label keys and resource names."""
    prefix, slash, last = name.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX_PART.fullmatch(prefix)):
        return False
    return len(last) <= 63 and _NAME_PART.fullmatch(last) is not None


def is_extended(name: str) -> bool:
    """Whether `name` is a device or the like, from outside Kubernetes' own namespace."""
    return (
        "/" in name
        and _NATIVE not in name
        and not name.startswith(_QUOTA)
        and valid_qualified_name(_QUOTA + name)
    )


def with_requests(container: Container) -> Container:
    """Requests that are not given are those of the limits, as the API server fills them in."""
    resources = container.resources
    if not set(resources.limits) - set(resources.requests):
        return container
    filled = ResourceRequirements(
        requests={**resources.limits, **resources.requests}, limits=resources.limits
    )
    return msgspec.structs.replace(container, resources=filled)


@lru_cache(maxsize=1 << 12)
def is_scheduled(name: str) -> bool:
    """Whether the scheduler accounts for the resource when it is requested."""
    return (
        name in (CPU, MEMORY, EPHEMERAL_STORAGE)
        or name.startswith((_HUGE_PAGES, _ATTACHABLE))
        or _NATIVE in name
        or is_extended(name)
    )


def requests(spec: PodSpec) -> dict[str, int]:
    """What a pod that is not placed yet asks for.

    A name that is mentioned is a key, even with amount 0: a pod that names a device is
    compared with the node, one that names nothing is not.
    """
    if not (spec.init_containers or spec.overhead or spec.resources):
        return dict(
            _requests(tuple([tuple(c.resources.requests.items()) for c in spec.containers]))
        )
    amounts = _over_containers(spec, _declared)
    amounts.update(_declared_for_pod(spec))
    return _with_overhead(amounts, spec)


@lru_cache(maxsize=1 << 12)
def _requests(containers: tuple[tuple[tuple[str, Quantity], ...], ...]) -> dict[str, int]:
    """The same for containers that run together: many workloads ask for the same few amounts."""
    total: _Amounts = {}
    for items in containers:
        _add(total, _amounts(dict(items)))
    return _in_integers(total)


def usage(pod: Pod, *, version: tuple[int, int]) -> dict[str, int]:
    """What a pod on a node occupies there, while its resources may be changing in place.

    `version` is the Kubernetes minor version whose rule is followed, such as `(1, 37)`. No node has
    `MOST` of anything: who asks for it and has a node all the same got it because the scheduler's
    own number left 64 bits, often to become 0. It is counted as 0 here, or anybody could make nodes
    look full.
    """
    used = _usage(pod, version)
    if any(amount >= MOST for amount in used.values()):
        return {name: amount if amount < MOST else 0 for name, amount in used.items()}
    return used


def _usage(pod: Pod, version: tuple[int, int]) -> dict[str, int]:
    infeasible = _resize_infeasible(pod)
    if not infeasible and not _reports_resources(pod):
        return requests(pod.spec)
    if version >= (1, 37):
        amounts = _usage_of_whole_pod(pod, infeasible=infeasible)
    else:
        pod_level = version >= (1, 36)
        amounts = _usage_by_container(pod, infeasible=infeasible, pod_level=pod_level)
    return _with_overhead(amounts, pod.spec)


def cores_and_memory(node: Node) -> tuple[int, int]:
    """Whole cores and bytes of a node's capacity."""
    capacity = node.status.capacity
    return _cores_and_memory(capacity.get(CPU, 0), capacity.get(MEMORY, 0))


@lru_cache(maxsize=1 << 10)
def _cores_and_memory(cpu: Quantity, memory: Quantity) -> tuple[int, int]:
    return quantities.value(cpu), quantities.value(memory)


def allocatable(node: Node) -> dict[str, int]:
    """What a node offers. The four plain names are always there; not published is 0."""
    return dict(_allocatable(tuple(node.status.allocatable.items())))


@lru_cache(maxsize=1 << 12)
def _allocatable(items: tuple[tuple[str, Quantity], ...]) -> dict[str, int]:
    """The same for the nodes of a kind, of which there are few kinds and many nodes."""
    plain = {CPU: Fraction(), MEMORY: Fraction(), EPHEMERAL_STORAGE: Fraction(), PODS: Fraction()}
    published = dict(items)
    if PODS in published:
        plain[PODS] = quantities.exact(published[PODS])
    return _in_integers(plain | _amounts(published))


def _usage_of_whole_pod(pod: Pod, *, infeasible: bool) -> _Amounts:
    """From 1.37 on: sum what is declared, allocated and in force separately, then compare."""
    status = pod.status
    in_force = _amounts(status.resources.requests) if status.resources is not None else {}
    allocated = _amounts(status.allocated_resources)
    if status.allocated_resources and status.resources and status.resources.requests:
        totals = [in_force, allocated]
    else:
        totals = _totals_by_container_status(pod, infeasible=infeasible)
    if not infeasible:
        totals.append(_over_containers(pod.spec, _declared))
    amounts = _greatest(totals)

    declared = _declared_for_pod(pod.spec)
    if declared and status.resources is not None:
        declared = _greatest([{} if infeasible else declared, in_force, allocated])
    amounts.update((name, amount) for name, amount in declared.items() if _for_pods(name))
    return amounts


def _totals_by_container_status(pod: Pod, *, infeasible: bool) -> list[_Amounts]:
    """What is in force and what is allocated, where only the containers' statuses tell."""
    statuses = _by_name((*pod.status.init_container_statuses, *pod.status.container_statuses))

    def allocated(container: Container) -> _Amounts:
        found = statuses.get(container.name, _NO_STATUS)
        unknown = {} if infeasible else container.resources.requests
        return _amounts(found.allocated_resources or unknown)

    def in_force(container: Container) -> _Amounts:
        found = statuses.get(container.name, _NO_STATUS)
        if found.resources is not None and found.resources.requests:
            return _amounts(found.resources.requests)
        return allocated(container)

    return [_over_containers(pod.spec, in_force), _over_containers(pod.spec, allocated)]


def _usage_by_container(pod: Pod, *, infeasible: bool, pod_level: bool) -> _Amounts:
    """Up to 1.36: compare what is declared, allocated and in force per container, then sum.

    Containers that only run at the start are never resized, so their status is not read.
    """
    status = pod.status
    at_start_only = {c.name for c in pod.spec.init_containers if not _is_sidecar(c)}
    statuses = _by_name(
        s
        for s in (*status.container_statuses, *status.init_container_statuses)
        if s.name not in at_start_only
    )

    def effective(container: Container) -> _Amounts:
        found = statuses.get(container.name, _NO_STATUS)
        if found.resources is None:
            return _declared(container)
        return _greatest(
            [
                {} if infeasible else _declared(container),
                _amounts(found.resources.requests),
                _amounts(found.allocated_resources),
            ]
        )

    amounts = _over_containers(pod.spec, effective)
    declared = _declared_for_pod(pod.spec)
    if pod_level and status.resources is not None:
        greatest = _greatest(
            [
                {} if infeasible else declared,
                _amounts(status.resources.requests),
                _amounts(status.allocated_resources),
            ]
        )
        declared = {name: greatest.get(name, Fraction()) for name in declared}
    amounts.update(declared)
    return amounts


def _over_containers(spec: PodSpec, of: Callable[[Container], _Amounts]) -> _Amounts:
    """The most the containers hold at one time, given what each of them holds.

    Sidecars stay from their start on; other init containers run one by one beside the
    sidecars started before them.
    """
    total: _Amounts = {}
    for container in spec.containers:
        _add(total, of(container))
    sidecars: _Amounts = {}
    peaks: list[_Amounts] = []
    for container in spec.init_containers:
        own = of(container)
        if _is_sidecar(container):
            _add(total, own)
            _add(sidecars, own)
            peaks.append(dict(sidecars))
        else:
            peak = dict(sidecars)
            _add(peak, own)
            peaks.append(peak)
    return _greatest([total, *peaks])


def _is_sidecar(init_container: Container) -> bool:
    return init_container.restart_policy == "Always"


def _declared(container: Container) -> _Amounts:
    return _amounts(container.resources.requests)


def _declared_for_pod(spec: PodSpec) -> _Amounts:
    if spec.resources is None:
        return {}
    return {n: a for n, a in _amounts(spec.resources.requests).items() if _for_pods(n)}


def _for_pods(name: str) -> bool:
    """Whether the resource can be set for a pod as a whole."""
    return name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)


_NO_STATUS = ContainerStatus()


def _by_name(statuses: Iterable[ContainerStatus]) -> dict[str, ContainerStatus]:
    return {status.name: status for status in statuses}


def _reports_resources(pod: Pod) -> bool:
    status = pod.status
    return (
        status.resources is not None
        or bool(status.allocated_resources)
        or any(
            s.resources is not None or s.allocated_resources
            for s in (*status.container_statuses, *status.init_container_statuses)
        )
    )


def _resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _amounts(resources: ResourceList) -> _Amounts:
    return {name: quantities.exact(q) for name, q in resources.items() if is_scheduled(name)}


def _add(total: _Amounts, more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction()) + amount


def _greatest(lists: Iterable[_Amounts]) -> _Amounts:
    greatest: _Amounts = {}
    for amounts in lists:
        for name, amount in amounts.items():
            greatest[name] = max(greatest.get(name, amount), amount)
    return greatest


def _with_overhead(amounts: _Amounts, spec: PodSpec) -> dict[str, int]:
    _add(amounts, _amounts(spec.overhead))
    return _in_integers(amounts)


def _in_integers(amounts: Mapping[str, Fraction]) -> dict[str, int]:
    return {
        name: max(-MOST, min(quantities.round_up(amount * 1000 if name == CPU else amount), MOST))
        for name, amount in amounts.items()
    }
