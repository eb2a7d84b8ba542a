"""What may go, decided on the live cluster as it is now, and what of it goes together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.scaledown import taints
from tonnage.autoscaler.scaledown.removals import NodeRemoval
from tonnage.autoscaler.scaledown.workloads import Workloads
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node
from tonnage.scaledown import decision
from tonnage.scaledown.decision import ScaleDownDecision
from tonnage.scaledown.decision_cache import DecisionCache
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import Action, NodeDecision
from tonnage.scaledown.state import ScaleDownState
from tonnage.scaleup.assessment import Assessment
from tonnage.snapshot.reservations import Reservation


class Decider:
    """Keeps what it found of nodes from one decision to the next."""

    def __init__(
        self,
        context: AutoscalingContext,
        workloads: Workloads,
        *,
        moving: Callable[[str], Iterable[Reservation]],
    ) -> None:
        """`moving` has the places of pods that move, but for those of the node it is given."""
        self._world = context.world
        self._clock = context.clock
        self._worker = context.worker
        self._workloads = workloads
        self._moving = moving
        self._cache = DecisionCache()
        # A node that is looked at as if it were not marked is another one to all that is kept.
        self._cache_of_objections = DecisionCache()
        self._last: tuple[Assessment, ScaleDownState, AutoscalerConfig] | None = None

    async def decide(
        self, assessed: Assessment, state: ScaleDownState, *, config: AutoscalerConfig
    ) -> ScaleDownDecision:
        """The plan of this moment."""
        self._last = assessed, state, config
        return await self._decided(self.inputs(assessed, state), config)

    def inputs(self, assessed: Assessment, state: ScaleDownState) -> ScaleDownInputs:
        """All that a decision of this moment is made from."""
        return self._inputs(assessed, state, moving=self._moving(""))

    async def objection(self, removal: NodeRemoval) -> str:
        """Why a node that is marked had better stay, by what is known now; empty if it may go."""
        if self._last is None:
            # Not a round since the start: whoever decided it knew what he did.
            return ""
        async with self._world.turn:
            return await self._objection(removal, *self._last)

    async def _objection(
        self,
        removal: NodeRemoval,
        assessed: Assessment,
        state: ScaleDownState,
        config: AutoscalerConfig,
    ) -> str:
        node = self._world.node(removal.node)
        if node is None:
            return "the node is gone"
        others = {name: going for name, going in state.removing.items() if name != removal.node}
        inputs = self._inputs(
            assessed, ScaleDownState(removing=others), moving=self._moving(removal.node)
        )
        inputs = inputs._replace(wanted=frozenset({removal.node}))
        if removal.reason == "consolidation":
            # Of many that go at once each is asked about: the others need not be chosen anew.
            told = await self._judged(inputs, node)
        else:
            found = await self._decided(inputs, config, unmarked=node)
            told = next((one for one in found.plan.nodes if one.node == removal.node), None)
        if told is None or told.goes:
            return ""
        blamed = f", {told.pod}" if told.pod else ""
        return f"{told.code}{blamed}: {told.message or told.frees or told.reason}"

    async def _judged(self, inputs: ScaleDownInputs, node: Node) -> NodeDecision | None:
        """What becomes of the one node, as if it were not marked."""
        snapshot = self._world.snapshot

        def judged() -> NodeDecision | None:
            with snapshot.trial():
                snapshot.put_node(taints.unmarked(node))
                return decision.judge(inputs, node.metadata.name, cache=self._cache)

        with self._world.frozen():
            return await self._worker(judged)

    async def _decided(
        self, inputs: ScaleDownInputs, config: AutoscalerConfig, *, unmarked: Node | None = None
    ) -> ScaleDownDecision:
        """The decision; as if `unmarked` were not marked, everything else about it counts."""
        end = self._clock.monotonic() + (config.scale_down_simulation_timeout or float("inf"))
        snapshot = self._world.snapshot

        def decided() -> ScaleDownDecision:
            with snapshot.trial():
                if unmarked is not None:
                    snapshot.put_node(taints.unmarked(unmarked))
                return decision.decide(
                    inputs,
                    cache=self._cache if unmarked is None else self._cache_of_objections,
                    out_of_time=lambda: self._clock.monotonic() >= end,
                )

        with self._world.frozen():
            return await self._worker(decided)

    def _inputs(
        self, assessed: Assessment, state: ScaleDownState, *, moving: Iterable[Reservation]
    ) -> ScaleDownInputs:
        """What is known now; pods that were pending and are no more are not waited for."""
        known = self._world.snapshot.pods
        pending = [record for record in assessed.pending if known.get(record.key) is record]
        return ScaleDownInputs(
            assessed=msgspec.structs.replace(assessed, pending=pending).beside(moving),
            controllers=self._workloads.controllers(),
            budgets=self._workloads.budgets(),
            state=state,
        )


def begins(one: NodeDecision) -> int:
    """The wave in which the first of its pods is evicted, or an empty node goes."""
    return min((move.wave for move in one.moves), default=one.wave or 1)


def units(
    going: Sequence[NodeDecision], groups: Mapping[str, Group]
) -> Iterator[list[NodeDecision]]:
    """Nodes that go together: all of a group that has all or none, and else each alone.

    Empty ones come first.
    """
    whole: dict[str, list[NodeDecision]] = {}
    single: list[NodeDecision] = []
    for one in going:
        if one.group is not None and groups[one.group].all_or_nothing:
            whole.setdefault(one.group, []).append(one)
        else:
            single.append(one)
    yield from whole.values()
    for action in (Action.DELETE, Action.DRAIN):
        yield from ([one] for one in single if one.action is action)


def beginning(one: NodeDecision) -> str:
    """What is told when a node begins to go, in upstream's words."""
    if one.action is Action.DELETE:
        return f"Scale-down: removing empty node {one.node!r}".replace("'", '"')
    used = one.utilisation
    told = f"{{{used.resource} {used.value:.3f}}}" if used is not None else "unknown"
    pods = ",".join(move.pod for move in one.moves)
    return f"Scale-down: removing node {one.node}, utilization: {told}, pods to reschedule: {pods}"
