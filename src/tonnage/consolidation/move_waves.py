"""In which order pods move: wave by wave, so that every place is free when it is needed.

In a wave pods are evicted and go to their places, and nodes that are empty by then go. A place
counts as free only if it was so when the wave began: a slot is not free before the volume that
had it is detached. Budgets are taken to have recovered by the next wave. Where pods wait for each
other's places in a circle, one of them goes elsewhere for a while, if need be to a node that is
bought for that.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tonnage.consolidation.assignment import Assignment
from tonnage.consolidation.steps import StepDraft
from tonnage.scaledown.facts import MovingPod
from tonnage.scaledown.waves import WaveAllowance


class PlannedMove(NamedTuple):
    """An item that goes from one bin to another in a wave."""

    item: int
    source: int
    target: int
    wave: int


class WavePlan(NamedTuple):
    """Moves in their order; the wave at whose end each bin goes; new bins that are only a stop."""

    moves: list[PlannedMove]
    deleted: dict[int, int]
    spares: list[int]
    stuck: set[int]
    """Nodes that do not go: there is no way round for their pods."""


def schedule(
    state: Assignment,
    steps: Sequence[StepDraft],
    pods: Sequence[MovingPod],
    *,
    at_once: Callable[[bool, int], int],
) -> WavePlan:
    """Waves from 1 on. `at_once` says how many nodes may be on their way out, by whether they are
    empty, and beside how many empty ones."""
    return _Waves(state, steps, pods, at_once).run()


class _Waves:
    def __init__(
        self,
        state: Assignment,
        steps: Sequence[StepDraft],
        pods: Sequence[MovingPod],
        at_once: Callable[[bool, int], int],
    ) -> None:
        self._state = state
        self._pods = pods
        self._at_once = at_once
        problem = state.problem
        self._free = [list(one.free) for one in problem.bins]
        for number in range(len(problem.bins), len(state.open)):
            self._free.append(list(problem.templates[state.template_of[number]].free))
        self._where = {item: problem.items[item].home for step in steps for item in step.moving}
        self._target = {item: state.where[item] for item in self._where}
        self._waiting = list(self._where)
        going = [number for step in steps for number in step.going]
        holds = Counter(self._where.values())
        self._empty = [number for number in going if not holds[number]]
        self._draining = [number for number in going if holds[number]]
        self._left = Counter({number: holds[number] for number in self._draining})
        self._new = {number for step in steps for number in step.new}
        self._closed = set(going)
        self._plan = WavePlan([], {}, [], set())

    def run(self) -> WavePlan:
        most = max(self._at_once(True, 0), 1)
        for position, number in enumerate(self._empty):
            self._plan.deleted[number] = position // most + 1
        self._empty_in = Counter(self._plan.deleted.values())
        wave = 0
        while self._waiting:
            wave += 1
            made = self._wave(wave)
            if not made and not self._empty_in[wave] and not self._detour(wave):
                self._plan.stuck.update(self._where[item] for item in self._waiting)
                break
        last = max(self._plan.deleted.values(), default=wave)
        for number in self._plan.spares:
            self._plan.deleted[number] = max(last, wave)
        return self._plan

    def _wave(self, wave: int) -> int:
        """Make all moves that can be made now; gives how many."""
        free: dict[int, list[int]] = {}
        allowance = WaveAllowance()
        active = self._active(wave)
        made: list[PlannedMove] = []
        rest: list[int] = []
        for item in self._waiting:
            source, target = self._where[item], self._target[item]
            room = free.get(target)
            if room is None:
                room = free[target] = list(self._free[target])
            fits = all(room[dimension] >= amount for dimension, amount in self._needs(item))
            allowed = source not in self._closed or source in active
            if not fits or not allowed or not _may_be_evicted(self._pods[item], allowance):
                rest.append(item)
                continue
            self._take(room, item, 1)
            made.append(PlannedMove(item, source, target, wave))
        self._waiting = rest
        self._carry_out(made, wave)
        return len(made)

    def _active(self, wave: int) -> set[int]:
        """Nodes that are on their way out: no more than may be at once, beside empty ones."""
        left = [number for number in self._draining if self._left[number]]
        beside = self._empty_in[wave]
        return set(left[: max(self._at_once(False, beside), 0 if beside else 1)])

    def _detour(self, wave: int) -> bool:
        """Let a pod of a circle stop elsewhere; false if there is nowhere it could.

        Nobody waits for a place on a node that goes, so that its pods are in no circle.
        """
        for item in self._waiting:
            source = self._where[item]
            if source in self._closed:
                continue
            stop = self._stop_for(item)
            if stop is not None:
                # It goes on from there once its place is free.
                self._carry_out([PlannedMove(item, source, stop, wave)], wave)
                return True
        return False

    def _stop_for(self, item: int) -> int | None:
        kind = self._state.problem.items[item].kind
        for number, free in enumerate(self._free):
            if number in self._closed or number in (self._where[item], self._target[item]):
                continue
            known = number < len(self._state.open)
            if known and number >= len(self._state.problem.bins) and number not in self._new:
                continue
            if self._state.suits(kind, number) and all(
                free[dimension] >= amount for dimension, amount in self._needs(item)
            ):
                return number
        for template, one in enumerate(self._state.problem.templates):
            if (
                self._state.kinds[kind].templates[template]
                and self._state.room(template) > 0
                and all(one.free[dimension] >= amount for dimension, amount in self._needs(item))
            ):
                number = self._state.buy(template)
                self._free.append(list(one.free))
                self._plan.spares.append(number)
                self._new.add(number)
                return number
        return None

    def _carry_out(self, made: Sequence[PlannedMove], wave: int) -> None:
        for move in made:
            self._take(self._free[move.source], move.item, -1)
            self._take(self._free[move.target], move.item, 1)
            self._where[move.item] = move.target
            self._plan.moves.append(move)
            if move.source in self._left:
                self._left[move.source] -= 1
                if not self._left[move.source]:
                    self._plan.deleted[move.source] = wave

    def _needs(self, item: int) -> tuple[tuple[int, int], ...]:
        return self._state.kinds[self._state.problem.items[item].kind].needs

    def _take(self, free: list[int], item: int, sign: int) -> None:
        for dimension, amount in self._needs(item):
            free[dimension] -= sign * amount


def _may_be_evicted(pod: MovingPod, allowance: WaveAllowance) -> bool:
    """Within its budgets, unless a rule let the pod go whatever they say."""
    return any(budget.allowed < 1 for budget in pod.budgets) or allowance.takes(pod)
