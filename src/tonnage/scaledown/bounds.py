"""No fewer nodes than these: what a plan is measured against.

Pods that stay where they are keep their nodes. What the others request must find room on nodes
that stay; were it cut as small as you like, it would still need so many of the largest.
"""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from tonnage.scaledown.facts import NodeFacts
from tonnage.snapshot.nodes import PODS
from tonnage.snapshot.snapshot import Snapshot


def nodes_needed(
    snapshot: Snapshot, fixed: Collection[NodeFacts], free: Sequence[NodeFacts]
) -> int:
    """Of all nodes, how many must stay; `fixed` stay anyway, `free` might go."""
    return len(fixed) + max(_by_group(free), _by_room(snapshot, fixed, free), 0)


def _by_group(free: Sequence[NodeFacts]) -> int:
    """Nodes that groups keep for their minimum."""
    members: dict[str, int] = {}
    spare: dict[str, int] = {}
    for facts in free:
        if facts.group is not None:
            members[facts.group.id] = members.get(facts.group.id, 0) + 1
            spare[facts.group.id] = facts.group.target - facts.group.min_size
    return sum(max(count - max(spare[name], 0), 0) for name, count in members.items())


def _by_room(snapshot: Snapshot, fixed: Collection[NodeFacts], free: Sequence[NodeFacts]) -> int:
    if not free:
        return 0
    columns = snapshot.columns
    stay = np.array([facts.row for facts in fixed], dtype=np.intp)
    go = np.array([facts.row for facts in free], dtype=np.intp)
    most = 0
    moving = Counter(moving.record.pod_class for facts in free for moving in facts.move)
    for number, name in enumerate(columns.resource_names):
        demand = (
            moving.total()
            if number == PODS
            else sum(pods.requests.get(name, 0) * count for pods, count in moving.items())
        )
        has, used = columns.allocatable[number].data, columns.used[number].data
        demand -= int(np.maximum(has[stay] - used[stay], 0).sum())
        most = max(most, _largest_first(demand, has[go]))
    return most


def _largest_first(demand: int, sizes: "np.typing.NDArray[np.int64]") -> int:
    """How many of these, the largest first, hold the demand."""
    if demand <= 0:
        return 0
    total = np.sort(sizes)[::-1].cumsum()
    return min(int(np.searchsorted(total, demand)) + 1, len(sizes))
