"""What consolidation has to know after a restart."""

from tonnage.objects.meta import Record


class StepUnderWay(Record, frozen=True, kw_only=True):
    """Nodes that go once what was bought for them is there. Times are seconds since 1970.

    `known` are the nodes that the groups had when it was bought; `until` is when it is given up.
    """

    nodes: tuple[str, ...]
    bought: dict[str, int]
    known: tuple[str, ...]
    since: float
    until: float
    saves_per_hour: float
    pays_back_in: float


class ConsolidationMemory(Record, frozen=True, kw_only=True):
    """`worth_since` has since when nodes are worth replacing, `pays_back` until when nodes have to
    carry what was moved to them, `volume_seconds` what volumes took, by driver."""

    under_way: StepUnderWay | None = None
    worth_since: dict[str, float] = {}
    pays_back: dict[str, float] = {}
    volume_seconds: dict[str, float] = {}
