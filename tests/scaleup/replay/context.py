"""The cluster a plan starts from, as the reference sees it, and the nodes that may be added."""

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from tests.scaleup.replay.shared_slots import ReplaySlots
from tests.scaleup.replay.stores import ReplayStores
from tonnage.groups import readiness, storage_rooms, templates
from tonnage.groups.inputs import Inputs
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.model import Template
from tonnage.groups.options import Options
from tonnage.objects import timestamps, volumes
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.meta import ObjectMeta, OwnerReference, Record
from tonnage.objects.nodes import Node
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tonnage.rules.features import Features
from tonnage.scaleup import underway
from tonnage.testing.reference import ReferenceCluster, volume_choice
from tonnage.testing.reference.inventory import StorageObjects, key

T = TypeVar("T")

DAEMON_ANNOTATION = "cluster-autoscaler.kubernetes.io/daemonset-pod"


class PlanViolation(Record, frozen=True, kw_only=True):
    """A promise that a plan does not keep: which rule, about what, and how it is broken."""

    rule: str
    subject: str
    detail: str


class ReplayContext:
    """Holds the cluster of a replay; nodes are added to it, never taken away for good.

    `waiting` are the pods that the plan has to account for, `optional` those it may place and
    need not mention: pods of DaemonSets. Expendable pods count for nothing, finished ones and
    those promised to a node by preemption are what they will be.
    """

    def __init__(
        self,
        objects: Iterable[object],
        *,
        options: Options,
        features: Features,
        now: float,
        memory: TemplateMemory | None = None,
    ) -> None:
        held = list(objects)
        self.options = options
        pods = list(_counted_pods(_of(held, Pod), options))
        storage = ReferenceCluster(held).storage
        candidates = [
            pod
            for pod in pods
            if _is_waiting(pod, options, now) and not _may_yet_bind(pod, storage, options, now)
        ]
        self.waiting = {key(pod.metadata): pod for pod in candidates if not _is_daemon(pod)}
        self.optional = {key(pod.metadata): pod for pod in candidates if _is_daemon(pod)}
        inputs = Inputs.of_objects(held, options=options, features=features, now=now, memory=memory)
        self.groups = {group.id: group for group in inputs.groups}
        self.cluster = ReferenceCluster(
            (*(one for one in held if not isinstance(one, Pod)), *pods),
            kubernetes_version=features.version,
            gates={
                "VolumeLimitScaling": features.volume_limit_scaling,
                "NodeDeclaredFeatures": features.node_declared_features,
                "TaintTolerationComparisonOperators": features.taint_comparison_operators,
            },
            returning_volume_once=not options.as_upstream,
        )
        built = templates.build(inputs, wanted=_wanted_drivers(candidates, self.cluster.storage))
        if not options.as_upstream:
            built = storage_rooms.furnish(built, inputs)
        self.readiness = readiness.assess(inputs, built.by_group)
        built = templates.without_drivers(built, readiness.given_up(self.readiness, inputs.policy))
        self.templates: dict[str, Template] = built.by_group
        coming_up = {} if options.as_upstream else dict(self._coming_up())
        for node, name in coming_up.items():
            self._complete(node, self.templates[name])
        counted = () if options.as_upstream else candidates
        fresh = {} if options.as_upstream else dict(self._fresh(inputs.cluster.nodes, now))
        self.stores = ReplayStores(
            self.cluster, self.templates, counted, coming_up={**fresh, **coming_up}
        )
        lookup = _Lookup(self.cluster.storage)
        self.shared_slots = ReplaySlots(self.cluster, lookup, self.groups, options)
        self.upcoming = frozenset(self._add_upcoming(set(coming_up)))
        self.starting_nodes = [hosted.node for hosted in self.cluster.nodes.values()]

    def add(self, group: str, name: str) -> None:
        """Add a new node of the group, with the pods that come with it."""
        template = self.templates[group]
        node, csinode = _copy(template, name, as_upstream=self.options.as_upstream)
        self.cluster.add_node(node, csinode)
        self.stores.add(group, name, template.daemon_pods)
        self.shared_slots.add(name, template)
        for pod in template.daemon_pods:
            self._start(pod, name)

    def remove(self, name: str) -> None:
        """Take back a node that was added to ask a question."""
        for pod in list(self.cluster.nodes[name].pods):
            self.cluster.remove(pod)
        del self.cluster.nodes[name]
        self.stores.remove(name)
        self.shared_slots.remove(name)

    def may_be_scaled(self, group: str) -> bool:
        """Whether the group is known, has a template and is healthy, in a healthy cluster."""
        found = self.readiness.groups.get(group)
        return (
            self.readiness.healthy
            and found is not None
            and found.healthy
            and group in self.templates
        )

    def _coming_up(self) -> Iterator[tuple[str, str]]:
        """Nodes that are there in part, each with its group."""
        for name, found in self.readiness.groups.items():
            if name in self.templates:
                yield from ((node, name) for node in found.coming_up_nodes)

    def _fresh(self, nodes: Iterable[Node], now: float) -> Iterator[tuple[str, str]]:
        """Ready nodes whose driver has time yet to publish their storage, each with its group."""
        for node in nodes:
            found = self.readiness.nodes[node.metadata.name]
            if found.state != readiness.READY or found.group not in self.templates:
                continue
            born = node.metadata.creation_timestamp
            if born and now - timestamps.parse(born) < self.options.driver_registration_timeout:
                yield found.node, found.group

    def _add_upcoming(self, there: set[str]) -> Iterator[str]:
        """Nodes on their way of which nothing is there yet; gives their names."""
        for name, found in self.readiness.groups.items():
            if name not in self.templates:
                continue
            upcoming_count = found.upcoming - len(there.intersection(found.coming_up_nodes))
            numbered = (f"{name}-upcoming-{number}" for number in itertools.count(1))
            free = (one for one in numbered if one not in self.cluster.nodes)
            for upcoming in list(itertools.islice(free, upcoming_count)):
                self.add(name, upcoming)
                yield upcoming

    def _complete(self, name: str, template: Template) -> None:
        hosted = self.cluster.nodes[name]
        hosted.node, csinode = underway.completed(hosted.node, template, own=hosted.csi_node)
        if csinode is not None:
            hosted.csi_node = csinode

    def _start(self, pod: Pod, node: str) -> None:
        """A pod that comes with its node; the claims of its ephemeral volumes are its own."""
        name = f"{pod.metadata.name}-{node}"
        metadata = msgspec.structs.replace(
            pod.metadata, name=name, uid=f"{pod.metadata.namespace}/{name}"
        )
        own = msgspec.structs.replace(pod, metadata=metadata)
        for claim in _ephemeral_claims(own):
            self.cluster.storage.claims[key(claim.metadata)] = claim
        self.cluster.place(own, node, assume_volumes=False)


