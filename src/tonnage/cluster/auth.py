"""Who we are, request by request: tokens, certificates and the programs that print them.

Files are read again once a minute because others rotate them (a pod's token every hour), plugins
are run again when what they gave expires. A 401 asks for something newer at once.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.config import ExecPlugin, Source, User
from tonnage.cluster.errors import CredentialsFailed
from tonnage.objects.codec import UNDECODABLE

REREAD_AFTER = 60.0
PLUGIN_TIMEOUT = 60.0

_log = logging.getLogger(__name__)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What one request shows the server. Certificate and key are PEM."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


class Credentials(Protocol):
    """A source of identities."""

    async def current(self) -> Identity:
        """The identity to use now; `CredentialsFailed` if there is none to be had."""
        ...

    async def renew(self, refused: Identity) -> Identity:
        """The newest identity after `refused` was; the same again if there is no newer one."""
        ...


def credentials(user: User, *, clock: Clock, environ: Mapping[str, str]) -> Credentials:
    """The credentials a user's access describes."""
    stored = StoredCredentials(user, clock=clock)
    if user.plugin is None:
        return stored
    return PluginCredentials(user.plugin, beside=stored, clock=clock, environ=environ)


class Material:
    """Bytes given inline, or the newest ones that could be read from a file.

    A file that is empty or cannot be read (it may be just being replaced) leaves the earlier bytes
    in use: without a token we would be nobody in particular, and be told that rights are missing.
    """

    def __init__(self, source: Source, *, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._bytes = source if isinstance(source, bytes) else b""
        self._read_at: float | None = None

    def read(self) -> bytes:
        if isinstance(self._source, bytes):
            return self._source
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= REREAD_AFTER:
            self._reread(self._source)
            self._read_at = now
        return self._bytes

    def expire(self) -> None:
        """Read the file again at the next use, however fresh it seems."""
        self._read_at = None

    def _reread(self, path: Path) -> None:
        try:
            found, wrong = path.read_bytes(), "is empty"
        except OSError as error:
            found, wrong = b"", f"cannot be read: {error.strerror}"
        if found.strip():
            self._bytes = found
        elif not self._bytes:
            raise CredentialsFailed(f"{path}: {wrong}")
        else:
            _log.warning("using what a file held before", extra={"file": str(path), "why": wrong})


class StoredCredentials:
    """A token and a certificate, from a kubeconfig or from files that are rotated."""

    def __init__(self, user: User, *, clock: Clock) -> None:
        token = user.token_file or user.token.encode()
        self._token = Material(token, clock=clock)
        self._certificate = Material(user.certificate or b"", clock=clock)
        self._key = Material(user.key or b"", clock=clock)

    async def current(self) -> Identity:
        return Identity(
            token=_sendable(self._token.read().decode(errors="replace").strip()),
            certificate=self._certificate.read(),
            key=self._key.read(),
        )

    async def renew(self, refused: Identity) -> Identity:  # noqa: ARG002
        for material in (self._token, self._certificate, self._key):
            material.expire()
        return await self.current()


class PluginCredentials:
    """What a program printed, until it expires. Never two runs of it at once.

    A certificate that is stored `beside` goes before one that is printed.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        clock: Clock,
        environ: Mapping[str, str] = os.environ,
        beside: StoredCredentials | None = None,
    ) -> None:
        self._plugin = plugin
        self._beside = beside
        self._clock = clock
        self._environ = environ
        self._running = asyncio.Lock()
        self._identity: Identity | None = None
        self._expires: datetime | None = None

    async def current(self) -> Identity:
        async with self._running:
            expired = self._expires is not None and self._clock.now() >= self._expires
            if self._identity is None or expired:
                self._identity = await self._ask()
            return await self._complete(self._identity)

    async def renew(self, refused: Identity) -> Identity:
        async with self._running:
            # Whoever held the lock before us may have been refused for the same identity.
            if self._identity is None or await self._complete(self._identity) == refused:
                self._identity = await self._ask()
            return await self._complete(self._identity)

    async def _complete(self, printed: Identity) -> Identity:
        stored = await self._beside.current() if self._beside is not None else Identity()
        if not stored.certificate:
            return printed
        return msgspec.structs.replace(stored, token=printed.token)

    async def _ask(self) -> Identity:
        printed = await self._run()
        try:
            answer = msgspec.json.decode(printed, type=_ExecCredential)
        except UNDECODABLE as error:
            raise self._failed(f"printed no ExecCredential: {error}") from error
        if answer.kind != "ExecCredential" or answer.api_version != self._plugin.api_version:
            raise self._failed(
                f"printed {answer.kind!r} of {answer.api_version!r},"
                f" expected ExecCredential of {self._plugin.api_version}"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._failed("printed neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._failed("printed a certificate or a key, not both")
        try:
            token = _sendable(status.token)
        except CredentialsFailed as error:
            raise self._failed(str(error)) from error
        self._expires = status.expiration_timestamp
        return Identity(
            token=token,
            certificate=status.client_certificate_data.encode(),
            key=status.client_key_data.encode(),
        )

    async def _run(self) -> bytes:
        interactive = self._interactive()
        try:
            process = await asyncio.create_subprocess_exec(
                self._plugin.command,
                *self._plugin.args,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                # A program that asks questions needs the terminal; from any other we keep what it
                # says, for the message.
                stderr=None if interactive else asyncio.subprocess.PIPE,
                env=self._environment(interactive=interactive),
            )
        except OSError as error:
            hint = f"; {self._plugin.install_hint}" if self._plugin.install_hint else ""
            raise self._failed(f"cannot be run: {error.strerror}{hint}") from error
        try:
            async with self._clock.timeout(None if interactive else PLUGIN_TIMEOUT):
                stdout, stderr = await process.communicate()
        except TimeoutError as error:
            raise self._failed(f"printed nothing within {PLUGIN_TIMEOUT:.0f} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            said = " ".join((stderr or b"").decode(errors="replace").split())
            raise self._failed(f"ended with code {process.returncode}: {said[-500:]}")
        return stdout

    def _interactive(self) -> bool:
        mode = self._plugin.interactive_mode
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not terminal:
            raise self._failed("wants to ask questions, and standard input is not a terminal")
        return terminal and mode != "Never"

    def _environment(self, *, interactive: bool) -> dict[str, str]:
        spec: dict[str, object] = {"interactive": interactive}
        if self._plugin.cluster_info is not None:
            spec["cluster"] = self._plugin.cluster_info
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return {
            **self._environ,
            **dict(self._plugin.env),
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        }

    def _failed(self, why: str) -> CredentialsFailed:
        return CredentialsFailed(f"credential plugin {self._plugin.command}: {why}")


def _sendable(token: str) -> str:
    """The token, if a header can carry it; it is not shown if not."""
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise CredentialsFailed("the token has characters that no token has, such as a line break")
    return token


class _ExecStatus(msgspec.Struct, rename="camel", kw_only=True):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, rename="camel", kw_only=True):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None
