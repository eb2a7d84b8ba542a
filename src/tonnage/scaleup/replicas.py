"""The pods of workloads that no controller has seen yet, made as their controllers would.

What a Git repository holds, or `helm template` prints, are StatefulSets and Deployments; what is
decided about are pods and claims. Names are the same for the same manifests. What admission adds
is added too: requests from limits, the default StorageClass, the value of a PriorityClass.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import TypeAlias

import msgspec

from tonnage.errors import InputError
from tonnage.groups import daemons
from tonnage.objects import kinds, resources
from tonnage.objects.kinds import KubeObject
from tonnage.objects.labels import POD_INDEX_LABEL
from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.nodes import Node
from tonnage.objects.phrases import listed
from tonnage.objects.pods import (
    FINISHED,
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
)
from tonnage.objects.storage import ClaimStatus, PersistentVolumeClaim, StorageClass
from tonnage.objects.volume_sources import ClaimReference, VolumeSource
from tonnage.objects.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

Workload: TypeAlias = (
    StatefulSet | Deployment | ReplicaSet | ReplicationController | DaemonSet | Job | CronJob
)

MOST_PODS = 200_000
"""More pods of one workload than this are a slip of the keyboard."""

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class Replicas(msgspec.Struct, frozen=True):
    """What controllers would add to a cluster, and one sentence about each workload."""

    objects: list[KubeObject]
    notes: list[str]


def missing(
    workloads: Iterable[KubeObject], cluster: Iterable[KubeObject], *, replaced: bool = False
) -> Replicas:
    """The pods and claims that the workloads lack among the objects of the cluster.

    A workload that a server has seen (it has a uid) is not touched where the cluster has pods at
    all: the pods that are there are its pods. With `replaced` it is a new version of itself.
    """
    made = Replicas([], [])
    counts: Counter[str] = Counter()
    wanted = [one for one in workloads if isinstance(one, Workload) and not _has_controller(one)]
    if not wanted:
        return made
    known = _Cluster(cluster)
    for workload in wanted:
        if workload.metadata.uid and known.has_pods and not replaced:
            continue
        pods = [known.admitted(pod) for pod in _pods(workload, known)]
        made.objects.extend(known.new_claims(workload, pods))
        made.objects.extend(pods)
        counts[name_of(workload)] += len(pods)
        made.notes.extend(_remarks(workload))
    told = [f"{count:,} of {name}" for name, count in counts.items() if count]
    if told:
        shown = listed(told, most=5) + (" workloads" if len(told) > 5 else "")
        made.notes.insert(0, f"pods made as their controllers would make them: {shown}")
    return made


def recorded_without_pods(objects: Iterable[KubeObject]) -> list[str]:
    """Names of workloads that want pods and have none, in a cluster as it was recorded."""
    held = list(objects)
    wanting = [
        one for one in held if isinstance(one, StatefulSet | Deployment) and one.spec.replicas != 0
    ]
    known = _Cluster(held if wanting else ())
    return [name_of(one) for one in wanting if not known.owned(one)]


def with_default_class(
    claims: Iterable[PersistentVolumeClaim], cluster: Iterable[KubeObject]
) -> list[PersistentVolumeClaim]:
    """The claims that name no class, with the cluster's default class."""
    known = _Cluster(one for one in cluster if isinstance(one, StorageClass))
    return [known.admitted_claim(claim) for claim in claims if known.lacks_class(claim)]


def name_of(workload: KubeObject) -> str:
    meta = workload.metadata
    return f"{kinds.of(workload).kind} {meta.key}"


