"""May a pod be moved off its node? Upstream's rules, each a function, in upstream's order.

The first rule that says something decides. A pod of which none says anything is evicted and
needs another place.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tonnage.groups import daemons
from tonnage.groups.scale_down_options import ScaleDownOptions
from tonnage.objects import timestamps
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.volume_sources import VolumeSource
from tonnage.scaledown import controllers
from tonnage.scaledown.budgets import AllowedDisruptions
from tonnage.scaledown.codes import PodCode
from tonnage.scaledown.controllers import Controllers
from tonnage.scaledown.plan import Drain

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
ON_COMPLETION = "on-completion"

_SYSTEM_NAMESPACE = "kube-system"
_REPLICATED = ("ReplicationController", "Job", "ReplicaSet", "StatefulSet")
_LATE = 30.0
"""Seconds past its grace after which a pod that is being deleted counts no more."""
_GRACE = 30


class DrainVerdict(NamedTuple):
    """What a rule says of a pod; `until` is when it would say something else by time alone."""

    drain: Drain
    code: PodCode | None = None
    detail: str = ""
    until: float = math.inf


class DrainQuestion(NamedTuple):
    """A pod, and what the rules look at beside it."""

    pod: Pod
    budgets: tuple[AllowedDisruptions, ...]
    controllers: Controllers
    options: ScaleDownOptions
    now: float
    has_stand_in: bool = False
    """Whether a second replica is started before the pod goes."""


DrainRule: TypeAlias = Callable[[DrainQuestion], DrainVerdict | None]

_MOVES = DrainVerdict(Drain.UNDEFINED)
_OK = DrainVerdict(Drain.OK)
_SKIP = DrainVerdict(Drain.SKIP)
_WAIT = DrainVerdict(Drain.WAIT)


def judge(question: DrainQuestion) -> DrainVerdict:
    """What becomes of the pod when its node goes."""
    until = ends_at(question.pod)
    if until <= question.now:
        until = math.inf
    for rule in RULES:
        verdict = rule(question)
        if verdict is not None:
            return verdict if verdict.until <= until else verdict._replace(until=until)
    return _MOVES if until == math.inf else _MOVES._replace(until=until)


def mirror(question: DrainQuestion) -> DrainVerdict | None:
    """A static pod's image in the API goes with its node."""
    return _SKIP if daemons.is_mirror(question.pod) else None


def long_terminating(question: DrainQuestion) -> DrainVerdict | None:
    """A pod that should be gone by now is not waited for."""
    return _SKIP if is_overdue(question.pod, question.now) else None


def replica_count(question: DrainQuestion) -> DrainVerdict | None:
    """The controller must be there to make the pod again, and want enough of them."""
    if not question.options.skip_nodes_with_custom_controller_pods:
        return None
    pod = question.pod
    owner = pod.metadata.controller
    if owner is None or owner.kind not in controllers.KINDS:
        return None
    found = question.controllers.find(pod.metadata.namespace, owner)
    if found is None:
        return _blocked(PodCode.CONTROLLER_NOT_FOUND, f"{owner.kind} {owner.name}")
    least = question.options.min_replica_count
    counted = owner.kind in ("ReplicationController", "ReplicaSet")
    if counted and found.replicas is not None and found.replicas < least:
        return _blocked(PodCode.MIN_REPLICAS, f"{found.replicas} of {least}")
    return None


def daemon_set(question: DrainQuestion) -> DrainVerdict | None:
    """A pod of a DaemonSet goes with its node."""
    return _OK if daemons.is_daemon(question.pod.metadata) else None


def safe_to_evict(question: DrainQuestion) -> DrainVerdict | None:
    """The annotation says that it may be evicted, whatever the rules after this one say."""
    return _OK if _annotation(question.pod) == "true" else None


def terminal(question: DrainQuestion) -> DrainVerdict | None:
    """A pod that has finished has nothing to lose."""
    return _OK if question.pod.status.phase in FINISHED else None


def on_completion(question: DrainQuestion) -> DrainVerdict | None:
    """The annotation asks to let it finish."""
    return _WAIT if _annotation(question.pod) == ON_COMPLETION else None


def replicated(question: DrainQuestion) -> DrainVerdict | None:
    """Without a controller nobody would make the pod again."""
    owner = question.pod.metadata.controller
    if owner is None:
        return _blocked(PodCode.NOT_REPLICATED)
    if question.options.skip_nodes_with_custom_controller_pods and owner.kind not in _REPLICATED:
        return _blocked(PodCode.NOT_REPLICATED, f"{owner.kind} {owner.name}")
    return None


def system(question: DrainQuestion) -> DrainVerdict | None:
    """A pod of kube-system that no budget speaks of blocks for a while, and not after that."""
    pod = question.pod
    if not question.options.skip_nodes_with_system_pods:
        return None
    if pod.metadata.namespace != _SYSTEM_NAMESPACE or question.budgets:
        return None
    born = timestamps.moment(pod.metadata.creation_timestamp)
    ends = -math.inf
    if born is not None:
        ends = born + question.options.blocking_system_pod_distruption_timeout
    if ends < question.now:
        return _OK
    return DrainVerdict(Drain.BLOCK, PodCode.SYSTEM_POD, until=ends)


def not_safe_to_evict(question: DrainQuestion) -> DrainVerdict | None:
    """The annotation forbids it."""
    if _annotation(question.pod) == "false":
        return _blocked(PodCode.NOT_SAFE_TO_EVICT)
    return None


def local_storage(question: DrainQuestion) -> DrainVerdict | None:
    """Data on the node's own disk would be lost, unless the pod names the volume as safe."""
    if not question.options.skip_nodes_with_local_storage:
        return None
    volumes = question.pod.spec.volumes
    if not volumes:
        return None
    named = question.pod.metadata.annotations.get(SAFE_LOCAL_VOLUMES, "")
    safe = {name.strip() for name in named.split(",")}
    for volume in volumes:
        if is_local(volume) and volume.name not in safe:
            return _blocked(PodCode.LOCAL_STORAGE, volume.name)
    return None


def disruption_budget(question: DrainQuestion) -> DrainVerdict | None:
    """A budget that allows no eviction at the moment, nor with a second replica that is started."""
    for budget in question.budgets:
        if budget.allowed < 1 and not (question.has_stand_in and budget.met_by_one_more):
            return _blocked(PodCode.BUDGET, budget.key)
    return None


RULES: tuple[DrainRule, ...] = (
    mirror,
    long_terminating,
    replica_count,
    daemon_set,
    safe_to_evict,
    terminal,
    on_completion,
    replicated,
    system,
    not_safe_to_evict,
    local_storage,
    disruption_budget,
)


def is_overdue(pod: Pod, now: float) -> bool:
    """Whether the pod is being deleted for longer than its grace and a little more."""
    return pod.metadata.deletion_timestamp is not None and ends_at(pod) < now


def ends_at(pod: Pod) -> float:
    """When a pod that is being deleted is given up; never for any other."""
    deleted = timestamps.moment(pod.metadata.deletion_timestamp)
    if deleted is None:
        return math.inf
    grace = pod.spec.termination_grace_period_seconds
    return deleted + (_GRACE if grace is None else grace) + _LATE


def _blocked(code: PodCode, detail: str = "") -> DrainVerdict:
    return DrainVerdict(Drain.BLOCK, code, detail)


def _annotation(pod: Pod) -> str | None:
    return pod.metadata.annotations.get(SAFE_TO_EVICT)


def is_local(volume: VolumeSource) -> bool:
    scratch = volume.empty_dir
    return volume.host_path is not None or (scratch is not None and scratch.medium != "Memory")
