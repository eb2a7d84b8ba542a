"""What consolidation has to know after a restart."""

from tonnage.objects.meta import Record


class PodRelocation(Record, frozen=True, kw_only=True):
    """A pod that makes room for others: from a node that stays, or where it `stopped` on its way.

    `controller` is the UID of what will make another: the pod that has to go on may have another
    name by then.
    """

    pod: str
    controller: str
    source: str
    to: str
    wave: int
    stopped: bool = False


class StepUnderWay(Record, frozen=True, kw_only=True):
    """Nodes that go once what was bought for them is there. Times are seconds since 1970.

    `known` are the nodes that the groups had when it was bought; `until` is when it is given up.
    `relocations` have yet to be made before the nodes go. `planned` are the names that the plan has
    for what was bought, by group, `names` what each is called in truth, and `spares` those of the
    plan that only are a stop for pods.
    """

    nodes: tuple[str, ...]
    bought: dict[str, int]
    known: tuple[str, ...]
    since: float
    until: float
    saves_per_hour: float
    pays_back_in: float
    relocations: tuple[PodRelocation, ...] = ()
    planned: dict[str, tuple[str, ...]] = {}
    names: dict[str, str] = {}
    spares: tuple[str, ...] = ()

    @property
    def going(self) -> tuple[str, ...]:
        """The nodes that go: those that are replaced, and spare ones that are known by now."""
        return (*self.nodes, *(self.names[one] for one in self.spares if one in self.names))


class Surge(Record, frozen=True, kw_only=True):
    """A second replica beside a pod that is about to be evicted: who was scaled from one to two."""

    pod: str
    kind: str
    name: str
    namespace: str
    uid: str


class ConsolidationMemory(Record, frozen=True, kw_only=True):
    """`worth_since` has since when nodes are worth replacing, `pays_back` until when nodes have to
    carry what was moved to them, `volume_seconds` what volumes took, by driver."""

    under_way: StepUnderWay | None = None
    worth_since: dict[str, float] = {}
    pays_back: dict[str, float] = {}
    volume_seconds: dict[str, float] = {}
