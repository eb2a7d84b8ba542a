"""What the AWS provider is told in `--cloud-config`: region, endpoint, prices."""

from pathlib import Path
from typing import Any

import msgspec

from tonnage.errors import InputError


class AwsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Without a region that of the environment counts, as everywhere with AWS."""

    region: str = ""
    endpoint_url: str | None = None
    prices: dict[str, float] = {}


_FIELDS = {"region": "region", "endpointURL": "endpoint_url", "prices": "prices"}


def read(path: str | Path) -> AwsConfig:
    """The configuration in a YAML file; every mistake is an `InputError` that names the field."""
    import yaml

    try:
        document: Any = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return AwsConfig()
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected fields such as region")
    unknown = sorted(set(map(str, document)) - set(_FIELDS))
    if unknown:
        raise InputError(
            f"{path}: unknown field {unknown[0]}; expected some of {', '.join(_FIELDS)}"
        )
    try:
        return msgspec.convert({_FIELDS[key]: value for key, value in document.items()}, AwsConfig)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}") from error
