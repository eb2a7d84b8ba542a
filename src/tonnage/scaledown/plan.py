"""A scale-down plan: which nodes go, in which waves, and why the others stay; versioned output.

Reasons are upstream's names, as users' tools know them; `code` is our own and stable (`codes`).
"""

from enum import StrEnum

from tonnage.objects.meta import Record
from tonnage.objects.scenarios import API_VERSION


class Action(StrEnum):
    """What becomes of a node: it goes as it is, it goes once its pods have moved, it stays."""

    DELETE = "delete"
    DRAIN = "drain"
    KEEP = "keep"


class Drain(StrEnum):
    """What becomes of a pod when its node goes."""

    UNDEFINED = "Undefined"
    """No rule speaks of it: it is evicted and needs another place."""
    OK = "DrainOk"
    SKIP = "SkipDrain"
    WAIT = "WaitForCompletion"
    BLOCK = "BlockDrain"


class Utilisation(Record, frozen=True, kw_only=True):
    """How full a node is by requests: shares, the resource that decides and its share.

    A share of nothing is `NaN`, where pods are left out that request all there is.
    `slots` is the share of the driver whose attach slots are fullest, where slots are counted.
    """

    cpu: float | str
    memory: float | str
    resource: str
    value: float
    gpu: float | None = None
    slots: float | None = None


class Alone(Record, frozen=True, kw_only=True):
    """The node judged as the first and only one to go."""

    removable: bool
    reason: str | None = None
    pod: str | None = None
    pod_reason: str | None = None
    move: tuple[str, ...] | None = None
    daemon_set: tuple[str, ...] | None = None
    on_completion: tuple[str, ...] | None = None


class Move(Record, frozen=True, kw_only=True):
    """A pod that is evicted in a wave, the node it finds room on, and the volumes that go along."""

    pod: str
    to: str
    wave: int
    detach: tuple[str, ...] = ()


class NodeDecision(Record, frozen=True, kw_only=True):
    """What becomes of a node, and why.

    A node is deleted at the end of its `wave`. `since` is when it was first unneeded, `until` when
    the time it has to be so is over. `frees` is the smallest change that would let it go.
    """

    node: str
    group: str | None
    candidate: bool
    not_candidate: str | None = None
    utilisation: Utilisation | None = None
    alone: Alone | None = None
    action: Action
    reason: str | None = None
    code: str | None = None
    pod: str | None = None
    pod_reason: str | None = None
    message: str | None = None
    wave: int | None = None
    since: str | None = None
    until: str | None = None
    saves: str | None = None
    moves: tuple[Move, ...] = ()
    daemon_set: tuple[str, ...] = ()
    """Pods of DaemonSets, which go with the node."""
    frees: str | None = None

    @property
    def goes(self) -> bool:
        return self.action is not Action.KEEP


class PodDecision(Record, frozen=True, kw_only=True):
    """What the drain rules say of a pod; `reason` is why it blocks."""

    pod: str
    node: str
    drain: Drain
    reason: str | None = None
    code: str | None = None


class ScaleDownBounds(Record, frozen=True, kw_only=True, omit_defaults=False):
    """No fewer nodes than these can hold the pods; `remaining` are those of the plan."""

    nodes: int
    remaining: int = 0


class ScaleDownPlan(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Every node, with why it goes or stays; every pod on them, with what the rules say of it.

    Replaying it is valid at every moment: wave by wave, the moves of the wave in their order, each
    pod to its place, then the deletion of the nodes of the wave.
    """

    api_version: str = API_VERSION
    kind: str = "ScaleDownPlan"
    nodes: tuple[NodeDecision, ...] = ()
    pods: tuple[PodDecision, ...] = ()
    bounds: ScaleDownBounds = ScaleDownBounds(nodes=0)
    saves_per_hour: str | None = None
    """What the nodes that go cost in an hour, as far as prices are known."""
    cool_down: str | None = None
    """Why nothing goes at the moment, if so."""
    partial: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def going(self) -> tuple[NodeDecision, ...]:
        return tuple(node for node in self.nodes if node.goes)
