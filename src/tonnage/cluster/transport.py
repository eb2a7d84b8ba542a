"""The seam between the client and whatever carries its requests.

A transport moves bytes: it knows neither kinds nor retries nor time. `http` is the one over the
network; the embedded cluster brings another that never leaves the process.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

Pairs = tuple[tuple[str, str], ...]

WatchParts = tuple[str, bytes | msgspec.Raw]
"""An event of a watch taken apart: its type, and the object as JSON."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request; `path` starts at the root of the API and is already quoted."""

    method: str
    path: str
    query: Pairs = ()
    headers: Pairs = ()
    body: bytes | None = None


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer. Header names are in lower case."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b""


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """An answer whose body comes in pieces, cut anywhere.

    A server in the same process has no need to write events down: `told` are those of a watch, as
    many at a time as there are, for whoever does not read `chunks`.
    """

    status: int
    headers: dict[str, str] = {}
    chunks: AsyncIterator[bytes]
    told: AsyncIterator[list[WatchParts]] | None = None


class Transport(Protocol):
    """Raises `ConnectionFailed` when there is no answer; any status is an answer."""

    async def send(self, request: HttpRequest) -> Response: ...

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[Stream]:
        """The answer inside the block; leaving it gives the connection up."""
        ...

    async def close(self) -> None: ...
