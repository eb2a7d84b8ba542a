"""Files that are neither manifests nor batches: plans, and priorities of node groups."""

from pathlib import Path

import msgspec
import yaml

from tonnage.errors import InputError
from tonnage.files import sources, yamltext
from tonnage.scaleup import priority_texts
from tonnage.scaleup.plan import Plan


def read_plan(path: str) -> Plan:
    """A plan as `tonnage plan` prints it in JSON or YAML; `-` is standard input."""
    name, data = _read(path)
    try:
        document = _document(data)
        if not isinstance(document, dict) or document.get("kind") != Plan().kind:
            found = document.get("kind") if isinstance(document, dict) else None
            raise InputError(
                "expected a document of kind Plan, such as `tonnage plan -o json` prints, "
                f"found {f'kind {found}' if found else 'none'}"
            )
        return msgspec.convert(document, Plan)
    except (InputError, msgspec.MsgspecError) as error:
        raise InputError(f"{name}: {error}") from error


def read_priorities(path: str) -> dict[str, list[str]]:
    """The option `priorities` from upstream's ConfigMap, or from what that has inside."""
    name, data = _read(path)
    try:
        text = data.decode()
        inner = _of_config_map(text)
        found = priority_texts.parse_priorities(text if inner is None else inner)
    except (InputError, UnicodeError) as error:
        raise InputError(f"{name}: {error}") from error
    return {
        str(priority): [expression.pattern for expression in expressions]
        for priority, expressions in found.rules
    }


def _of_config_map(text: str) -> str | None:
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None  # said better by who reads it for its meaning
    if not isinstance(document, dict) or document.get("kind") != "ConfigMap":
        return None
    data = document.get("data")
    inner = data.get("priorities") if isinstance(data, dict) else None
    if not isinstance(inner, str):
        raise InputError("a ConfigMap without data.priorities")
    return inner


def _read(path: str) -> tuple[str, bytes]:
    if path == sources.STDIN:
        source = sources.InputSource("standard input", None)
    else:
        source = sources.InputSource(path, Path(path))
    return source.name, sources.read(source)


def _document(data: bytes) -> object:
    if data.lstrip()[:1] == b"{":
        return msgspec.json.decode(data)
    documents = [
        one for line, part in yamltext.split(data) for one in yamltext.read(part, first_line=line)
    ]
    if len(documents) != 1:
        raise InputError(
            "expected one document of kind Plan, such as `tonnage plan -o json` prints, "
            f"found {len(documents)} documents"
        )
    return documents[0].value
