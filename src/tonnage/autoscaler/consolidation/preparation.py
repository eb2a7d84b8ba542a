"""What has to be done before the nodes of a step can go: nodes to buy, pods that make room."""

from collections.abc import Callable
from typing import NamedTuple

from tonnage.autoscaler.consolidation.memory import PodRelocation
from tonnage.consolidation.plan import ConsolidationPlan, ConsolidationStep
from tonnage.objects.phrases import counted, listed
from tonnage.objects.pods import Pod


class StepPreparation(NamedTuple):
    """`planned` are the names that the plan has for nodes to buy, by group; of these, `spares` are
    only a stop for pods."""

    step: ConsolidationStep
    relocations: tuple[PodRelocation, ...]
    planned: dict[str, tuple[str, ...]]
    spares: tuple[str, ...]

    @property
    def bought(self) -> dict[str, int]:
        return {group: len(names) for group, names in self.planned.items()}

    @property
    def told(self) -> str:
        """What is done, and what for."""
        words = []
        if self.planned:
            counts = ", ".join(f"{count} of {group}" for group, count in self.bought.items())
            words.append(f"buying {counts}{f' ({len(self.spares)} spare)' if self.spares else ''}")
        if self.relocations:
            pods = listed(sorted({move.pod for move in self.relocations}))
            words.append(f"making room by moving {pods}")
        step = self.step
        return (
            f"Consolidation: {' and '.join(words)} to replace {counted(len(step.nodes), 'node')}:"
            f" {listed(list(step.nodes))}; saves {step.saves_per_hour} an hour, the moves pay back"
            f" in {step.pays_back_in:.0f} s"
        )


def of(
    plan: ConsolidationPlan, number: int, pod: Callable[[str], Pod | None]
) -> StepPreparation | None:
    """What comes first in a step, by its number from 1 on; `None` if its nodes can go at once.

    Moves from nodes that stay make room, and come before all others: nobody waits for a place on a
    node that goes. `pod` finds a pod by its namespace/name.
    """
    step = plan.steps[number - 1]
    going = {node.node for node in plan.going}
    moves = [move for move in plan.moves if move.step == number and move.source not in going]
    if not step.buys and not moves:
        return None
    relocations: list[PodRelocation] = []
    for move in moves:
        known = pod(move.pod)
        owner = known.metadata.controller if known is not None else None
        relocations.append(
            PodRelocation(
                pod=move.pod,
                controller=owner.uid if owner is not None else "",
                source=move.source,
                to=move.to,
                wave=move.wave,
                stopped=any(move.pod == before.pod for before in relocations),
            )
        )
    stops = {move.to for move in moves}
    planned: dict[str, tuple[str, ...]] = {}
    for one in (*step.buys, *(one for one in plan.buys if one.spare)):
        names = tuple(name for name in one.nodes if not one.spare or name in stops)
        if names:
            planned[one.group] = (*planned.get(one.group, ()), *names)
    spares = (name for one in plan.buys if one.spare for name in one.nodes if name in stops)
    return StepPreparation(step, tuple(relocations), planned, tuple(spares))
