"""What a round of the loop hands over to scale-down."""

from collections.abc import Awaitable
from typing import NamedTuple, Protocol

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.provider_state import ProviderState
from tonnage.scaleup.assessment import Assessment
from tonnage.scaleup.plan import Plan
from tonnage.service.live_cluster import Trust


class Buying(Protocol):
    """Asks for the nodes of a plan; false if it was overtaken by events."""

    def __call__(
        self, plan: Plan, provided: ProviderState, config: AutoscalerConfig, *, now: float
    ) -> Awaitable[bool]: ...


class Situation(NamedTuple):
    """What a round of the loop hands over. `hold` says why nothing may be decided, if so."""

    assessed: Assessment
    provided: ProviderState
    trust: Trust
    plan: Plan | None = None
    hold: str = ""

    @property
    def blocked(self) -> str:
        """Why nothing is decided."""
        blind = ", ".join(self.trust.blind_to_volumes)
        return self.hold or (f"no {blind} objects" if blind else "")
