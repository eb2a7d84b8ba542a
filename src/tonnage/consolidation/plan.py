"""A consolidation plan: what is bought, what goes, in which waves, and what that is worth."""

from tonnage.objects.meta import Record, WholeRecord
from tonnage.objects.scenarios import API_VERSION
from tonnage.scaledown.plan import Action


class NodePurchase(WholeRecord, frozen=True, kw_only=True):
    """New nodes of a group; `spare` ones are only a stop for pods, and go again."""

    group: str
    nodes: tuple[str, ...]
    price_per_hour: str | None = None
    spare: bool = False


class PodMove(WholeRecord, frozen=True, kw_only=True):
    """A pod that moves: how long it is away, what that costs, and the volumes that go along.

    `step` is the number of the step that it is part of, from 1 on.
    """

    pod: str
    source: str
    to: str
    wave: int
    detach: tuple[str, ...] = ()
    seconds: float = 0.0
    cost: str = "0"
    step: int = 0


class ConsolidationStep(WholeRecord, frozen=True, kw_only=True):
    """Nodes that go together for what is bought; worth it on its own."""

    nodes: tuple[str, ...]
    buys: tuple[NodePurchase, ...] = ()
    moves: int = 0
    saves_per_hour: str = "0"
    saves_percent: float = 0.0
    cost: str = "0"
    pays_back_in: float = 0.0
    """Seconds until the moves have paid back."""


class ConsolidatedNode(Record, frozen=True, kw_only=True):
    """What becomes of a node, and why. One that goes is deleted at the end of its `wave`."""

    node: str
    group: str | None
    action: Action
    step: int | None = None
    wave: int | None = None
    saves: str | None = None
    code: str | None = None
    message: str | None = None
    pod: str | None = None
    until: str | None = None

    @property
    def goes(self) -> bool:
        return self.action is not Action.KEEP


class MissedSaving(WholeRecord, frozen=True, kw_only=True):
    """What could have been saved in an hour and was not, and why."""

    reason: str
    nodes: tuple[str, ...]
    saves_per_hour: str


class CostOfNodes(WholeRecord, frozen=True, kw_only=True):
    """What all nodes cost in an hour: now, after the plan, and at least. Without prices: nodes."""

    unit: str = "price"
    before: str = "0"
    after: str = "0"
    bound: str = "0"
    nodes_before: int = 0
    nodes_after: int = 0


class ConsolidationPlan(WholeRecord, frozen=True, kw_only=True):
    """Replaying it is valid at every moment.

    First all is bought. Then wave by wave: each pod of the wave to its place, every one of which
    was free when the wave began, then the deletion of the nodes of the wave.
    """

    api_version: str = API_VERSION
    kind: str = "ConsolidationPlan"
    steps: tuple[ConsolidationStep, ...] = ()
    buys: tuple[NodePurchase, ...] = ()
    moves: tuple[PodMove, ...] = ()
    nodes: tuple[ConsolidatedNode, ...] = ()
    missed: tuple[MissedSaving, ...] = ()
    cost: CostOfNodes = CostOfNodes()
    saves_per_hour: str = "0"
    cost_of_moves: str = "0"
    horizon: float = 0.0
    partial: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def going(self) -> tuple[ConsolidatedNode, ...]:
        return tuple(node for node in self.nodes if node.goes)
