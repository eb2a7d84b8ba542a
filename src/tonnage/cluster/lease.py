"""One leader at a time, by a Lease object that its holder renews.

Candidates never compare clocks. Each notes, on its own steady clock, when it last saw the lease
change, and takes it over when nothing changed for as long as the holder promised. The holder
counts from the moment it sent its last successful renewal, which is before anyone could see it,
and stops after the shorter renew deadline: whatever happens to the server, the network or the
wall clock, it has stopped before another may start.
"""

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from datetime import datetime

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.calls import CallPatience
from tonnage.cluster.client import Client
from tonnage.errors import ClusterError, InputError
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.workloads import Lease, LeaseSpec

_log = logging.getLogger(__name__)

_GIVEN_BACK = 1
"""Seconds that a lease without a holder promises, if its holder has let it go."""


class LeadershipLost(ClusterError):  # noqa: N818 - it is an event more than an error
    """The lease could not be renewed in time, or someone else has it."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. What lies between deadline and duration is the time to wind up."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > 1.2 * self.retry_period > 0:
            raise InputError(
                f"leader election: expected lease duration ({self.lease_duration:g} s)"
                f" > renew deadline ({self.renew_deadline:g} s)"
                f" > 1.2 x retry period ({self.retry_period:g} s) > 0"
            )
        if self.lease_duration != int(self.lease_duration):
            raise InputError(
                f"leader election: expected a lease duration of whole seconds,"
                f" not {self.lease_duration:g}"
            )


def _ignore(*_: object) -> None:
    pass


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """Called as things happen, for metrics and logs; must be quick."""

    leading: Callable[[bool], None] = _ignore
    leader_seen: Callable[[str], None] = _ignore
    renewed: Callable[[float], None] = _ignore
    """With the seconds the renewal took."""
    failed: Callable[[ClusterError], None] = _ignore


class LeaderLease:
    """A claim to leadership: while `leading()` is true, nobody else's is.

    The identity must belong to this process alone: a lease that carries it counts as ours.
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        clock: Clock,
        rng: random.Random,
        timing: Timing | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self._timing = timing or Timing()
        patience = CallPatience(timeout=self._timing.renew_deadline / 2, attempts=1)
        self._client = client.with_patience(patience)
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._rng = rng
        self._hooks = hooks or Hooks()
        self._lease: Lease | None = None
        self._changed_at = -math.inf
        self._leading_until = -math.inf
        self.error: ClusterError | None = None
        """Why the last attempt at it failed, unless somebody else just has it."""

    def leading(self) -> bool:
        """Whether acting is safe this very moment."""
        return self.time_left() > 0

    def time_left(self) -> float:
        """Seconds for which acting stays safe if no renewal succeeds any more."""
        return self._leading_until - self._clock.monotonic()

    @property
    def leader(self) -> str:
        """Who held the lease when it was last seen; empty for nobody."""
        return (self._lease.spec.holder_identity or "") if self._lease is not None else ""

    @property
    def term(self) -> int:
        """How often the lease changed hands; grows with every new leader."""
        return (self._lease.spec.lease_transitions or 0) if self._lease is not None else 0

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait to be leader, do `work`, give the lease back.

        `LeadershipLost` if the lease was lost first; the work has been cancelled by then. The
        lease is given back only after the work has ended.
        """
        await self._acquire()
        self._hooks.leading(True)
        working = asyncio.ensure_future(work())
        holding = asyncio.ensure_future(self._hold())
        try:
            await asyncio.wait((working, holding), return_when=asyncio.FIRST_COMPLETED)
        finally:
            finished = working.done()
            self._leading_until = -math.inf
            working.cancel()
            holding.cancel()
            await asyncio.gather(working, holding, return_exceptions=True)
            self._hooks.leading(False)
            await self._release()
        if finished:
            return working.result()
        return holding.result()

    async def _acquire(self) -> None:
        while not await self._attempt():
            await self._clock.sleep(self._timing.retry_period * self._rng.uniform(1.0, 2.2))

    async def _hold(self) -> None:
        """Renew until that is no longer possible."""
        while True:
            try:
                async with self._clock.timeout(max(self.time_left(), 0.0)):
                    await self._clock.sleep(self._timing.retry_period)
                    while not await self._attempt():
                        if self.leader not in ("", self._identity):
                            raise LeadershipLost(f"{self._described}: {self.leader} has it")
                        await self._clock.sleep(self._timing.retry_period)
            except TimeoutError as error:
                raise LeadershipLost(
                    f"{self._described}: not renewed for {self._timing.renew_deadline:g} s"
                ) from error

    async def _attempt(self) -> bool:
        """Try once to get or renew the lease."""
        try:
            renewed = self.leader == self._identity and await self._renew()
            ours = renewed or await self._take()
        except errors.Conflict:
            ours = False
        except ClusterError as error:
            self.error = error
            self._hooks.failed(error)
            _log.warning("lease not reached", extra={"lease": self._name, "error": str(error)})
            return False
        self.error = None
        return ours

    async def _renew(self) -> bool:
        """The short way: nobody touched the lease since we did."""
        assert self._lease is not None
        try:
            await self._write(self._lease)
        except (errors.Conflict, errors.NotFound):
            return False
        return True

    async def _take(self) -> bool:
        try:
            lease = await self._client.get(Lease, self._name, namespace=self._namespace)
        except errors.NotFound:
            # Whoever deleted it did not tell the holder, who goes on until the next renewal.
            if self._lease is not None and not self._is_free(self._lease.spec):
                return False
            await self._write(None)
            return True
        self._observe(lease)
        if not self._is_free(lease.spec):
            return False
        await self._write(lease)
        return True

    def _is_free(self, seen: LeaseSpec) -> bool:
        """Whether a lease, as it was last seen, may be ours now.

        Who gives a lease back promises no more than a second. One that has no holder and promises
        more was emptied by hand, under a holder who leads on: only that one may take it at once.
        """
        holder, promised = seen.holder_identity or "", seen.lease_duration_seconds or 0
        if holder == self._identity:
            return True
        if not holder and (promised <= _GIVEN_BACK or self.leading()):
            return True
        waited = self._clock.monotonic() - self._changed_at
        return waited >= (promised or self._timing.lease_duration)

    async def _write(self, old: Lease | None) -> None:
        """Make the lease ours; from the sending on, not from the answer, we may lead."""
        started = self._clock.monotonic()
        spec = self._spec(old)
        if old is None:
            meta = ObjectMeta(name=self._name, namespace=self._namespace)
            lease = await self._client.create(Lease, Lease(metadata=meta, spec=spec))
        else:
            lease = await self._client.replace(Lease, msgspec.structs.replace(old, spec=spec))
        self._observe(lease)
        self._leading_until = started + self._timing.renew_deadline
        self._hooks.renewed(self._clock.monotonic() - started)

    def _spec(self, old: Lease | None) -> LeaseSpec:
        now = _micro_time(self._clock.now())
        renewal = LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=int(self._timing.lease_duration),
            acquire_time=now,
            renew_time=now,
            lease_transitions=0,
        )
        if old is None:
            return renewal
        transitions = old.spec.lease_transitions or 0
        if old.spec.holder_identity == self._identity:
            return msgspec.structs.replace(
                renewal, acquire_time=old.spec.acquire_time, lease_transitions=transitions
            )
        return msgspec.structs.replace(renewal, lease_transitions=transitions + 1)

    async def _release(self) -> None:
        """Let others start at once. Best effort: without it, they wait until the lease expires."""
        for _ in range(2):
            if self._lease is None or self.leader != self._identity:
                return
            now = _micro_time(self._clock.now())
            freed = LeaseSpec(
                holder_identity="",
                lease_duration_seconds=_GIVEN_BACK,
                acquire_time=now,
                renew_time=now,
                lease_transitions=self._lease.spec.lease_transitions,
            )
            try:
                lease = msgspec.structs.replace(self._lease, spec=freed)
                self._observe(await self._client.replace(Lease, lease))
            except errors.Conflict:
                # A renewal that was cut short may have arrived after all.
                await self._reread()
            except ClusterError as error:
                _log.warning("lease not released", extra={"lease": self._name, "error": str(error)})
                return

    async def _reread(self) -> None:
        try:
            self._observe(await self._client.get(Lease, self._name, namespace=self._namespace))
        except ClusterError:
            self._lease = None

    def _observe(self, lease: Lease) -> None:
        before = self.leader
        if self._lease is None or lease.spec != self._lease.spec:
            self._changed_at = self._clock.monotonic()
        self._lease = lease
        if self.leader != before:
            self._hooks.leader_seen(self.leader)

    @property
    def _described(self) -> str:
        return f"lease {self._namespace}/{self._name}"


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
