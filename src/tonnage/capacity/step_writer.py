"""Carrying out steps: paced, each on its own, and not sent twice while the watch lags behind."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence

import msgspec

from tonnage.capacity.changes import Create, Delete, Patch, Replace, Step, name_of
from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.backoff import Backoff
from tonnage.cluster.client import Client
from tonnage.cluster.watch_events import Change, EventType
from tonnage.errors import ClusterError
from tonnage.objects.storage import CSIStorageCapacity

_AT_ONCE = 8
"""Requests under way at the same time."""

_SEEN_WITHIN = 30.0
"""Seconds in which the watch tells of what was written; past it, the watch alone is believed."""

_log = logging.getLogger(__name__)


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that change something: so many at once, then so many per second."""

    per_second: float = 20.0
    burst: int = 50


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a step; an empty error is success."""

    step: Step
    error: str = ""


def _ignore(*_: object) -> None:
    pass


class StepWriter:
    """Sends steps. A step that failed is sent again after a while, however often it is asked for.

    Of what it has written, the answers go before an older view of the same objects (`applied`).
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        rate: Rate | None = None,
        leading: Callable[[], bool] = lambda: True,
        counted: Callable[[str, bool], None] = _ignore,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._pacer = Pacer(rate or Rate(), clock=clock)
        self._leading = leading
        self._counted = counted
        self._answers: dict[str, _Answer] = {}
        self._failures: dict[str, _Failure] = {}

    def applied(self, there: Iterable[CSIStorageCapacity]) -> dict[str, CSIStorageCapacity]:
        """Objects by name as they are now, though the watch may not have told yet."""
        found = {one.metadata.name: one for one in there}
        now = self._clock.monotonic()
        for name, answer in list(self._answers.items()):
            if _version(found.get(name)) != answer.before or now > answer.until:
                del self._answers[name]
            elif answer.object is None:
                del found[name]
            else:
                found[name] = answer.object
        return found

    def told(self, change: Change[CSIStorageCapacity]) -> None:
        """The watch has news of an object: what was answered is no longer the last word."""
        meta = change.object.metadata
        answer = self._answers.get(meta.name)
        if answer is None:
            return
        gone = change.type is EventType.DELETED
        if gone and answer.object is not None and answer.object.metadata.uid != meta.uid:
            # Only the one that was replaced; its successor is yet to be told of.
            answer.before = ""
        else:
            del self._answers[meta.name]

    @property
    def retry_in(self) -> float | None:
        """Seconds until a step that failed may be sent again, None if none failed."""
        if not self._failures:
            return None
        soonest = min(failure.until for failure in self._failures.values())
        return max(soonest - self._clock.monotonic(), 0.0)

    async def carry_out(self, steps: Sequence[Step]) -> list[StepOutcome]:
        """Send what is due, in order; one that fails leaves the others alone."""
        wanted = {name_of(step) for step in steps}
        self._failures = {name: one for name, one in self._failures.items() if name in wanted}
        limit = asyncio.Semaphore(_AT_ONCE)

        async def bounded(step: Step) -> StepOutcome:
            async with limit:
                return await self._attempt(step)

        due = [step for step in steps if self._is_due(name_of(step))]
        # Deletions wait: an object that goes may only have got another name.
        made = await asyncio.gather(*(bounded(s) for s in due if not isinstance(s, Delete)))
        gone = await asyncio.gather(*(bounded(s) for s in due if isinstance(s, Delete)))
        return [*made, *gone]

    def failing(self) -> dict[str, str]:
        """What could not be sent, by name of the object."""
        return {name: failure.error for name, failure in self._failures.items()}

    def _is_due(self, name: str) -> bool:
        failure = self._failures.get(name)
        return failure is None or failure.until <= self._clock.monotonic()

    async def _attempt(self, step: Step) -> StepOutcome:
        name = name_of(step)
        verb = type(step).__name__.lower()
        await self._pacer.turn()
        try:
            if not self._leading():
                raise ClusterError(f"{verb} {name}: no longer leader")
            await self._send(step)
        except ClusterError as error:
            self._counted(verb, False)
            self._failed(name, str(error))
            _log.warning("object not written", extra={"object": name, "error": str(error)})
            return StepOutcome(step=step, error=str(error))
        self._counted(verb, True)
        self._failures.pop(name, None)
        _log.info("object written", extra={"object": name, "step": verb})
        return StepOutcome(step=step)

    async def _send(self, step: Step) -> None:
        match step:
            case Create(new):
                self._answered(None, await self._client.create(CSIStorageCapacity, new))
            case Patch(old, _, change):
                await self._patch(old, change)
            case Replace(old, new):
                await self._delete(old)
                await self._pacer.turn()
                self._answered(old, await self._client.create(CSIStorageCapacity, new))
            case Delete(old):
                await self._delete(old)

    async def _patch(self, old: CSIStorageCapacity, change: dict[str, object]) -> None:
        meta = old.metadata
        same_one = {"uid": meta.uid, **_fields(change.get("metadata"))}
        patched = await self._client.patch(
            CSIStorageCapacity,
            meta.name,
            {**change, "metadata": same_one},
            namespace=meta.namespace,
        )
        self._answered(old, patched)

    async def _delete(self, old: CSIStorageCapacity) -> None:
        meta = old.metadata
        try:
            await self._client.delete(
                CSIStorageCapacity, meta.name, namespace=meta.namespace, uid=meta.uid
            )
        except errors.NotFound:
            _log.info("object was gone", extra={"object": meta.name})
        self._answered(old, None)

    def _answered(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        one = new or old
        assert one is not None
        self._answers[one.metadata.name] = _Answer(
            before=_version(old), object=new, until=self._clock.monotonic() + _SEEN_WITHIN
        )

    def _failed(self, name: str, error: str) -> None:
        failure = self._failures.get(name)
        if failure is None:
            failure = _Failure(Backoff(self._rng, first=2.0, most=300.0))
            self._failures[name] = failure
        failure.error = error
        failure.until = self._clock.monotonic() + failure.backoff.next()


class Pacer:
    """A bucket of turns that fills at a rate; whoever finds it empty waits for the next turn."""

    def __init__(self, rate: Rate, *, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._next = clock.monotonic()
        """When the bucket would be full again, less its size: the moment of the next turn."""

    async def turn(self) -> None:
        now = self._clock.monotonic()
        gap = 1.0 / self._rate.per_second
        self._next = max(self._next, now - gap * (self._rate.burst - 1))
        wait = self._next - now
        self._next += gap
        if wait > 0:
            await self._clock.sleep(wait)


class _Answer(msgspec.Struct, kw_only=True):
    before: str
    """The version that the watch had told; empty if there was none."""
    object: CSIStorageCapacity | None
    until: float


class _Failure:
    def __init__(self, backoff: Backoff) -> None:
        self.backoff = backoff
        self.until = 0.0
        self.error = ""


def _version(obj: CSIStorageCapacity | None) -> str:
    return obj.metadata.resource_version if obj is not None else ""


def _fields(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
