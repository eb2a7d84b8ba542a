"""Questions over HTTP: a body comes in, a body goes out, and nobody asks more than we can bear."""

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

import msgspec
from aiohttp import web

from tonnage.clock import Clock
from tonnage.errors import InputError
from tonnage.service.certificates import Certificates
from tonnage.service.listener import Handler, certificate_of

LARGEST_BODY = 8 * 2**20
AT_ONCE = 32

_BODY_PATIENCE = 10.0
"""Seconds for a body to arrive; whoever is slower holds a connection for nothing."""

_log = logging.getLogger(__name__)


_UNREAD = frozenset({403, 408, 413, 429})
"""After these the connection is closed: what else comes on it is a body that nobody reads."""


class TooMuchError(InputError):
    """What is asked is well formed, and more than is answered."""


class Reply(NamedTuple):
    """JSON for whoever asked."""

    body: bytes
    status: int = 200


Question: TypeAlias = Callable[[bytes], Awaitable[Reply]]
"""Answers the body of a POST.

`InputError` says what is wrong with it, `TooMuchError` that it asks for more than is answered.
"""


class HttpQuestions:
    """No more than so many are answered at once, and no body is larger than it may be.

    Refusals are given before the body is read, where that is possible.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        certificates: Certificates | None = None,
        largest_body: int = LARGEST_BODY,
        at_once: int = AT_ONCE,
    ) -> None:
        self._clock = clock
        self._certificates = certificates
        self._largest_body = largest_body
        self._at_once = at_once
        self._busy = 0

    def handler(self, question: Question) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            refused = self._refusal(request)
            if refused is not None:
                return _sent(refused)
            self._busy += 1
            try:
                body = await self._body(request)
                return _sent(await question(body) if isinstance(body, bytes) else body)
            except TooMuchError as error:
                return _sent(error_reply(str(error), status=413))
            except InputError as error:
                return _sent(error_reply(str(error), status=400))
            except Exception:
                _log.exception("question not answered", extra={"path": request.path})
                return _sent(error_reply("internal error, see the log", status=500))
            finally:
                self._busy -= 1

        return answer

    def _refusal(self, request: web.Request) -> Reply | None:
        """What is answered before anything of the body is read, if anything is wrong by then."""
        if self._certificates is not None:
            stranger = self._certificates.refusal(certificate_of(request))
            if stranger:
                return error_reply(stranger, status=403)
        if self._busy >= self._at_once:
            return error_reply(f"{self._at_once} questions are being answered", status=429)
        encoding = request.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            return error_reply("Content-Encoding: expected none", status=400)
        if (request.content_length or 0) > self._largest_body:
            return self._too_large()
        return None

    async def _body(self, request: web.Request) -> bytes | Reply:
        try:
            async with self._clock.timeout(_BODY_PATIENCE):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._too_large()
        except TimeoutError:
            return error_reply("the body did not arrive in time", status=408)
        except web.RequestPayloadError:
            return error_reply("the body is not encoded as its headers say", status=400)
        except ConnectionError:
            return error_reply("the connection ended before the body", status=400)

    def _too_large(self) -> Reply:
        said = f"the body is too large: expected {self._largest_body} bytes at most"
        return error_reply(said, status=413)


def error_reply(message: str, *, status: int) -> Reply:
    """Why there is no answer, as JSON of one field, spelt as kube-scheduler spells it."""
    return Reply(msgspec.json.encode({"Error": message}), status)


def _sent(reply: Reply) -> web.Response:
    response = web.Response(body=reply.body, status=reply.status, content_type="application/json")
    if reply.status == 429:
        response.headers["Retry-After"] = "1"
    if reply.status in _UNREAD:
        response.force_close()
    return response
