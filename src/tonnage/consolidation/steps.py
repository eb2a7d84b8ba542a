"""An assignment taken apart into steps: what hangs together, and is worth it only as a whole.

A step is some nodes that go, what is bought for them, and the moves; each has to be worth it on
its own. One that is not is given up, and its pods stay where they are.
"""

from typing import NamedTuple

from tonnage.consolidation.assignment import Assignment
from tonnage.groups.consolidation_options import ConsolidationOptions

NOT_WORTH_THE_MOVES = "not-worth-the-moves"
SAVES_TOO_LITTLE = "saves-too-little"


class StepDraft(NamedTuple):
    """Bins that go, new bins, and items that move; `saving` is of an hour, `cost` of the moves."""

    going: tuple[int, ...]
    new: tuple[int, ...]
    moving: tuple[int, ...]
    saving: float
    replaced_price: float
    cost: float

    @property
    def pay_back_hours(self) -> float:
        """How long it takes until the moves have paid back."""
        return self.cost / self.saving if self.saving > 0 else float("inf")


def drafts(state: Assignment) -> list[StepDraft]:
    """The steps of an assignment; who saves most for what it disturbs comes first."""
    problem = state.problem
    moving = [
        number for number, item in enumerate(problem.items) if state.where[number] != item.home
    ]
    parts = _Parts()
    going = [number for number in range(len(problem.bins)) if not state.open[number]]
    new = [number for number in range(len(problem.bins), len(state.open)) if state.open[number]]
    for number in (*going, *new):
        parts.of(number)
    closed, bought = set(going), set(new)
    making_room = {
        problem.items[item].home for item in moving if problem.items[item].home not in closed
    }
    for item in moving:
        home, target = problem.items[item].home, state.where[item]
        if target in bought or target in making_room or home in making_room:
            parts.join(home, target)
    by_part: dict[int, tuple[list[int], list[int], list[int]]] = {}
    for number in going:
        by_part.setdefault(parts.of(number), ([], [], []))[0].append(number)
    for number in new:
        by_part.setdefault(parts.of(number), ([], [], []))[1].append(number)
    for item in moving:
        by_part.setdefault(parts.of(problem.items[item].home), ([], [], []))[2].append(item)
    found = []
    for nodes, bins, items in by_part.values():
        price = sum(map(state.price, nodes))
        found.append(
            StepDraft(
                tuple(nodes),
                tuple(bins),
                tuple(items),
                price - sum(map(state.price, bins)),
                price,
                sum(problem.items[item].cost for item in items),
            )
        )
    found.sort(key=lambda step: (step.pay_back_hours, -step.saving))
    return found


def refusal(step: StepDraft, options: ConsolidationOptions) -> str | None:
    """Why a step is not worth it; `None` if it is."""
    if step.saving <= 0 or step.saving < options.min_saving:
        return SAVES_TOO_LITTLE
    if not saves_its_share(step, options):
        return SAVES_TOO_LITTLE
    if step.saving * options.horizon / 3600 < step.cost * options.min_saving_per_disruption:
        return NOT_WORTH_THE_MOVES
    return None


def saves_its_share(step: StepDraft, options: ConsolidationOptions) -> bool:
    """Whether so many percent are saved of the price of the nodes that go."""
    return step.saving * 100 >= step.replaced_price * options.min_saving_percent


class _Parts:
    """Bins that hang together."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def of(self, number: int) -> int:
        parent = self._parents.setdefault(number, number)
        while parent != self._parents[parent]:
            parent = self._parents[parent]
        return parent

    def join(self, one: int, other: int) -> None:
        self._parents[self.of(one)] = self.of(other)
