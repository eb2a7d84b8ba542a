"""Which rights the code uses: read off its calls of the cluster client."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tonnage
from tests.deploy.manifests import Right
from tonnage.autoscaler import world
from tonnage.cluster import records, resources
from tonnage.objects import kinds

PACKAGE = Path(tonnage.__file__).parent
VERBS = {
    "get": "get",
    "list": "list",
    "create": "create",
    "replace": "update",
    "patch": "patch",
    "delete": "delete",
}
STARTUP_TAINTS = "autoscaler/startup_taints.py"
HEADROOM = "autoscaler/capacity_buffers.py"
PROVISIONING = "autoscaler/provisioning_requests.py"
SCALE_DOWN = "autoscaler/scaledown"
SURGE = "autoscaler/consolidation/surges.py"
BASE = (
    *sorted(
        str(path.relative_to(PACKAGE))
        for path in (PACKAGE / "autoscaler").glob("*.py")
        if path not in (PACKAGE / STARTUP_TAINTS, PACKAGE / HEADROOM, PACKAGE / PROVISIONING)
    ),
    "cluster/events.py",
    "cluster/lease.py",
)
KWOK = ("providers/kwok.py", "providers/kwok_groups.py", "providers/kwok_ledger.py")

_TYPES: dict[str, type] = {
    **{row.type.__name__: row.type for row in kinds.ALL},
    "ConfigMap": records.ConfigMap,
    "Event": records.Event,
}


def rights_used(*parts: str) -> set[Right]:
    """Rights behind the calls `client.VERB(Kind, ...)` in modules of the package."""
    return {right for part in parts for path in _modules(part) for right in _rights(path)}


def rights_to_follow(kinds: tuple[type, ...] = world.KINDS) -> set[Right]:
    """Rights behind the caches the autoscaler keeps."""
    return {_right(kind, verb) for kind in kinds for verb in ("list", "watch")}


def _modules(part: str) -> list[Path]:
    path = PACKAGE / part
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _rights(path: Path) -> Iterator[Right]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        receiver = ast.unparse(node.func.value)
        if node.func.attr in VERBS and receiver.endswith("client"):
            kind = _TYPES[ast.unparse(node.args[0])]
            part = [
                ast.literal_eval(one.value) for one in node.keywords if one.arg == "subresource"
            ]
            yield _right(kind, VERBS[node.func.attr], *part)
        elif node.func.attr == "evict" and receiver.endswith("client"):
            yield Right("", "pods/eviction", "create")
        elif node.func.attr == "scale" and receiver.endswith("client"):
            yield _right(_TYPES[ast.unparse(node.args[0])], "patch", "scale")


def _right(kind: type, verb: str, *subresource: str) -> Right:
    resource: resources.Resource[Any] = resources.of(kind)
    return Right(resource.group, "/".join((resource.plural, *subresource)), verb)
