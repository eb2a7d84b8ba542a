"""In which wave each pod is evicted: within budgets, and one replica of a set at a time.

In a wave all its pods are evicted, each goes to its place, and nodes that are empty by then go.
Budgets are taken to have recovered by the next one. Destinations lose nothing in a plan, so that
no wave counts on room that another would have to make first.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tonnage.groups.scale_down_options import ScaleDownOptions
from tonnage.scaledown.facts import MovingPod, NodeFacts
from tonnage.scaledown.selection import SelectedRemoval

_ONE_AT_A_TIME = ("StatefulSet",)


class ScheduledMove(NamedTuple):
    pod: MovingPod
    row: int
    wave: int


class ScheduledRemoval(NamedTuple):
    """A node, the wave at whose end it goes, and its pods with theirs."""

    facts: NodeFacts
    wave: int
    moves: tuple[ScheduledMove, ...]


def schedule(
    removals: Sequence[SelectedRemoval], options: ScaleDownOptions
) -> list[ScheduledRemoval]:
    """Waves from 1 on, in the order that the nodes were chosen."""
    most = max(options.max_scale_down_parallelism, 1)
    drains = max(options.max_drain_parallelism, 1)
    finished: list[ScheduledRemoval] = []
    empty = [removal for removal in removals if not removal.placed]
    for number, removal in enumerate(empty):
        finished.append(ScheduledRemoval(removal.facts, number // most + 1, ()))
    deleted = Counter(removal.wave for removal in finished)
    waiting = [_Draining(removal) for removal in removals if removal.placed]
    active: list[_Draining] = []
    wave = 0
    while waiting or active:
        wave += 1
        while waiting and len(active) < drains:
            active.append(waiting.pop(0))
        room = _Room()
        for node in active:
            node.evict(wave, room)
        for node in [node for node in active if not node.left]:
            if deleted[wave] >= most:
                continue
            deleted[wave] += 1
            active.remove(node)
            finished.append(ScheduledRemoval(node.facts, wave, tuple(node.moves)))
    order = {removal.facts.name: number for number, removal in enumerate(removals)}
    finished.sort(key=lambda removal: (removal.wave, order[removal.facts.name]))
    return finished


class _Room:
    """What is left of budgets and sets within a wave."""

    def __init__(self) -> None:
        self._evicted: Counter[str] = Counter()
        self._sets: set[tuple[str, str]] = set()

    def takes(self, pod: MovingPod) -> bool:
        """Evict the pod in this wave, if it may be."""
        owner = pod.record.meta.controller
        replica_of = None
        if owner is not None and owner.kind in _ONE_AT_A_TIME:
            replica_of = (pod.record.meta.namespace, owner.name)
            if replica_of in self._sets:
                return False
        if any(self._evicted[one.key] >= one.allowed for one in pod.budgets):
            return False
        for one in pod.budgets:
            self._evicted[one.key] += 1
        if replica_of is not None:
            self._sets.add(replica_of)
        return True


class _Draining:
    """A node that is being emptied."""

    def __init__(self, removal: SelectedRemoval) -> None:
        self.facts = removal.facts
        by_key = {moving.record.key: moving for moving in removal.facts.move}
        self.left = [(by_key[placed.pod.key], placed.row) for placed in removal.placed]
        self.moves: list[ScheduledMove] = []
        # A pod whose budgets allow nothing would never move; it blocks its node instead, unless a
        # rule before that let it go whatever its budget says.
        self._forced = {
            moving.record.key
            for moving, _ in self.left
            if any(budget.allowed < 1 for budget in moving.budgets)
        }

    def evict(self, wave: int, room: _Room) -> None:
        rest = []
        for pod, row in self.left:
            if pod.record.key in self._forced or room.takes(pod):
                self.moves.append(ScheduledMove(pod, row, wave))
            else:
                rest.append((pod, row))
        self.left = rest
