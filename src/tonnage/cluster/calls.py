"""One call to the API, from verb to answer: its bound in time, its retries, its errors by kind."""

import random

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.backoff import Backoff
from tonnage.cluster.transport import HttpRequest, Transport
from tonnage.errors import ClusterError
from tonnage.objects.codec import UNDECODABLE


class Call(HttpRequest, frozen=True, kw_only=True):
    """What is asked of the server: a request, with what it is in the words of RBAC."""

    verb: str
    kind: str
    group: str
    what: str
    """`volumeattachments.storage.k8s.io/status default/name`, for people."""
    repeatable: bool
    """Carrying it out twice does no harm, so no answer and a 5xx may be tried again."""
    deferrable: bool = True
    """A 429 means "not now", not "no"; false for evictions, where it is the answer."""

    def __str__(self) -> str:
        return f"{self.verb} {self.what}"


class CallPatience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for an answer, and how often to ask."""

    timeout: float = 60.0
    attempts: int = 4
    first_wait: float = 0.25
    longest_wait: float = 30.0
    """A server that asks for a longer pause than this gets its error raised instead."""


class Caller:
    """Carries out calls over a transport."""

    def __init__(
        self, transport: Transport, *, clock: Clock, rng: random.Random, patience: CallPatience
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.rng = rng
        self.patience = patience

    async def answer(self, call: Call) -> bytes:
        """The body of a good answer; any other raises, after as many attempts as make sense."""
        backoff: Backoff | None = None
        while True:
            try:
                return await self._attempt(call)
            except ClusterError as error:
                backoff = backoff or self._backoff()
                wait = max(backoff.next(), pause_asked_for(error))
                if (
                    not _worth_repeating(error, call)
                    or backoff.failures >= self.patience.attempts
                    or wait > self.patience.longest_wait
                ):
                    raise
                await self.clock.sleep(wait)

    def _backoff(self) -> Backoff:
        patience = self.patience
        return Backoff(self.rng, first=patience.first_wait, most=patience.longest_wait)

    async def _attempt(self, call: Call) -> bytes:
        seconds = self.patience.timeout
        try:
            async with self.clock.timeout(seconds):
                response = await self.transport.send(call)
        except TimeoutError as error:
            raise silence(call, seconds) from error
        if 200 <= response.status < 300:
            return response.body
        raise refusal(call, response.status, headers=response.headers, body=response.body)


def silence(call: Call, seconds: float) -> errors.ConnectionFailed:
    """What no answer within so many seconds means."""
    return errors.ConnectionFailed(f"{call}: nothing came for {seconds:g} s")


def pause_asked_for(error: Exception) -> float:
    """The seconds a server asked to be left alone, 0 if it did not."""
    return (error.retry_after or 0.0) if isinstance(error, errors.ApiError) else 0.0


def refusal(call: Call, status: int, *, headers: dict[str, str], body: bytes) -> errors.ApiError:
    """What an answer other than 2xx means."""
    try:
        told = msgspec.json.decode(body, type=Status)
    except UNDECODABLE:
        told = Status(message=" ".join(body[:300].decode(errors="replace").split()))
    if headers.get("retry-after", "").isdigit():
        # Only seconds: the other form of the header, a date, is not used by API servers.
        return error_of(call, told, code=status, retry_after=float(headers["retry-after"]))
    return error_of(call, told, code=status)


def error_of(
    call: Call, told: "Status", *, code: int, retry_after: float | None = None
) -> errors.ApiError:
    """What a Status with this code means."""
    message = f"{call}: {code} {told.message or told.reason}".rstrip()
    if retry_after is None and told.details is not None and told.details.retry_after_seconds:
        retry_after = float(told.details.retry_after_seconds)
    if code == 403:
        causes = told.details.causes if told.details is not None else ()
        return errors.Forbidden(
            message,
            verb=call.verb,
            kind=call.kind,
            group=call.group,
            reason=told.reason,
            by_rights=all(cause.reason != _TERMINATING for cause in causes),
        )
    if code == 404:
        return errors.NotFound(message, kind_missing=not (told.details and told.details.name))
    general = errors.Invalid if 400 <= code < 500 else errors.ServerError
    return _BY_CODE.get(code, general)(
        message, status=code, reason=told.reason, retry_after=retry_after
    )


class StatusCause(msgspec.Struct, kw_only=True):
    reason: str = ""


class StatusDetails(msgspec.Struct, kw_only=True, rename="camel"):
    name: str = ""
    retry_after_seconds: int = 0
    causes: tuple[StatusCause, ...] = ()


class Status(msgspec.Struct, kw_only=True):
    """How a server explains a refusal."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


_TERMINATING = "NamespaceTerminating"

_BY_CODE: dict[int, type[errors.ApiError]] = {
    401: errors.Unauthorized,
    409: errors.Conflict,
    410: errors.Gone,
    429: errors.TooManyRequests,
}


def _worth_repeating(error: ClusterError, call: Call) -> bool:
    if isinstance(error, errors.TooManyRequests):
        # Refused before anything was done, so even a create may be sent again.
        return call.deferrable
    return call.repeatable and isinstance(error, errors.ConnectionFailed | errors.ServerError)
