"""The certificate a shell serves with, read again when its files change.

Whoever rotates certificates replaces the files under a running process. New connections get the
new certificate; those that are open go on.
"""

import logging
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tonnage.errors import InputError

_log = logging.getLogger(__name__)


class Certificates:
    """`context` always holds files that fit together; `problem` says why newer ones are not used.

    With `client_ca`, a client may show a certificate and then it must be of that authority.
    Whether one is required is for the server to say, because probes and scrapes show none. With
    `client_names`, its common name must be one of them: an authority such as the cluster's own
    issues certificates to many.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        *,
        client_ca: Path | None = None,
        client_names: Iterable[str] = (),
    ) -> None:
        self._pair = (certificate, key)
        self._client_ca = client_ca
        self._client_names = tuple(client_names)
        self._contents = self._read()
        self.context = self._load()
        self.problem = ""
        self.reloads = 0

    @property
    def clients_are_checked(self) -> bool:
        return self._client_ca is not None

    def refusal(self, shown: Mapping[str, Any] | None) -> str:
        """Why a client with this certificate, or none, may not ask; empty if it may."""
        if self._client_ca is None:
            return ""
        if shown is None:
            return "a client certificate is required"
        subject = dict(pair for part in shown.get("subject", ()) for pair in part)
        if self._client_names and subject.get("commonName") not in self._client_names:
            return "the client certificate has a common name that is not allowed"
        return ""

    def check(self) -> bool:
        """Look at the files again; whether there is a new certificate or authority."""
        try:
            contents = self._read()
            if contents == self._contents:
                return False
            # Another context, for new connections: half a replaced pair must not spoil this one.
            self.context = self._load()
        except InputError as error:
            if str(error) != self.problem:
                self.problem = str(error)
                _log.error("certificate not reloaded", extra={"error": self.problem})
            return False
        self._contents = contents
        self.problem = ""
        self.reloads += 1
        _log.info("certificate reloaded", extra={"file": str(self._pair[0])})
        return True

    def _read(self) -> tuple[bytes, ...]:
        contents = []
        for path in (*self._pair, *([self._client_ca] if self._client_ca else ())):
            try:
                contents.append(path.read_bytes())
            except OSError as error:
                raise InputError(f"{path}: {_said(error)}") from None
        return tuple(contents)

    def _load(self) -> ssl.SSLContext:
        context = _context(*self._pair)
        if self._client_ca is not None:
            try:
                context.load_verify_locations(self._client_ca)
            except (OSError, ssl.SSLError) as error:
                raise InputError(f"{self._client_ca}: {_said(error)}") from None
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client of TLS 1.2 could ask for handshake after handshake on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        # What OpenSSL says of a key could name its content; which files it was is enough.
        reason = getattr(error, "reason", None) or "cannot be read as PEM"
        raise InputError(
            f"{certificate}, {key}: expected a certificate and its key: {reason}"
        ) from None
    return context


def _said(error: OSError) -> str:
    return error.strerror or type(error).__name__
