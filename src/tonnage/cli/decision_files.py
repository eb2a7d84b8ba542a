"""Decisions of a running autoscaler: asked at its debug address, or read from its file."""

from typing import TYPE_CHECKING

import click

from tonnage.cli import console
from tonnage.errors import InputError, TonnageError

if TYPE_CHECKING:
    from tonnage.autoscaler.report import LoggedDecision

PATH = "/debug/decisions"
DEFAULT_URL = "http://127.0.0.1:8086"

_SECONDS = 10.0


class NobodyListensError(TonnageError):
    """Nothing answers at the address."""


def ask(url: str, path: str = PATH) -> "list[LoggedDecision]":
    """What a running autoscaler answers at its debug address."""
    return decoded(get(url, path), address(url, path))


def address(url: str, path: str) -> str:
    """Of a document at the debug address."""
    if not url.startswith(("http://", "https://")):
        raise InputError(f"--url {url!r}: expected http://HOST:PORT or https://HOST:PORT")
    return url.rstrip("/") + path


def get(url: str, path: str) -> bytes:
    """What is answered at a path of the debug address."""
    import urllib.error
    import urllib.request

    where = address(url, path)
    # No proxy of the environment: the autoscaler is on this machine or in the cluster.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(where, timeout=_SECONDS) as answer:
            data: bytes = answer.read()
            return data
    except urllib.error.HTTPError as error:
        hint = "; is that its --debug-address?" if error.code in (403, 404) else ""
        raise TonnageError(f"{where}: answered {error.code} {error.reason}{hint}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        reason = getattr(reason, "strerror", None) or reason  # without its number
        raise NobodyListensError(
            f"{where}: {reason}; is an autoscaler listening there? --url says where it does, its"
            " --debug-address that it does"
        ) from None


def read(file: str) -> "list[LoggedDecision]":
    """What a decision file holds; a line that was cut off is left out with a note."""
    try:
        with click.open_file(file, "rb") as stream:
            data: bytes = stream.read()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None
    if data.lstrip().startswith(b"["):
        return decoded(data, file)
    import msgspec

    found: list[LoggedDecision] = []
    cut_off: list[int] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            msgspec.json.decode(line)
        except msgspec.DecodeError:
            cut_off.append(number)
        else:
            found.extend(decoded(b"[" + line + b"]", f"{file}:{number}"))
    if cut_off and not found:
        raise InputError(f"{file}: no line is a decision; expected one line of JSON for each")
    for number in cut_off:
        # Whoever wrote it was killed meanwhile; that must not hide the other decisions.
        console.note(f"{file}:{number}: the line is not complete, and left out")
    return found


def decoded(data: bytes, where: str) -> "list[LoggedDecision]":
    import msgspec

    from tonnage.autoscaler.report import LoggedDecision

    try:
        return msgspec.json.decode(data, type=list[LoggedDecision])
    except msgspec.DecodeError as error:
        raise InputError(f"{where}: not decisions of an autoscaler: {error}") from None
