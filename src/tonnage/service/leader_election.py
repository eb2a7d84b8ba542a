"""Who may act: the one replica that holds the lease, or whoever was told to go without one."""

import logging
import random
from collections.abc import Awaitable, Callable

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.client import Client
from tonnage.cluster.errors import Forbidden
from tonnage.cluster.lease import Hooks, LeaderLease, LeadershipLost, Timing

_PAUSE = 1.0

_log = logging.getLogger(__name__)


class LeaderCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """What a shell that may have several replicas is told at its start."""

    identity: str
    namespace: str = "kube-system"
    lease_name: str
    leader_elect: bool = True
    timing: Timing = Timing()
    dry_run: bool = False


class Leadership:
    """While `leading()` is true, acting is safe.

    A dry run leaves the lease to whoever acts, and so does who was told to: both always lead.
    """

    def __init__(
        self,
        client: Client,
        candidate: LeaderCandidate,
        *,
        clock: Clock,
        rng: random.Random,
        told: Callable[[bool], None] | None = None,
    ) -> None:
        self._clock = clock
        self._elected = candidate.leader_elect and not candidate.dry_run
        self._identity = candidate.identity
        self._told = told
        self.lease = LeaderLease(
            client,
            name=candidate.lease_name,
            namespace=candidate.namespace,
            identity=candidate.identity,
            clock=clock,
            rng=rng,
            timing=candidate.timing,
            hooks=Hooks(leading=self._changed),
        )

    def leading(self) -> bool:
        return not self._elected or self.lease.leading()

    @property
    def refused(self) -> str:
        """The right for want of which we can never lead, if one is missing."""
        error = self.lease.error
        return f"cannot lead: {error.right}" if isinstance(error, Forbidden) else ""

    @property
    def document(self) -> dict[str, object]:
        """Who leads, as this replica sees it."""
        return {
            "identity": self._identity,
            "leads": self.leading(),
            "leader": self.lease.leader,
            "problem": self.refused or str(self.lease.error or ""),
        }

    async def act(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work whenever we lead, until it ends by itself.

        Upstream ends its process when it loses the lease; here the caches are kept warm for next
        time.
        """
        if not self._elected:
            await work()
            return
        while True:
            try:
                await self.lease.lead(work)
                return
            except LeadershipLost as error:
                _log.warning("leadership lost", extra={"error": str(error)})
                await self._clock.sleep(_PAUSE)

    def _changed(self, leads: bool) -> None:
        if self._told is not None:
            self._told(leads)
        _log.info("leading" if leads else "not leading", extra={"identity": self._identity})
