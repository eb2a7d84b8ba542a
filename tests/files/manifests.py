"""Manifests as files and as text, and what is made of them."""

import io
import json
from pathlib import Path

import pytest

from tonnage.errors import InputError
from tonnage.files import Loaded, load

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


def write(directory: Path, name: str, content: object) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def names(loaded: Loaded) -> list[str]:
    return [obj.metadata.name for obj in loaded.objects]


def pod(name: str, **more: object) -> dict[str, object]:
    return {**POD, "metadata": {"name": name}, **more}


def items(*objects: object, kind: str = "List", api_version: str = "v1") -> dict[str, object]:
    return {"apiVersion": api_version, "kind": kind, "items": list(objects)}


def lines(*objects: object) -> str:
    return "".join(json.dumps(obj) + "\n" for obj in objects)


def scenario(name: str, *objects: object, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": name},
        "spec": {"objects": list(objects), **spec},
    }


def from_stdin(data: bytes | str, *, lenient: bool = False) -> Loaded:
    raw = data if isinstance(data, bytes) else data.encode()
    return load(["-"], stdin=io.BytesIO(raw), lenient=lenient)


def message(data: bytes | str | dict[str, object]) -> str:
    with pytest.raises(InputError) as caught:
        from_stdin(json.dumps(data) if isinstance(data, dict) else data)
    return str(caught.value).removeprefix("standard input: ")
