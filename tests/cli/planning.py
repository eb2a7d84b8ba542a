"""Clusters to plan for, and `tonnage plan` run on them."""

import json
from typing import Any

from click.testing import CliRunner, Result

from tests.scaleup.groups import DRIVER, group, owned_by
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.testing import builders as make


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(program, ["plan", *arguments], input=stdin)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def row(result: Result, first: str) -> list[str]:
    """The line of a table that begins with a cell."""
    found = [cells(line) for line in result.stdout.splitlines() if line]
    return next(line for line in found if line[0] == first)


def document(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def bought(result: Result) -> dict[str, int]:
    return {one["group"]: one["delta"] for one in document(result)["scaleUps"]}


def databases(count: int, *, name: str = "db", claims: int = 1) -> list[KubeObject]:
    """Pending pods of a StatefulSet, each with its own unbound claims."""
    found: list[KubeObject] = []
    for number in range(count):
        names = [f"data{claim}-{name}-{number}" for claim in range(claims)]
        found.append(make.pod(f"{name}-{number}", pvcs=names, owner=owned_by("StatefulSet", name)))
        found += [make.pvc(claim, storage_class="disks") for claim in names]
    return found


STORAGE: list[KubeObject] = [make.namespace("default"), make.storage_class("disks", DRIVER)]


def cluster(*more: KubeObject, pods: int = 12) -> list[KubeObject]:
    """Pods with a volume each, and a group whose nodes take five."""
    return [*STORAGE, *databases(pods), group("g", slots={DRIVER: 5}, price="0.5"), *more]