class _Cluster:
    """What controllers and admission look up."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self.nodes: list[Node] = []
        self.has_pods = False
        self.pods: set[tuple[str, str]] = set()
        self._by_owner: dict[tuple[str, str, str], list[Pod]] = {}
        self._replica_sets: dict[tuple[str, str], list[str]] = {}
        self._claims: set[tuple[str, str]] = set()
        self._priorities: dict[str, PriorityClass] = {}
        self._default_priority: PriorityClass | None = None
        default: list[StorageClass] = []
        for one in objects:
            meta = one.metadata
            if isinstance(one, Pod):
                self._add(one)
            elif isinstance(one, Node):
                self.nodes.append(one)
            elif isinstance(one, ReplicaSet) and meta.controller is not None:
                owner = meta.namespace, meta.controller.name
                self._replica_sets.setdefault(owner, []).append(meta.name)
            elif isinstance(one, PersistentVolumeClaim):
                self._claims.add((meta.namespace, meta.name))
            elif isinstance(one, PriorityClass):
                self._priorities[meta.name] = one
                if one.global_default:
                    self._default_priority = one
            elif isinstance(one, StorageClass) and meta.annotations.get(_DEFAULT_CLASS) == "true":
                default.append(one)
        # Of several the newest counts, and of equally new ones the first by name.
        default.sort(key=lambda one: one.metadata.name)
        default.sort(key=lambda one: one.metadata.creation_timestamp or "", reverse=True)
        self._default_class = default[0].metadata.name if default else None

    def _add(self, pod: Pod) -> None:
        self.has_pods = True
        meta = pod.metadata
        self.pods.add((meta.namespace, meta.name))
        if meta.controller is not None:
            key = meta.namespace, meta.controller.kind, meta.controller.name
            self._by_owner.setdefault(key, []).append(pod)

    def owned(self, workload: Workload) -> list[Pod]:
        """Pods of the workload that have not finished."""
        meta, kind = workload.metadata, type(workload).__name__
        if isinstance(workload, Deployment):
            sets = self._replica_sets.get((meta.namespace, meta.name), [])
            sets = [*sets, _replica_set(workload)]
            found = [
                pod
                for name in dict.fromkeys(sets)
                for pod in self._by_owner.get((meta.namespace, "ReplicaSet", name), ())
            ]
        else:
            found = self._by_owner.get((meta.namespace, kind, meta.name), [])
        return [pod for pod in found if pod.status.phase not in FINISHED]

    def admitted(self, pod: Pod) -> Pod:
        spec = msgspec.structs.replace(
            pod.spec,
            containers=tuple(map(resources.with_requests, pod.spec.containers)),
            init_containers=tuple(map(resources.with_requests, pod.spec.init_containers)),
        )
        if spec.priority is None:
            spec = self._with_priority(spec)
        return msgspec.structs.replace(pod, spec=spec)

    def _with_priority(self, spec: PodSpec) -> PodSpec:
        chosen = self._priorities.get(spec.priority_class_name)
        if not spec.priority_class_name:
            chosen = self._default_priority
        if chosen is not None:
            policy = spec.preemption_policy or chosen.preemption_policy
            return msgspec.structs.replace(spec, priority=chosen.value, preemption_policy=policy)
        system = _SYSTEM_PRIORITIES.get(spec.priority_class_name)
        return spec if system is None else msgspec.structs.replace(spec, priority=system)

    def new_claims(
        self, workload: Workload, pods: Iterable[Pod]
    ) -> Iterator[PersistentVolumeClaim]:
        """Claims of a StatefulSet's templates and of ephemeral volumes that are not there yet."""
        for pod in pods:
            for claim in (*_template_claims(workload, pod), *_ephemeral_claims(pod)):
                key = claim.metadata.namespace, claim.metadata.name
                if key not in self._claims:
                    self._claims.add(key)
                    yield self.admitted_claim(claim)

    def lacks_class(self, claim: PersistentVolumeClaim) -> bool:
        return (
            self._default_class is not None
            and claim.spec.storage_class_name is None
            and not claim.spec.volume_name
            and not claim.metadata.uid
            and not claim.class_name
        )

    def admitted_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        if not self.lacks_class(claim):
            return claim
        spec = msgspec.structs.replace(claim.spec, storage_class_name=self._default_class)
        return msgspec.structs.replace(claim, spec=spec)


