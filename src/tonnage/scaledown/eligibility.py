"""Which nodes are looked at at all: candidates, and of those the ones that are idle enough."""

from typing import NamedTuple

from tonnage.groups import node_state, passing_taints
from tonnage.groups.options import policy_of
from tonnage.groups.readiness import COMING_UP, READY
from tonnage.objects.nodes import Node
from tonnage.scaledown import utilisation
from tonnage.scaledown.codes import KeepCode
from tonnage.scaledown.facts import NodeFacts
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import Utilisation

DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
NO_GROUP = "no group"
AT_MIN_SIZE = "group at min size"

_BEING_DELETED = 300.0
"""Seconds in which a deletion taint says that somebody is at work."""


class Eligibility(NamedTuple):
    """`not_candidate` is why a node is not looked at; `code` why it is left alone, or `None`."""

    not_candidate: str | None
    utilisation: Utilisation | None
    ready: bool
    code: KeepCode | None
    message: str = ""


def of(facts: NodeFacts, inputs: ScaleDownInputs) -> Eligibility:
    """Whether the node may go, as far as it alone can tell."""
    ready = is_ready(facts.node, inputs)
    group = facts.group
    if group is None:
        return Eligibility(NO_GROUP, None, ready, KeepCode.NO_GROUP)
    if group.target <= group.min_size:
        message = f"group {group.id} has {group.target} nodes, and no fewer than {group.min_size}"
        return Eligibility(AT_MIN_SIZE, None, ready, KeepCode.GROUP_AT_MIN_SIZE, message)
    shares = utilisation.of(facts, inputs)
    code, message = _why_not(facts, inputs, shares, ready=ready)
    return Eligibility(None, shares, ready, code, message)


def is_ready(node: Node, inputs: ScaleDownInputs) -> bool:
    """Whether the node is ready, drivers included."""
    readiness = inputs.assessed.readiness.nodes.get(node.metadata.name)
    if readiness is not None and readiness.state == READY:
        return True
    missing = readiness is not None and bool(readiness.missing_drivers)
    return not missing and node_state.of(node, policy_of(inputs.options)).ready


def _why_not(
    facts: NodeFacts, inputs: ScaleDownInputs, shares: Utilisation | None, *, ready: bool
) -> tuple[KeepCode | None, str]:
    options, node = inputs.options_of(facts.group), facts.node
    if facts.name in inputs.state.removing or _is_being_deleted(node, inputs.now):
        return KeepCode.BEING_REMOVED, ""
    if node.metadata.annotations.get(DISABLED) == "true":
        return KeepCode.DISABLED_BY_ANNOTATION, f"annotation {DISABLED}"
    if facts.name in inputs.wanted:
        return None, ""
    if not options.as_upstream:
        readiness = inputs.assessed.readiness.nodes.get(facts.name)
        if readiness is not None and readiness.state == COMING_UP:
            return KeepCode.COMING_UP, readiness.reason
    if shares is None:
        return KeepCode.UNKNOWN_UTILISATION, "the node has no allocatable cpu or memory"
    if not ready and not options.scale_down_unready_enabled:
        return KeepCode.UNREADY_DISABLED, ""
    threshold = (
        options.scale_down_utilization_threshold
        if shares.gpu is None
        else options.scale_down_gpu_utilization_threshold
    )
    if shares.value > threshold:
        return KeepCode.IN_USE, f"{shares.resource} {shares.value:.0%}, above {threshold:.0%}"
    return None, ""


def _is_being_deleted(node: Node, now: float) -> bool:
    for taint in node.spec.taints:
        if taint.key == passing_taints.TO_BE_DELETED and taint.value.isdecimal():
            return now - int(taint.value) < _BEING_DELETED
    return False
