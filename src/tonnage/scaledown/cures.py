"""The smallest change that would let a node go, in a sentence."""

from tonnage.objects import quantities
from tonnage.objects.resources import CPU
from tonnage.scaledown import drain_rules, eligibility
from tonnage.scaledown.codes import KeepCode, PodCode
from tonnage.scaledown.facts import NodeFacts
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import Utilisation
from tonnage.scaledown.volume_zones import VolumeZones


def of(
    code: KeepCode,
    facts: NodeFacts,
    inputs: ScaleDownInputs,
    *,
    shares: Utilisation | None,
    unplaced: str | None,
    zones: VolumeZones,
    kept_room: str = "",
) -> str | None:
    """What to change; `None` where only time helps."""
    group = facts.group.id if facts.group is not None else ""
    match code:
        case KeepCode.BLOCKED_BY_POD:
            return _of_pod(facts)
        case KeepCode.NO_GROUP:
            return "a node group that has this node"
        case KeepCode.GROUP_AT_MIN_SIZE | KeepCode.MIN_SIZE:
            return f"a smaller minSize of group {group}"
        case KeepCode.DISABLED_BY_ANNOTATION:
            return f"no annotation {eligibility.DISABLED} on the node"
        case KeepCode.UNREADY_DISABLED:
            return "the option scaleDownUnreadyEnabled"
        case KeepCode.IN_USE if shares is not None:
            return _less(facts, inputs, shares)
        case KeepCode.WAITS_FOR_COMPLETION:
            return f"completion of {facts.on_completion[0]}"
        case KeepCode.NO_PLACE if unplaced is not None:
            return f"room for {unplaced} on a node that stays"
        case KeepCode.LAST_OF_ZONE:
            reach = zones.last_on(facts)
            volume = f"volume {reach.volume}" if reach is not None else "its volumes"
            return f"another node that {volume} can be used on, or a group that can bring one"
        case KeepCode.KEPT_ROOM:
            return f"less room to be kept ready for {kept_room}"
        case KeepCode.MIN_RESOURCES:
            return "a smaller minimum in coresTotal or memoryTotal"
        case KeepCode.ALL_OR_NOTHING:
            return f"every other node of group {group} to be free as well"
        case _:
            return None


def _of_pod(facts: NodeFacts) -> str | None:
    blocker = facts.blocker
    if blocker is None or blocker.code is None:
        return None
    pod, detail = blocker.pod, facts.blocker_detail
    match PodCode(blocker.code):
        case PodCode.BUDGET:
            return f"one more allowed disruption of {detail}"
        case PodCode.NOT_SAFE_TO_EVICT:
            return f'no annotation {drain_rules.SAFE_TO_EVICT}: "false" on {pod}'
        case PodCode.LOCAL_STORAGE:
            return f"annotation {drain_rules.SAFE_LOCAL_VOLUMES}: {detail} on {pod}"
        case PodCode.NOT_REPLICATED | PodCode.CONTROLLER_NOT_FOUND:
            return f'a controller for {pod}, or annotation {drain_rules.SAFE_TO_EVICT}: "true"'
        case PodCode.MIN_REPLICAS:
            return f"more replicas of the controller of {pod}: it has {detail}"
        case PodCode.SYSTEM_POD:
            return f"a PodDisruptionBudget for {pod}"
    return None


def _less(facts: NodeFacts, inputs: ScaleDownInputs, shares: Utilisation) -> str:
    """How much less its pods would have to request."""
    options = inputs.options_of(facts.group)
    threshold = (
        options.scale_down_utilization_threshold
        if shares.gpu is None
        else options.scale_down_gpu_utilization_threshold
    )
    columns = inputs.snapshot.columns
    column = columns.find_resource(shares.resource)
    if column is None:
        return f"fewer volumes of {shares.resource} on the node"
    excess = (shares.value - threshold) * int(columns.allocatable[column].data[facts.row])
    least = int(excess) + 1
    amount = (
        quantities.render_milli(least)
        if shares.resource == CPU
        else quantities.render(least, binary=True)
    )
    return f"{amount} less {shares.resource} requested on the node"
