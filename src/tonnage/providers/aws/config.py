"""What the AWS provider is told in `--cloud-config`: region, endpoint, prices."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from tonnage.errors import InputError, system_errors
from tonnage.files import yamltext
from tonnage.files.yamltext import YamlDocument
from tonnage.objects import codec, prices, strictness
from tonnage.objects.validation import Fault, describe


class AwsConfig(NamedTuple):
    """Without a region that of the environment counts, as everywhere with AWS.

    `unpriced` says by type what is wrong with a price that cannot be used.
    """

    region: str = ""
    endpoint_url: str | None = None
    prices: Mapping[str, float] = MappingProxyType({})
    unpriced: Mapping[str, str] = MappingProxyType({})


class _Written(msgspec.Struct, frozen=True, kw_only=True, rename={"endpoint_url": "endpointURL"}):
    region: str = ""
    endpoint_url: str | None = None
    prices: dict[str, Any] = {}


def read(path: str | Path) -> AwsConfig:
    """The configuration in a YAML file; every mistake is an `InputError` with line and field."""
    with system_errors(path):
        data = Path(path).read_bytes()
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
    if isinstance(found, _Written):
        return _priced(found, document, path)
    field = f"{codec.render(found.path)}: " if found.path else ""
    where = f"{path}:{document.line_of(found.path)}"
    raise InputError(f"{where}: {field}expected {found.expected}, found {found.found}")


def _understood(value: Any) -> _Written | Fault:
    if value is None:
        return _Written()
    if not isinstance(value, dict):
        return Fault((), "fields such as region", describe(value))
    unknown = strictness.first_unknown(value, _Written)
    if unknown is not None:
        return unknown
    try:
        return msgspec.convert(value, _Written)
    except msgspec.ValidationError as error:
        return codec.explained(str(error), value)


def _priced(written: _Written, document: YamlDocument, path: str | Path) -> AwsConfig:
    """With the prices that can be used: a bad one is no reason not to begin."""
    good: dict[str, float] = {}
    unpriced: dict[str, str] = {}
    for name, price in written.prices.items():
        amount, field = prices.amount(price), ("prices", name)
        if amount is not None:
            good[name] = amount
        else:
            # Somebody wrote the type down, so that even nothing beside it is a slip.
            wrong = prices.complaint("" if price is None else price)
            where = f"{path}:{document.line_of(field)}: {codec.render(field)}"
            unpriced[name] = f"{where}: {wrong}"
    return AwsConfig(written.region, written.endpoint_url, good, unpriced)
