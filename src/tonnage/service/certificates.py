"""The certificate a shell serves with, read again when its files change.

Whoever rotates certificates replaces the files under a running process. New connections get the
new certificate; those that are open go on.
"""

import logging
import ssl
from pathlib import Path

from tonnage.errors import InputError

_log = logging.getLogger(__name__)


class Certificates:
    """`context` always holds a pair that fits; `problem` says why newer files are not used.

    With `client_ca`, a client may show a certificate and then it must be of that authority.
    Whether one is required is for the server to say, because probes and scrapes show none.
    """

    def __init__(self, certificate: Path, key: Path, *, client_ca: Path | None = None) -> None:
        self._files = (certificate, key)
        self._client_ca = client_ca
        self._contents = self._read()
        self.context = _context(*self._files)
        if client_ca is not None:
            try:
                self.context.load_verify_locations(client_ca)
            except (OSError, ssl.SSLError) as error:
                raise InputError(f"{client_ca}: {_said(error)}") from None
            self.context.verify_mode = ssl.CERT_OPTIONAL
        self.problem = ""
        self.reloads = 0

    @property
    def clients_are_checked(self) -> bool:
        return self._client_ca is not None

    def check(self) -> bool:
        """Look at the files again; whether there is a new certificate."""
        try:
            contents = self._read()
            if contents == self._contents:
                return False
            # Tried on another context first: half a replaced pair must not spoil this one.
            _context(*self._files)
            self.context.load_cert_chain(*self._files)
        except (InputError, OSError, ssl.SSLError) as error:
            if str(error) != self.problem:
                self.problem = str(error)
                _log.error("certificate not reloaded", extra={"error": self.problem})
            return False
        self._contents = contents
        self.problem = ""
        self.reloads += 1
        _log.info("certificate reloaded", extra={"file": str(self._files[0])})
        return True

    def _read(self) -> tuple[bytes, ...]:
        contents = []
        for path in self._files:
            try:
                contents.append(path.read_bytes())
            except OSError as error:
                raise InputError(f"{path}: {_said(error)}") from None
        return tuple(contents)


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        # What OpenSSL says of a key could name its content; which files it was is enough.
        reason = error.reason or "cannot be read as PEM"
        raise InputError(
            f"{certificate}, {key}: expected a certificate and its key: {reason}"
        ) from None
    return context


def _said(error: OSError) -> str:
    return error.strerror or type(error).__name__
