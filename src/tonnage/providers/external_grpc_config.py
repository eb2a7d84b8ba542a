"""Where the server of an external provider is, and how to trust it: upstream's `--cloud-config`."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tonnage.errors import InputError, system_errors
from tonnage.objects import durations

TIMEOUT = 5.0
_FIELDS = ("address", "key", "cert", "cacert", "grpc_timeout")


class Secrets(NamedTuple):
    """Contents of files, in PEM; without key and certificate only the server proves who it is."""

    ca: bytes
    key: bytes | None
    certificate: bytes | None


class ExternalGrpcConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`key`, `cert` and `cacert` are paths. None of them: nothing is encrypted."""

    address: str
    key: str = ""
    cert: str = ""
    cacert: str = ""
    grpc_timeout: float = TIMEOUT

    def secrets(self) -> Secrets | None:
        """Read the files; `InputError` says which one is wrong."""
        if not self.cacert:
            return None
        key, certificate = (_pem(one) if one else None for one in (self.key, self.cert))
        return Secrets(_pem(self.cacert), key, certificate)


def read(path: str | Path) -> ExternalGrpcConfig:
    """The configuration in a YAML file; every mistake is an `InputError` that names the field."""
    import yaml

    try:
        with system_errors(path):
            document: Any = yaml.safe_load(Path(path).read_text())
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected fields such as address")
    unknown = sorted(set(map(str, document)) - set(_FIELDS))
    if unknown:
        raise InputError(
            f"{path}: unknown field {unknown[0]}; expected some of {', '.join(_FIELDS)}"
        )
    fields = {name: document[name] for name in _FIELDS if document.get(name) is not None}
    for name, value in fields.items():
        if not isinstance(value, str):
            raise InputError(f"{path}: {name}: expected text, found {value!r}")
    if not fields.get("address"):
        raise InputError(f"{path}: address: expected HOST:PORT of the server")
    if bool(fields.get("key")) != bool(fields.get("cert")):
        raise InputError(f"{path}: key and cert: expected both or neither")
    if fields.get("cert") and not fields.get("cacert"):
        raise InputError(f"{path}: cacert: expected the file of the authority that server is under")
    timeout = fields.pop("grpc_timeout", None)
    seconds = TIMEOUT if timeout is None else durations.seconds(timeout)
    if not seconds:
        raise InputError(f"{path}: grpc_timeout: expected a duration such as 5s, found {timeout!r}")
    return ExternalGrpcConfig(**fields, grpc_timeout=seconds)


def _pem(path: str) -> bytes:
    with system_errors(path):
        content = Path(path).read_bytes()
    if b"-----BEGIN " not in content:
        raise InputError(f"{path}: expected PEM")
    return content