def _of(objects: Iterable[object], kind: type[T]) -> Iterator[T]:
    return (obj for obj in objects if isinstance(obj, kind))


def _counted_pods(pods: Iterable[Pod], options: Options) -> Iterator[Pod]:
    for pod in pods:
        if pod.status.phase in FINISHED:
            continue
        if (pod.spec.priority or 0) < options.expendable_pods_priority_cutoff:
            continue
        promised = pod.status.nominated_node_name
        if promised and not pod.spec.node_name:
            spec = msgspec.structs.replace(pod.spec, node_name=promised)
            yield msgspec.structs.replace(pod, spec=spec)
        else:
            yield pod


def _is_waiting(pod: Pod, options: Options, now: float) -> bool:
    if pod.spec.node_name or pod.spec.scheduling_gates:
        return False
    if pod.metadata.deletion_timestamp is not None:
        return False
    created = pod.metadata.creation_timestamp
    return created is None or now - timestamps.parse(created) >= options.new_pod_scale_up_delay


def _may_yet_bind(pod: Pod, storage: StorageObjects, options: Options, now: float) -> bool:
    """Whether somebody else is to bind one of the pod's claims and has had no time to."""
    for use in volume_choice.claim_uses(pod):
        claim = storage.claim(pod, use.name)
        if options.as_upstream or claim is None or claim.fully_bound:
            continue
        found = storage.classes.get(claim.class_name)
        created = claim.metadata.creation_timestamp
        at_once = found is None or found.volume_binding_mode == "Immediate"
        if at_once and created and now - timestamps.parse(created) < options.claim_bind_wait:
            return True
    return False


def _is_daemon(pod: Pod) -> bool:
    controller = pod.metadata.controller
    return (controller is not None and controller.kind == "DaemonSet") or (
        pod.metadata.annotations.get(DAEMON_ANNOTATION) == "true"
    )


class _Lookup:
    """Storage objects by name, for those who ask by namespace."""

    intree_apart = False

    def __init__(self, storage: StorageObjects) -> None:
        self._storage = storage

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self._storage.claims.get(f"{namespace or 'default'}/{name}")

    def volume(self, name: str) -> PersistentVolume | None:
        return self._storage.volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self._storage.classes.get(name)


def _wanted_drivers(pods: Iterable[Pod], storage: StorageObjects) -> set[str]:
    """The drivers whose limits every template has to know."""
    lookup = _Lookup(storage)
    found: set[str] = set()
    for pod in pods:
        slots = volumes.slots(pod.metadata, volumes.of_pod(pod), lookup, placed=True)
        found.update(use.driver for use in (*slots.uses, *slots.migrated))
    return found


def _copy(template: Template, name: str, *, as_upstream: bool) -> tuple[Node, CSINode | None]:
    """The template as a node of that name."""
    own = {HOSTNAME, *template.host_keys}
    labels = {
        label: name if label in own else value
        for label, value in template.node.metadata.labels.items()
    }
    metadata = msgspec.structs.replace(template.node.metadata, name=name, labels=labels)
    node = msgspec.structs.replace(template.node, metadata=metadata)
    csinode = template.csinode
    if csinode is None:
        return node, None
    # Upstream's VolumeBinding looks for a CSINode in the cluster, where a template has none.
    annotations = {} if as_upstream else csinode.metadata.annotations
    metadata = ObjectMeta(name=name, annotations=annotations)
    return node, msgspec.structs.replace(csinode, metadata=metadata)


def _ephemeral_claims(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    owner = OwnerReference(
        api_version="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
    )
    for volume in pod.spec.volumes:
        source = volume.ephemeral
        if source is not None and source.volume_claim_template is not None:
            yield PersistentVolumeClaim(
                metadata=ObjectMeta(
                    name=f"{pod.metadata.name}-{volume.name}",
                    namespace=pod.metadata.namespace,
                    owner_references=(owner,),
                ),
                spec=source.volume_claim_template.spec,
            )
