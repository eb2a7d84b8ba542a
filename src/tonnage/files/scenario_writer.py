"""Clusters written as one document: a Scenario that every command reads back."""

import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tonnage.errors import InputError
from tonnage.files.loaded import Loaded, ScenarioOptions
from tonnage.objects import kinds
from tonnage.objects.kinds import KubeObject
from tonnage.objects.scenarios import API_VERSION

STANDARD_OUTPUT = "-"


def write(target: str, loaded: Loaded, *, name: str, taken_at: str) -> None:
    """Write a Scenario as one line of JSON; compressed if the file's name ends in `.gz`.

    The file appears whole or not at all. `taken_at`, if known, becomes its creationTimestamp.
    """
    lines = pieces(loaded, name=name, taken_at=taken_at)
    if target == STANDARD_OUTPUT:
        for piece in lines:
            sys.stdout.buffer.write(piece)
        return
    unfinished = Path(f"{target}.unfinished")
    try:
        with unfinished.open("wb") as raw:
            if target.endswith(".gz"):
                # Without the time in its header, the same cluster gives the same bytes.
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                    packed.writelines(lines)
            else:
                raw.writelines(lines)
        os.replace(unfinished, target)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from error


def pieces(loaded: Loaded, *, name: str, taken_at: str) -> Iterator[bytes]:
    """The Scenario object by object, so that a large cluster is never in memory as text too."""
    scenario = loaded.scenario or ScenarioOptions()
    settings = {
        "kubernetesVersion": scenario.kubernetes_version,
        "featureGates": scenario.feature_gates,
        "options": scenario.options,
    }
    document = {
        "apiVersion": API_VERSION,
        "kind": "Scenario",
        "metadata": {"name": name, **({"creationTimestamp": taken_at} if taken_at else {})},
        "spec": {**{key: value for key, value in settings.items() if value}, "objects": []},
    }
    opening, closing = msgspec.json.encode(document).rsplit(b"[]", 1)
    yield opening + b"["
    for position, one in enumerate(loaded.objects):
        yield (b"," if position else b"") + manifest(one)
    yield b"]" + closing + b"\n"


def manifest(obj: KubeObject) -> bytes:
    """One object as JSON, with the names of its kind in front."""
    row = kinds.of(obj)
    head = msgspec.json.encode({"apiVersion": row.api_version, "kind": row.kind})
    body = msgspec.json.encode(obj)
    return head if body == b"{}" else head[:-1] + b"," + body[1:]