def _has_controller(workload: Workload) -> bool:
    """A ReplicaSet of a Deployment, a Job of a CronJob: whoever made it looks after it."""
    return workload.metadata.controller is not None


def _pods(workload: Workload, known: _Cluster) -> list[Pod]:
    match workload:
        case StatefulSet():
            return _ordinals(workload, known)
        case DaemonSet():
            return _daemons(workload, known)
        case CronJob():
            if workload.spec.suspend:
                return []
            job = Job(
                metadata=msgspec.structs.replace(
                    workload.metadata, name=f"{workload.metadata.name}-next", uid=""
                ),
                spec=workload.spec.job_template.spec,
            )
            return _numbered(job, _parallel(job), known, owner=_owner(job))
        case Job():
            return _numbered(workload, _parallel(workload), known, owner=_owner(workload))
        case Deployment():
            owner = OwnerReference(
                api_version="apps/v1",
                kind="ReplicaSet",
                name=_replica_set(workload),
                uid=_uid(workload.metadata, _replica_set(workload)),
                controller=True,
            )
            return _numbered(workload, _wanted(workload), known, owner=owner)
        case _:
            return _numbered(workload, _wanted(workload), known, owner=_owner(workload))


def _wanted(workload: StatefulSet | Deployment | ReplicaSet | ReplicationController) -> int:
    replicas = 1 if workload.spec.replicas is None else workload.spec.replicas
    return _checked(workload, max(replicas, 0))


def _parallel(job: Job) -> int:
    if job.spec.suspend:
        return 0
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is not None:
        parallelism = min(parallelism, job.spec.completions)
    return _checked(job, max(parallelism, 0))


def _checked(workload: Workload, count: int) -> int:
    if count > MOST_PODS:
        raise InputError(f"{name_of(workload)}: {count:,} pods: expected at most {MOST_PODS:,}")
    return count


def _numbered(
    workload: Deployment | ReplicaSet | ReplicationController | Job,
    wanted: int,
    known: _Cluster,
    *,
    owner: OwnerReference,
) -> list[Pod]:
    there = len(known.owned(workload))
    names = _free_names(owner.name, workload.metadata.namespace, known)
    labels: dict[str, str] = {}
    if owner.kind == "ReplicaSet" and owner.name != workload.metadata.name:
        labels = {"pod-template-hash": owner.name.rpartition("-")[2]}
    elif owner.kind == "Job":
        labels = {"job-name": owner.name, "batch.kubernetes.io/job-name": owner.name}
    template = workload.spec.template
    return [
        _pod(
            template, owner, namespace=workload.metadata.namespace, name=next(names), labels=labels
        )
        for _ in range(wanted - there)
    ]


def _free_names(base: str, namespace: str, known: _Cluster) -> Iterator[str]:
    for number in count():
        if (namespace, f"{base}-{number}") not in known.pods:
            yield f"{base}-{number}"


def _ordinals(workload: StatefulSet, known: _Cluster) -> list[Pod]:
    first = workload.spec.ordinals.start if workload.spec.ordinals is not None else 0
    meta = workload.metadata
    there = {pod.metadata.name for pod in known.owned(workload)}
    pods = []
    for ordinal in range(first, first + _wanted(workload)):
        name = f"{meta.name}-{ordinal}"
        if name in there or (meta.namespace, name) in known.pods:
            continue
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            POD_INDEX_LABEL: str(ordinal),
        }
        template = workload.spec.template
        pod = _pod(template, _owner(workload), namespace=meta.namespace, name=name, labels=labels)
        pods.append(_with_claims(pod, workload))
    return pods


