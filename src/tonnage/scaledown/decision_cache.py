"""What one decision leaves for the next: found anew only where something has changed."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tonnage.groups.scale_down_options import ScaleDownOptions
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSIDriver, CSINode
from tonnage.scaledown import bins, waves
from tonnage.scaledown.facts import FactCache, MovingPod, NodeFacts
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.node_pools import NodePools
from tonnage.scaledown.plan import Move
from tonnage.scaledown.portability import PodKinds
from tonnage.scaledown.selection import KeptChoice, SelectedRemoval
from tonnage.scaledown.volume_zones import VolumeZones
from tonnage.scaledown.waves import ScheduledMove, ScheduledRemoval
from tonnage.snapshot.records import NodeRecord

_SPARE = 1000
"""Pods that are gone and still known, before all are found anew."""


class KindsOnNode(NamedTuple):
    """Whether some pods of a node are followed by name, and whether counting is enough for all."""

    move: tuple[MovingPod, ...]
    by_name: bool
    countable: bool


class _KindsBasis(NamedTuple):
    """What of nodes and drivers decides where pods may go, however much room there is."""

    nodes: dict[str, NodeRecord]
    csinodes: dict[str, CSINode]
    drivers: list[CSIDriver]

    def holds_for(self, now: "_KindsBasis") -> bool:
        """Whether nothing of it has changed but that nodes are gone."""
        return (
            now.drivers == self.drivers
            and all(_alike(self.nodes.get(name), node) for name, node in now.nodes.items())
            and all(
                _register_alike(self.csinodes.get(name), now.csinodes.get(name))
                for name in now.nodes
            )
        )


class DecisionCache:
    """Holds nothing that could not be found again; a decision without it comes to the same."""

    def __init__(self) -> None:
        self._facts = FactCache()
        self.pools = NodePools()
        self._kinds: PodKinds | None = None
        self._kinds_of: _KindsBasis | None = None
        self._kinds_on: dict[str, KindsOnNode] = {}
        self.could_go, self.in_time = KeptChoice(), KeptChoice()
        """Who was chosen of all that could go, and of those whose time had come."""
        self._scheduled: dict[str, ScheduledRemoval] = {}
        self._moves: dict[str, tuple[tuple[ScheduledMove, ...], tuple[Move, ...]]] = {}
        self._zones: VolumeZones | None = None
        self._zones_of: tuple[object, ...] = ()

    def facts(
        self,
        inputs: ScaleDownInputs,
        promised: Mapping[str, Sequence[Pod]],
        *,
        only: str | None = None,
    ) -> dict[str, NodeFacts]:
        """What is known of all nodes; with `only` of one node anew, of the others as it was."""
        if only is None:
            return self._facts.of(inputs, promised)
        known = self._facts.with_fresh(inputs, only)
        return known if len(known) > 1 else FactCache(only=only).of(inputs, promised)

    def kinds(self, inputs: ScaleDownInputs) -> PodKinds:
        """Kinds of pods, while nodes and drivers are what they were and nobody keeps apart.

        A node that is gone takes nobody in, so that the others need not be asked again.
        """
        snapshot = inputs.snapshot
        basis = _KindsBasis(
            {**snapshot.nodes}, {**snapshot.csinodes}, list(snapshot.storage.drivers.values())
        )
        told_by_pods = bool(snapshot.problem_pods) or bool(snapshot.anti_terms.terms)
        if (
            self._kinds is None
            or self._kinds_of is None
            or told_by_pods
            or not self._kinds_of.holds_for(basis)
            or self._kinds.size > 2 * len(snapshot.pods) + _SPARE
        ):
            self._kinds = PodKinds(snapshot, inputs.features)
            # A row may be another node's by now.
            self._kinds_on, self._scheduled, self._moves = {}, {}, {}
        self._kinds_of = basis
        return self._kinds

    def kinds_on(self, facts: NodeFacts) -> KindsOnNode:
        """What kinds the pods of a node are that would have to move."""
        known = self._kinds_on.get(facts.name)
        if known is None or known.move is not facts.move:
            assert self._kinds is not None
            kinds = [self._kinds.of(moving.record) for moving in facts.move]
            known = KindsOnNode(facts.move, None in kinds, all(map(bins.suits, kinds)))
            self._kinds_on[facts.name] = known
        return known

    def schedule(
        self, removals: Sequence[SelectedRemoval], options: ScaleDownOptions
    ) -> list[ScheduledRemoval]:
        """The nodes in waves; the moves of a node that goes as before are the same objects."""
        scheduled = waves.schedule(removals, options, self._scheduled)
        self._scheduled = {removal.facts.name: removal for removal in scheduled}
        return scheduled

    def told(
        self, removal: ScheduledRemoval, tell: Callable[[ScheduledRemoval], tuple[Move, ...]]
    ) -> tuple[Move, ...]:
        """The moves as the plan has them."""
        known = self._moves.get(removal.facts.name)
        if known is None or known[0] is not removal.moves:
            known = self._moves[removal.facts.name] = (removal.moves, tell(removal))
        return known[1]

    def zones(self, inputs: ScaleDownInputs, *, anew: bool) -> VolumeZones:
        """Where volumes can be used; unless `anew`, as the last decision found it."""
        if self._zones is not None and not anew:
            return self._zones
        snapshot, options = inputs.snapshot, inputs.options
        templates = inputs.assessed.templates.by_group
        basis: tuple[object, ...] = (
            options.keep_zones_of_volumes and not options.as_upstream,
            tuple(snapshot.storage.claims.values()),
            tuple(snapshot.storage.volumes.values()),
            tuple((one.row, one.node) for one in snapshot.nodes.values()),
            tuple((id, template.node) for id, template in templates.items()),
            inputs.groups,
        )
        if self._zones is None or self._zones_of != basis:
            self._zones, self._zones_of = VolumeZones(inputs), basis
        return self._zones


def _alike(before: NodeRecord | None, now: NodeRecord) -> bool:
    """Whether a node is to pods what it was; its signs of life do not matter."""
    if before is now:
        return True
    if before is None or before.row != now.row:
        return False
    old, new = before.node, now.node
    return old is new or (
        old.metadata.labels == new.metadata.labels
        and old.spec.unschedulable == new.spec.unschedulable
        and _hard_taints(old) == _hard_taints(new)
        and old.status.allocatable.keys() == new.status.allocatable.keys()
        and old.status.declared_features == new.status.declared_features
    )


def _hard_taints(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect != "PreferNoSchedule"]


def _register_alike(before: CSINode | None, now: CSINode | None) -> bool:
    return before is now or (
        before is not None
        and now is not None
        and before.spec == now.spec
        and before.metadata.annotations == now.metadata.annotations
    )
