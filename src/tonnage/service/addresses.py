"""Where a shell listens, as it is written: checked before anything is started."""

import ipaddress

from tonnage.errors import InputError

_LAST_PORT = 65535


def split(address: str) -> tuple[str, int]:
    """Host and port of `:8085`, `127.0.0.1:8085` or `[::1]:8085`."""
    host, colon, port = address.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port) <= _LAST_PORT):
        raise InputError(
            f"address {address!r}: expected HOST:PORT or :PORT, with a port of 0 to {_LAST_PORT}"
        )
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether only this machine, or this pod, reaches it. A name counts only if it is localhost."""
    host, _ = split(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
