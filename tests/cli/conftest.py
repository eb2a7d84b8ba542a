"""Clusters as files, for commands that read files."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from tonnage.objects import kinds
from tonnage.objects.kinds import KubeObject

Written: TypeAlias = Callable[..., str]


def manifest(one: KubeObject) -> dict[str, object]:
    row = kinds.of(one)
    fields: dict[str, object] = msgspec.to_builtins(one)
    return {"apiVersion": row.api_version, "kind": row.kind, **fields}


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes objects into a file of JSON and gives its name."""

    def write(*objects: KubeObject, name: str = "cluster.json") -> str:
        path = tmp_path / name
        items = [manifest(one) for one in objects]
        path.write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": items}))
        return str(path)

    return write
