"""What of a pod has changed between two versions of it."""

import msgspec

from tonnage.objects.meta import Condition
from tonnage.objects.pods import Pod


def only_told(before: Pod, pod: Pod) -> bool:
    """Whether the pod is the same but for its version and its PodScheduled condition."""
    one, other = before.metadata, pod.metadata
    if one.uid != other.uid or before.spec != pod.spec:
        return False
    if one != msgspec.structs.replace(other, resource_version=one.resource_version):
        return False
    was, now = before.status, pod.status
    return was == msgspec.structs.replace(now, conditions=was.conditions) and (
        _of_others(was.conditions) == _of_others(now.conditions)
    )


def _of_others(conditions: tuple[Condition, ...]) -> list[Condition]:
    return [condition for condition in conditions if condition.type != "PodScheduled"]
