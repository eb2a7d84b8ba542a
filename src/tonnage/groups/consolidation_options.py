"""Options of consolidation: what a move costs, what it must be worth, and how many at once."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from tonnage.errors import InputError
from tonnage.objects.meta import Record

ConsolidationReason: TypeAlias = Literal["empty", "consolidation"]
"""Why consolidation lets a node go: nobody is on it, or its pods have a cheaper place."""

SHARE = r"^[0-9]+%?$"
"""What a number of nodes looks like: so many, or a share of those there are."""


class NodeBudget(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many nodes may be on their way out at once, for these reasons or, without any, for all.

    The strictest of several holds.
    """

    nodes: int | str = "10%"
    reasons: tuple[ConsolidationReason, ...] = ()

    def speaks_of(self, reason: ConsolidationReason) -> bool:
        return not self.reasons or reason in self.reasons

    def allows(self, of: int) -> int:
        """So many of these nodes; of a share at least one, unless it is none."""
        text = str(self.nodes)
        if not text.endswith("%"):
            return int(text)
        share = int(text[:-1])
        return max(of * share // 100, 1) if share else 0

    def check(self, field: str) -> None:
        """`InputError` if that is no number of nodes."""
        if not re.fullmatch(SHARE, str(self.nodes)):
            raise InputError(
                f"`{field}`: nodes: {self.nodes!r}: expected a number, or a share such as 10%"
            )


class ConsolidationOptions(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replacing nodes by cheaper or fewer ones. Times are in seconds.

    What it costs that a pod is away is `price_of_pod_hour`; without it an hour of a pod costs as
    much as an hour of the mean node, so that it holds in any currency, and without prices.
    """

    enabled: bool = False
    interval: float = 10.0
    """Seconds between two decisions."""

    # What is gained.
    horizon: float = 86_400.0
    """Seconds over which a saving is counted."""
    node_overhead_per_hour: float = 0.0
    """What any node costs beside its price: licences, agents, addresses."""

    # What a move costs.
    price_of_pod_hour: float | None = None
    eviction_seconds: float = 30.0
    start_seconds: float = 30.0
    volume_seconds: float = 30.0
    """To detach a volume and to attach it again, for drivers that are not named and were not
    observed."""
    driver_seconds: dict[str, float] = {}
    local_data_seconds: float = 600.0
    """For a pod that leaves data on its node behind, where pods may do so at all."""
    single_replica_weight: float = 5.0
    """How much more it weighs if the only replica is away; of several, accordingly less."""
    surge_single_replicas: bool = False
    """Whether a second replica is started before the only one of a Deployment is evicted."""

    # What it must be worth.
    min_saving: float = 0.0
    """Money of an hour that a step must save."""
    min_saving_percent: float = 5.0
    """Of the price of the nodes that go."""
    min_saving_per_disruption: float = 24.0
    """What is saved over the horizon for what the moves cost. Nodes stay until moves to them have
    paid back, so a step that takes longer than an hour of a day ties the cluster for too long."""
    min_age: float = 600.0
    """Seconds that a node must have been there."""

    # When, and how many.
    settle_time: float = 30.0
    """Seconds that a node must have been worth replacing before anything begins."""
    budgets: tuple[NodeBudget, ...] = (NodeBudget(),)

    @property
    def pay_back_hours(self) -> float:
        """Within which moves have to have paid back."""
        return self.horizon / 3600.0 / max(self.min_saving_per_disruption, 1.0)

    def check(self, field: str = "consolidation") -> None:
        """`InputError` if a number cannot be."""
        for position, budget in enumerate(self.budgets):
            budget.check(f"{field}.budgets[{position}]")
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InputError(f"`{field}.{_ENCODED[name]}`: {value:g}: expected 0 or more")
        if self.horizon <= 0:
            raise InputError(f"`{field}.horizon`: {self.horizon:g}: expected more than 0")
        for driver, seconds in self.driver_seconds.items():
            if seconds < 0:
                raise InputError(
                    f"`{field}.driverSeconds`: {driver}: {seconds:g}: expected 0 or more"
                )

    def at_once(
        self,
        reason: ConsolidationReason,
        *,
        of: int,
        going: Mapping[ConsolidationReason, int] = MappingProxyType({}),
    ) -> int:
        """How many more of so many nodes may be on their way out for a reason, beside those going.

        A budget counts all nodes together that go for reasons it speaks of.
        """
        rooms = (
            one.allows(of) - sum(count for why, count in going.items() if one.speaks_of(why))
            for one in self.budgets
            if one.speaks_of(reason)
        )
        return max(min(rooms, default=max(of, 1)), 0)


_POSITIVE = (
    "interval",
    "node_overhead_per_hour",
    "price_of_pod_hour",
    "eviction_seconds",
    "start_seconds",
    "volume_seconds",
    "local_data_seconds",
    "single_replica_weight",
    "min_saving",
    "min_saving_percent",
    "min_saving_per_disruption",
    "min_age",
    "settle_time",
)

_ENCODED = dict(
    zip(
        ConsolidationOptions.__struct_fields__,
        ConsolidationOptions.__struct_encode_fields__,
        strict=True,
    )
)
