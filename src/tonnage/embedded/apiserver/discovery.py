"""What clients ask before they ask for objects: which kinds there are, and which version this is.

The OpenAPI documents say that every kind can be patched with the server checking its fields:
without that, kubectl refuses to apply anything unchecked. They also hold what `kubectl explain`
shows.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from tonnage.embedded.apiserver import schemas
from tonnage.embedded.apiserver.kinds import ServedKind
from tonnage.embedded.apiserver.refusals import Tree

VERSION: Tree = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+tonnage",
    "platform": "embedded",
}

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_OPENAPI = "openapi/v3/"
_INFO = {"title": "Tonnage embedded cluster", "version": VERSION["gitVersion"]}


def is_document(path: str) -> bool:
    """Whether a path is about the server and its kinds, not about objects."""
    root, *rest = path.strip("/").split("/")
    return len(rest) < {"api": 2, "apis": 3}.get(root, len(rest) + 1)


def document(path: str, kinds: Iterable[ServedKind]) -> Tree | None:
    """The answer to such a path; `None` if there is nothing at it."""
    path = path.strip("/")
    served = list(kinds)
    match path.split("/"):
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = [_group(name, served) for name in _groups(served)]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if group in _groups(served):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, served)}
        case ["api", version]:
            return _resources("", version, served)
        case ["apis", group, version]:
            return _resources(group, version, served)
        case ["openapi", "v2"]:
            return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}
        case ["openapi", "v3"]:
            roots = sorted({_root(kind) for kind in served})
            # kubectl keeps documents by their hash, which therefore says what is in them.
            return {"paths": {
                root: {"serverRelativeURL": f"/{_OPENAPI}{root}?hash={_hash(root, served)}"}
                for root in roots
            }}  # fmt: skip
        case ["openapi", "v3", *_]:
            return _openapi(path.removeprefix(_OPENAPI), served)
    return None


def _groups(served: list[ServedKind]) -> list[str]:
    return list(dict.fromkeys(kind.group for kind in served if kind.group))


def _group(name: str, served: list[ServedKind]) -> Tree:
    found = dict.fromkeys(kind.version for kind in served if kind.group == name)
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in found]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str, served: list[ServedKind]) -> Tree | None:
    found = [kind for kind in served if (kind.group, kind.version) == (group, version)]
    if not found:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].api_version,
        "resources": [entry for kind in found for entry in _entries(kind)],
    }


def _entries(kind: ServedKind) -> Iterable[Tree]:
    entry: Tree = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    yield entry
    for name in kind.subresources:
        group, version, of, verbs = _SUBRESOURCES[name]
        yield {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": of or kind.kind,
            "verbs": verbs,
            **({"group": group, "version": version} if of and group else {}),
        }


_SUBRESOURCES = {
    "status": ("", "", "", ["get", "patch", "update"]),
    "scale": ("autoscaling", "v1", "Scale", ["get", "patch", "update"]),
    "binding": ("", "", "Binding", ["create"]),
    "eviction": ("policy", "v1", "Eviction", ["create"]),
}


def _root(kind: ServedKind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _openapi(root: str, served: list[ServedKind]) -> Tree | None:
    found = [kind for kind in served if _root(kind) == root]
    if not found:
        return None
    checked = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
    paths = {}
    for kind in found:
        within = "/namespaces/{namespace}" if kind.namespaced else ""
        identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        paths[f"/{root}{within}/{kind.plural}/{{name}}"] = {
            "patch": {
                "parameters": checked,
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-group-version-kind": identity,
            }
        }
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths,
        "components": {"schemas": schemas.components(found)},
    }


def _hash(root: str, served: list[ServedKind]) -> str:
    content = msgspec.json.encode(_openapi(root, served))
    return hashlib.blake2b(content, digest_size=16).hexdigest().upper()