def _with_claims(pod: Pod, workload: StatefulSet) -> Pod:
    """The pod with a volume for each template, in place of one of that name in its spec."""
    from_templates = {
        template.metadata.name: VolumeSource(
            name=template.metadata.name,
            persistent_volume_claim=ClaimReference(
                claim_name=f"{template.metadata.name}-{pod.metadata.name}"
            ),
        )
        for template in workload.spec.volume_claim_templates
    }
    others = tuple(one for one in pod.spec.volumes if one.name not in from_templates)
    spec = msgspec.structs.replace(pod.spec, volumes=(*others, *from_templates.values()))
    return msgspec.structs.replace(pod, spec=spec)


def _template_claims(workload: Workload, pod: Pod) -> Iterator[PersistentVolumeClaim]:
    if not isinstance(workload, StatefulSet):
        return
    selector = workload.spec.selector
    for template in workload.spec.volume_claim_templates:
        yield PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=f"{template.metadata.name}-{pod.metadata.name}",
                namespace=pod.metadata.namespace,
                labels={
                    **template.metadata.labels,
                    **(selector.match_labels if selector is not None else {}),
                },
                annotations=template.metadata.annotations,
            ),
            spec=template.spec,
            status=ClaimStatus(phase="Pending"),
        )


def _ephemeral_claims(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is None:
            continue
        yield PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=f"{pod.metadata.name}-{volume.name}",
                namespace=pod.metadata.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
                owner_references=(kinds.owner_reference(pod),),
            ),
            spec=template.spec,
            status=ClaimStatus(phase="Pending"),
        )


def _daemons(workload: DaemonSet, known: _Cluster) -> list[Pod]:
    covered = {pod.spec.node_name for pod in known.owned(workload)}
    made = [
        pod
        for node in known.nodes
        if node.metadata.name not in covered
        for pod in daemons.missing(node, (), [workload], critical_only=False)
    ]
    return [_pinned(pod) for pod in made]


def _pinned(pod: Pod) -> Pod:
    """A daemon's pod before the scheduler has seen it: bound by affinity only."""
    by_name = NodeSelectorRequirement(
        key="metadata.name", operator="In", values=(pod.spec.node_name,)
    )
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(by_name,)),))
    affinity = pod.spec.affinity or Affinity()
    nodes = msgspec.structs.replace(affinity.node_affinity or NodeAffinity(), required=required)
    affinity = msgspec.structs.replace(affinity, node_affinity=nodes)
    spec = msgspec.structs.replace(pod.spec, node_name="", affinity=affinity)
    return msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Pending"))


def _pod(
    template: PodTemplateSpec,
    owner: OwnerReference,
    *,
    namespace: str,
    name: str,
    labels: Mapping[str, str],
) -> Pod:
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=f"{namespace}/{name}",
        labels={**template.metadata.labels, **labels},
        annotations=template.metadata.annotations,
        owner_references=(owner,),
    )
    return Pod(metadata=metadata, spec=template.spec, status=PodStatus(phase="Pending"))


def _owner(workload: Workload) -> OwnerReference:
    meta = workload.metadata
    uid = meta.uid or _uid(meta, f"{kinds.of(workload).kind}/{meta.name}")
    return kinds.owner_reference(workload, uid=uid)


def _uid(meta: ObjectMeta, name: str) -> str:
    return f"{meta.namespace}/{name}"


def _replica_set(workload: Deployment) -> str:
    """The name of the ReplicaSet of its template: the same for the same template."""
    import hashlib  # brings OpenSSL

    text = msgspec.json.encode(workload.spec.template, order="deterministic")
    return f"{workload.metadata.name}-{hashlib.blake2b(text, digest_size=5).hexdigest()}"


def _remarks(workload: Workload) -> Iterator[str]:
    if isinstance(workload, CronJob):
        spec = workload.spec
        how = "it is suspended and has none" if spec.suspend else "those of one run are counted"
        yield f"{name_of(workload)}: {how}"
    elif isinstance(workload, Job) and workload.spec.suspend:
        yield f"{name_of(workload)}: it is suspended and has no pods"
