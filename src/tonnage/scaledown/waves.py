"""In which wave each pod is evicted: within budgets, and one replica of a set at a time.

In a wave all its pods are evicted, each goes to its place, and nodes that are empty by then go.
Budgets are taken to have recovered by the next one. Destinations lose nothing in a plan, so that
no wave counts on room that another would have to make first.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tonnage.groups.scale_down_options import ScaleDownOptions
from tonnage.scaledown.facts import MovingPod, NodeFacts
from tonnage.scaledown.relocation import Relocated
from tonnage.scaledown.selection import SelectedRemoval


class ScheduledMove(NamedTuple):
    pod: MovingPod
    row: int
    wave: int


class ScheduledRemoval(NamedTuple):
    """A node, the wave at whose end it goes, and its pods with theirs."""

    facts: NodeFacts
    wave: int
    moves: tuple[ScheduledMove, ...]
    placed: tuple[Relocated, ...] = ()


def schedule(
    removals: Sequence[SelectedRemoval],
    options: ScaleDownOptions,
    before: Mapping[str, ScheduledRemoval] = MappingProxyType({}),
) -> list[ScheduledRemoval]:
    """Waves from 1 on, in the order that the nodes were chosen.

    `before` is how nodes were scheduled the last time: moves that are still the same are the same
    objects.
    """
    most = max(options.max_scale_down_parallelism, 1)
    drains = max(options.max_drain_parallelism, 1)
    finished: list[ScheduledRemoval] = []
    empty = [removal for removal in removals if not removal.placed]
    for number, removal in enumerate(empty):
        finished.append(ScheduledRemoval(removal.facts, number // most + 1, ()))
    deleted = Counter(removal.wave for removal in finished)
    waiting = deque(
        _Draining(removal, before.get(removal.facts.name)) for removal in removals if removal.placed
    )
    active: list[_Draining] = []
    wave = 0
    while waiting or active:
        wave += 1
        while waiting and len(active) < drains:
            active.append(waiting.popleft())
        room = WaveAllowance()
        for node in active:
            node.evict(wave, room)
        for node in [node for node in active if node.is_empty]:
            if deleted[wave] >= most:
                continue
            deleted[wave] += 1
            active.remove(node)
            finished.append(node.finished(wave))
    order = {removal.facts.name: number for number, removal in enumerate(removals)}
    finished.sort(key=lambda removal: (removal.wave, order[removal.facts.name]))
    return finished


class WaveAllowance:
    """What is left of budgets and sets within a wave."""

    def __init__(self) -> None:
        self._evicted: Counter[str] = Counter()
        self._sets: set[str] = set()

    def takes(self, pod: MovingPod) -> bool:
        """Evict the pod in this wave, if it may be."""
        if pod.replica_of in self._sets:
            return False
        if any(self._evicted[one.key] >= one.allowed for one in pod.budgets):
            return False
        for one in pod.budgets:
            self._evicted[one.key] += 1
        if pod.replica_of is not None:
            self._sets.add(pod.replica_of)
        return True


class _Draining:
    """A node that is being emptied."""

    def __init__(self, removal: SelectedRemoval, before: ScheduledRemoval | None) -> None:
        self._facts = removal.facts
        self._placed = tuple(removal.placed)
        self._before = before
        self._moves: list[ScheduledMove] = []
        self._at_once = 0
        """The wave in which all pods go, where none has to wait for others."""
        self._left = self._pods() if removal.facts.is_paced else []
        # A pod whose budgets allow nothing would never move; it blocks its node instead, unless a
        # rule before that let it go whatever its budget says.
        self._forced = {
            moving.record.key
            for moving, _ in self._left
            if any(budget.allowed < 1 for budget in moving.budgets)
        }

    @property
    def is_empty(self) -> bool:
        return not self._left

    def evict(self, wave: int, room: WaveAllowance) -> None:
        self._at_once = self._at_once or wave
        rest = []
        for pod, row in self._left:
            if pod.record.key in self._forced or room.takes(pod):
                self._moves.append(ScheduledMove(pod, row, wave))
            else:
                rest.append((pod, row))
        self._left = rest

    def finished(self, wave: int) -> ScheduledRemoval:
        if self._facts.is_paced:
            return ScheduledRemoval(self._facts, wave, tuple(self._moves), self._placed)
        before = self._before
        if before is not None and before.placed == self._placed and self._moved_then(before):
            return ScheduledRemoval(self._facts, wave, before.moves, self._placed)
        moves = tuple(ScheduledMove(pod, row, self._at_once) for pod, row in self._pods())
        return ScheduledRemoval(self._facts, wave, moves, self._placed)

    def _moved_then(self, before: ScheduledRemoval) -> bool:
        """Whether the pods were the same, and all moved in this wave."""
        return (
            before.facts.move == self._facts.move
            and not before.facts.is_paced
            and before.moves[0].wave == self._at_once
        )

    def _pods(self) -> list[tuple[MovingPod, int]]:
        by_key = {moving.record.key: moving for moving in self._facts.move}
        return [(by_key[placed.pod.key], placed.row) for placed in self._placed]
