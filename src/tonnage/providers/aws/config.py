"""What the AWS provider is told in `--cloud-config`: region, endpoint, prices."""

from pathlib import Path
from typing import Any

import msgspec

from tonnage.errors import InputError
from tonnage.files import yamltext
from tonnage.objects import codec, strictness
from tonnage.objects.validation import Fault, describe


class AwsConfig(msgspec.Struct, frozen=True, kw_only=True, rename={"endpoint_url": "endpointURL"}):
    """Without a region that of the environment counts, as everywhere with AWS."""

    region: str = ""
    endpoint_url: str | None = None
    prices: dict[str, float] = {}


def read(path: str | Path) -> AwsConfig:
    """The configuration in a YAML file; every mistake is an `InputError` with line and field."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        documents = [
            document
            for line, part in yamltext.split(data)
            for document in yamltext.read(part, first_line=line)
        ]
    except yamltext.YamlError as error:
        raise InputError(f"{path}:{error.line}: {error.message}") from error
    if not documents:
        return AwsConfig()
    if len(documents) > 1:
        raise InputError(f"{path}:{documents[1].line}: expected one document, found another")
    (document,) = documents
    if document.repeated is not None:
        key, again = document.repeated
        raise InputError(f"{path}:{again}: {key}: written for the second time")
    found = _understood(document.value)
    if isinstance(found, AwsConfig):
        return found
    field = f"{codec.render(found.path)}: " if found.path else ""
    where = f"{path}:{document.line_of(found.path)}"
    raise InputError(f"{where}: {field}expected {found.expected}, found {found.found}")


def _understood(value: Any) -> AwsConfig | Fault:
    if value is None:
        return AwsConfig()
    if not isinstance(value, dict):
        return Fault((), "fields such as region", describe(value))
    unknown = strictness.first_unknown(value, AwsConfig)
    if unknown is not None:
        return unknown
    try:
        config = msgspec.convert(value, AwsConfig)
    except msgspec.ValidationError as error:
        return codec.explained(str(error), value)
    for name, price in config.prices.items():
        if price < 0:
            return Fault(("prices", name), "US dollars per hour, 0 or more", describe(price))
    return config
