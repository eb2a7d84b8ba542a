"""Pods as classes: pods whose scheduling facts are equal share one record.

Identity is not a fact. A pod's name, its claims' names and its node are left out
of the key, and so is what controllers write into a pod to tell it from its siblings:
the node a daemon is pinned to, a replica's own labels.
Its volumes are resolved per pod (see `objects.volumes`), because what a claim comes to
changes while the pod stays what it is.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from tonnage.objects import complexity, pod_features, resources
from tonnage.objects.labels import POD_INDEX_LABEL
from tonnage.objects.meta import LabelSelector
from tonnage.objects.pods import (
    Affinity,
    Container,
    NodeSelector,
    NodeSelectorRequirement,
    Pod,
    PodSpec,
)

if TYPE_CHECKING:
    from tonnage.snapshot.pod_counters import PodCounter, Refusals

ANY_IP = "0.0.0.0"
IDENTITY_LABELS = frozenset(
    (
        "statefulset.kubernetes.io/pod-name",
        POD_INDEX_LABEL,
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
        "job-name",
        "controller-uid",
    )
)
"""Labels of a pod, or of one run of a job: facts only when some selector names them."""
_NAME_FIELD = "metadata.name"


class HostPort(msgspec.Struct, frozen=True):
    protocol: str
    port: int
    ip: str


_encode = msgspec.msgpack.Encoder().encode


def key_of(pod: Pod) -> bytes:
    """Equal for pods whose facts are equal; what a placed pod uses is one of the facts."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    return _encode(
        (
            meta.namespace,
            _without_identity(meta.labels),
            spec.containers,
            spec.init_containers,
            spec.node_selector,
            _unpinned(spec.affinity),
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.resources,
            spec.overhead,
            spec.priority,
            spec.scheduling_gates,
            spec.resource_claims,
            spec.host_network,
            spec.host_users,
            status.container_statuses,
            status.init_container_statuses,
            status.resources,
            status.allocated_resources,
            _resize_pending(pod),
        )
    )


def key_told_apart(key: bytes, labels: Mapping[str, str]) -> bytes:
    """The key of those pods of a class that also have these identity labels, given in order."""
    return key + _encode(labels)


def pinned_node(affinity: Affinity | None) -> str | None:
    """The one node that every term names, as it is with the pods of a DaemonSet."""
    required = _required_nodes(affinity)
    if required is None:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        if len(term.match_fields) != 1:
            return None
        (field,) = term.match_fields
        if field.key != _NAME_FIELD or field.operator != "In" or len(field.values) != 1:
            return None
        names.update(field.values)
    return names.pop() if len(names) == 1 else None


class PodClass:
    """The facts of a pod, worked out once, and how many of its pods are on each row.

    `nodes` and `terminating` never hold a zero, and `terminating` is part of `nodes`.
    `identity_labels` are those that some of its pods have and that are no facts of the class.
    `users` are the pods of the class that the snapshot knows, on rows or not.
    """

    __slots__ = (
        "affinity",
        "anti_affinity",
        "complexity",
        "counters",
        "features",
        "gates",
        "identity",
        "identity_labels",
        "key",
        "labels",
        "namespace",
        "node_affinity",
        "node_selector",
        "nodes",
        "own_anti_terms",
        "pinned",
        "ports",
        "priority",
        "refusals",
        "registered_as",
        "requests",
        "spread",
        "terminating",
        "tolerations",
        "usage",
        "usage_columns",
        "users",
        "wants_devices",
    )

    def __init__(self, key: bytes, pod: Pod, *, version: tuple[int, int]) -> None:
        spec = pod.spec
        affinity = spec.affinity
        self.key = key
        self.identity_labels: frozenset[str] = frozenset()
        self.namespace = pod.metadata.namespace
        self.labels = _without_identity(pod.metadata.labels)
        self.requests = resources.requests(spec)
        self.usage = resources.usage(pod, version=version)
        self.node_selector = spec.node_selector
        self.node_affinity = _required_nodes(_unpinned(affinity))
        self.pinned = pinned_node(affinity) is not None
        self.affinity = affinity.pod_affinity.required if affinity and affinity.pod_affinity else ()
        self.anti_affinity = (
            affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()
        )
        self.tolerations = spec.tolerations
        self.spread = tuple(
            one
            for one in spec.topology_spread_constraints
            if one.when_unsatisfiable == "DoNotSchedule"
        )
        self.ports = _host_ports(spec)
        self.gates = tuple(gate.name for gate in spec.scheduling_gates)
        self.wants_devices = bool(spec.resource_claims)
        self.features = pod_features.needed(spec)
        self.priority = spec.priority or 0
        self.complexity = complexity.of(spec)
        # Filled in by the parts of the snapshot that keep count of and over classes.
        self.identity = -1
        self.registered_as = key
        self.usage_columns: tuple[tuple[int, int], ...] = ()
        self.own_anti_terms: tuple[int, ...] = ()
        self._be_nowhere()

    def _be_nowhere(self) -> None:
        self.users = 0
        self.nodes: dict[int, int] = {}
        self.terminating: dict[int, int] = {}
        self.counters: list[PodCounter] | None = None
        self.refusals: Refusals | None = None

    def told_apart(self, labels: Mapping[str, str]) -> "PodClass":
        """Those of the class that have these identity labels as well; they are nowhere yet."""
        part = copy.copy(self)
        part.labels = {**self.labels, **labels}
        part.identity_labels = self.identity_labels.difference(labels)
        part._be_nowhere()
        return part

    def identity_labels_named(self) -> frozenset[str]:
        """Identity labels that selectors of these pods name."""
        return IDENTITY_LABELS.intersection(self._label_keys_named())

    def _label_keys_named(self) -> Iterator[str]:
        for term in (*self.affinity, *self.anti_affinity):
            yield from _keys(term.label_selector)
        for constraint in self.spread:
            yield from _keys(constraint.label_selector)
            yield from constraint.match_label_keys


def _keys(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels
        yield from (one.key for one in selector.match_expressions)


def _without_identity(labels: dict[str, str]) -> dict[str, str]:
    if IDENTITY_LABELS.isdisjoint(labels):
        return labels
    return {key: value for key, value in labels.items() if key not in IDENTITY_LABELS}


def _required_nodes(affinity: Affinity | None) -> NodeSelector | None:
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required


def _unpinned(affinity: Affinity | None) -> Affinity | None:
    """The affinity with the name of the node blanked out, if it pins its pod to one."""
    if affinity is None or pinned_node(affinity) is None:
        return affinity
    nodes, required = affinity.node_affinity, _required_nodes(affinity)
    assert nodes is not None
    assert required is not None
    replace = msgspec.structs.replace
    terms = tuple(replace(term, match_fields=_BLANK) for term in required.node_selector_terms)
    blanked = replace(nodes, required=NodeSelector(node_selector_terms=terms))
    return replace(affinity, node_affinity=blanked)


_BLANK = (NodeSelectorRequirement(key=_NAME_FIELD, operator="In", values=("",)),)


def _resize_pending(pod: Pod) -> str | None:
    """The reason of a resize that waits; what the pod occupies depends on it."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason
    return None


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Ports of the host that running containers hold; ordinary init containers hold none."""
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_IP)
        for container in _lasting_containers(spec)
        for port in container.ports
        if port.host_port > 0
    )


def _lasting_containers(spec: PodSpec) -> tuple[Container, ...]:
    sidecars = tuple(one for one in spec.init_containers if one.restart_policy == "Always")
    return spec.containers + sidecars
