"""One scheduling attempt: every plugin's PreFilter, then the filters node by node."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from tonnage.objects.pods import Pod
from tonnage.testing.reference import (
    affinity,
    placement,
    room,
    spread,
    volume_attachment,
    volume_binding,
)
from tonnage.testing.reference.cluster import ReferenceCluster
from tonnage.testing.reference.inventory import HostedNode, key
from tonnage.testing.reference.outcomes import (
    ERROR,
    SUCCESS,
    AttemptError,
    PluginRefusal,
    Stance,
    unresolvable,
)

Plugin: TypeAlias = Callable[[ReferenceCluster, Pod], Stance]

CLAIMS_NOT_MODELLED = "resourceClaims are not modelled: DynamicResources may refuse nodes too"


class ReferenceVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What kube-scheduler says about a pod on a node; phase and plugin are empty on success."""

    pod: str
    node: str
    phase: str = ""
    plugin: str = ""
    code: str = SUCCESS
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class _Answer(msgspec.Struct, frozen=True):
    """Who refused, and when."""

    phase: str
    plugin: str
    refusal: PluginRefusal


def plugins(kubernetes_version: tuple[int, int]) -> dict[str, Plugin]:
    """The filters of the default profile, in the order they run."""
    by_name: tuple[str, Plugin] = ("NodeName", placement.node_name)
    by_cordon: tuple[str, Plugin] = ("NodeUnschedulable", placement.node_unschedulable)
    first = (by_name, by_cordon) if kubernetes_version >= (1, 37) else (by_cordon, by_name)
    return {
        **dict(first),
        "TaintToleration": placement.taint_toleration,
        "NodeAffinity": placement.node_affinity,
        "NodePorts": room.node_ports,
        "NodeResourcesFit": room.node_resources_fit,
        "VolumeRestrictions": volume_attachment.volume_restrictions,
        "NodeVolumeLimits": volume_attachment.node_volume_limits,
        "VolumeBinding": volume_binding.volume_binding,
        "VolumeZone": volume_binding.volume_zone,
        "PodTopologySpread": spread.pod_topology_spread,
        "InterPodAffinity": affinity.inter_pod_affinity,
        "NodeDeclaredFeatures": placement.node_declared_features,
    }


def verdicts(cluster: ReferenceCluster, pod: Pod) -> list[ReferenceVerdict]:
    """What the scheduler says about the pod on each node, in the cluster's order of nodes.

    Preemption, nominated pods, extenders and DynamicResources are left out.
    """
    stances = _stances(cluster, pod)
    if isinstance(stances, _Answer):
        return [_verdict(pod, node, stances) for node in cluster.nodes]
    return [
        _verdict(pod, hosted.name, _left_out(stances, hosted.name) or _filtered(stances, hosted))
        for hosted in cluster.nodes.values()
    ]


def verdict(cluster: ReferenceCluster, pod: Pod, node: str) -> ReferenceVerdict:
    """What the scheduler says about the pod on one node."""
    stances = _stances(cluster, pod)
    if isinstance(stances, _Answer):
        return _verdict(pod, node, stances)
    answer = _left_out(stances, node) or _filtered(stances, cluster.nodes[node])
    return _verdict(pod, node, answer)


def _stances(cluster: ReferenceCluster, pod: Pod) -> dict[str, Stance] | _Answer:
    """Every plugin's view of the pod, or the refusal that makes all nodes alike."""
    if pod.spec.scheduling_gates:
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        waiting = unresolvable(f"waiting for scheduling gates: [{gates}]")
        return _Answer("PreEnqueue", "SchedulingGates", waiting)
    stances: dict[str, Stance] = {}
    for name, prepare in plugins(cluster.kubernetes_version).items():
        try:
            stance = prepare(cluster, pod)
        except AttemptError as error:
            failure = PluginRefusal(ERROR, (f'running PreFilter plugin "{name}": {error}',))
            return _Answer("PreFilter", name, failure)
        if stance.refusal is not None:
            return _Answer("PreFilter", name, stance.refusal)
        stances[name] = stance
        named = _narrowing(stances)
        if named and not frozenset.intersection(*named.values()):
            nothing_left = unresolvable(
                f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(named))}] simultaneously"
            )
            return _Answer("PreFilter", name, nothing_left)
    return stances


def _narrowing(stances: dict[str, Stance]) -> dict[str, frozenset[str]]:
    return {name: stance.only for name, stance in stances.items() if stance.only is not None}


def _left_out(stances: dict[str, Stance], node: str) -> _Answer | None:
    named = _narrowing(stances)
    for name, nodes in named.items():
        if node not in nodes:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(named))}]"
            return _Answer("PreFilter", name, unresolvable(reason))
    return None


def _filtered(stances: dict[str, Stance], hosted: HostedNode) -> _Answer | None:
    for name, stance in stances.items():
        try:
            refusal = stance.check(hosted) if stance.check is not None else None
        except AttemptError as error:
            refusal = PluginRefusal(ERROR, (f'running "{name}" filter plugin: {error}',))
        if refusal is not None:
            return _Answer("Filter", name, refusal)
    return None


def _verdict(pod: Pod, node: str, answer: _Answer | None) -> ReferenceVerdict:
    name = key(pod.metadata)
    warnings = (CLAIMS_NOT_MODELLED,) if pod.spec.resource_claims else ()
    if answer is None:
        return ReferenceVerdict(pod=name, node=node, warnings=warnings)
    return ReferenceVerdict(
        pod=name,
        node=node,
        phase=answer.phase,
        plugin=answer.plugin,
        code=answer.refusal.code,
        reasons=answer.refusal.reasons,
        warnings=warnings,
    )
