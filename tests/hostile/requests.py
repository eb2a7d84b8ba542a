"""Requests made to hurt the embedded API, drawn from a seed."""

import json
import random
from collections.abc import Iterator
from typing import Any

from tonnage.cluster.transport import HttpRequest
from tonnage.embedded.apiserver import patches
from tonnage.embedded.apiserver.kinds import BUILT_IN, ServedKind, from_definition

_LABELS = {"app": "db"}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": {"containers": [{"name": "c"}]}}
_WORKLOAD = {"replicas": 1, "selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}
_OWNER = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "it", "uid": "1"}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object"}},
    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas"}},
    "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
}
_BODIES: dict[str, dict[str, Any]] = {
    "pods": {"spec": {"containers": [{"name": "c"}], "tolerations": [{"key": "a"}]}},
    "deployments": {"spec": _WORKLOAD},
    "replicasets": {"spec": _WORKLOAD},
    "daemonsets": {"spec": _WORKLOAD},
    "statefulsets": {
        "spec": {**_WORKLOAD, "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": _CLAIM}]}
    },
    "jobs": {"spec": {"template": _TEMPLATE, "parallelism": 1}},
    "cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {}}}},
    "persistentvolumeclaims": {"spec": _CLAIM},
    "persistentvolumes": {"spec": {"capacity": {"storage": "1Gi"}, "csi": {"driver": "d"}}},
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}}},
    "customresourcedefinitions": {
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "its", "kind": "It"},
            "versions": [_VERSION],
        }
    },
    "nodes": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {}},
    "csinodes": {"spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 1}}]}},
    "events": {"involvedObject": {"kind": "Pod", "name": "it"}, "reason": "R", "count": 1},
    "leases": {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    "storageclasses": {"provisioner": "d"},
    "configmaps": {"data": {"a": "b"}},
}
_OF_SUBRESOURCES: dict[str, dict[str, Any]] = {
    "binding": {"metadata": {"name": "it"}, "target": {"kind": "Node", "name": "it"}},
    "eviction": {"metadata": {"name": "it"}, "deleteOptions": {"gracePeriodSeconds": 0}},
    "scale": {"metadata": {"name": "it"}, "spec": {"replicas": 2}},
}
_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**63, 2**64, 10**30, 1.5, 1e300, "", "it", "\x00", "\x1b[2J", "😀",
    "a/b", "2026-01-01T00:00:00Z", "never", "1Gi", "-1", "10%", [], {}, [[]], [None], [{}],
    {"": None}, {"a": 1}, {"name": None}, [1], ["a"], {"matchLabels": 1},
    {"matchExpressions": [{}]},
    "x" * 5000,
)  # fmt: skip
_STYLES = (*patches.STYLES, "application/json", "", "text/plain", "application/yaml", "x" * 300)
_QUERIES = (
    ("labelSelector", ("app=db", "a in (", "!a", "a==", ",,", "a notin (b)", "\x00", "=" * 99)),
    ("fieldSelector", ("metadata.name=it", "spec.nodeName!=", "a.b=c", "=", "status.phase=,")),
    ("limit", ("1", "0", "-1", "9" * 40, "x", "²")),
    ("continue", ("", "x", "e30", "bnVsbA", "WzFd", "é")),
    ("resourceVersion", ("0", "1", "x", "9" * 30, "-1", "²")),
    ("resourceVersionMatch", ("Exact", "NotOlderThan", "x")),
    ("dryRun", ("All", "None")),
    ("fieldManager", ("me", "")),
    ("force", ("true", "x")),
    ("gracePeriodSeconds", ("0", "-1", "9" * 30, "²")),
    ("propagationPolicy", ("Orphan", "Foreground", "x")),
    ("includeObject", ("None", "Object", "x")),
    ("timeoutSeconds", ("1", "x")),
)
_OTHERS = (
    "/api", "/apis", "/version", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/example.com/v1",
    "/openapi/v3/api/v1", "/apis/example.com/v1",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
)  # fmt: skip
_PATHS = (
    "", "x", "/metadata", "/metadata/name", "/metadata/ownerReferences/0/uid", "/spec", "/a/b",
    "/spec/containers/-", "/metadata/labels/a~1b", "/metadata/finalizers/9",
)  # fmt: skip
_ACCEPTS = ("", "application/json", "application/json;as=Table;g=meta.k8s.io;v=v1", "*/*")


CUSTOM = from_definition({"spec": _BODIES["customresourcedefinitions"]["spec"]})


def drawn(seed: int, count: int) -> Iterator[HttpRequest]:
    """Hostile requests; the same for the same seed."""
    dice = random.Random(seed)
    for kind in BUILT_IN:
        yield _sent("POST", _place(kind), valid(kind))
    for _ in range(count):
        yield _request(dice)


def valid(kind: ServedKind) -> dict[str, Any]:
    """An object that the API takes."""
    name = "its.example.com" if kind.plural == "customresourcedefinitions" else "it"
    meta = {"name": name, "labels": _LABELS, "ownerReferences": [_OWNER], "finalizers": ["a/b"]}
    return {"metadata": meta, **_BODIES.get(kind.plural, {})}


def _place(kind: ServedKind) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return (
        f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    )


def _sent(method: str, path: str, tree: object) -> HttpRequest:
    headers = (("Content-Type", "application/json"),)
    return HttpRequest(method=method, path=path, headers=headers, body=json.dumps(tree).encode())


def _request(dice: random.Random) -> HttpRequest:
    kind = dice.choice(BUILT_IN)
    tree = valid(kind)
    name = tree["metadata"]["name"]
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = (
        f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    )
    method = dice.choice(
        ["POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "PATCH", "PATCH", "GET", "GET", "DELETE"]
    )
    if method != "POST" and dice.random() < 0.8:
        place += f"/{name}"
    if kind.subresources and dice.random() < 0.2:
        part = dice.choice(kind.subresources)
        place = f"{place.removesuffix('/' + name)}/{name}/{part}"
        tree = _OF_SUBRESOURCES.get(part, tree)
    if dice.random() < 0.03:
        place = dice.choice(
            [f"{place}/%00", f"{place}//", "/api", f"{place}/a/b/c", "/apis/%2e%2e/x"]
        )
    query = tuple((key, dice.choice(values)) for key, values in _QUERIES if dice.random() < 0.06)
    headers = [("Accept", dice.choice(_ACCEPTS))]
    body: object = tree
    style = "application/json"
    if method == "PATCH":
        style = dice.choice(_STYLES)
        body = _patch(dice, tree, style)
    for _ in range(dice.choice([0, 1, 1, 1, 2, 5])):
        body = _spoilt(dice, body)
    if method != "PATCH" and dice.random() < 0.05:
        style = dice.choice(_STYLES)
    if dice.random() < 0.02:
        body = {**tree, "spec": "DEEP", "data": "DEEP"}
    data = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    depth = dice.choice([190, 320, 450, 700, 990, 1500])
    data = data.replace(b'"DEEP"', b'{"a":' * depth + b"1" + b"}" * depth)
    if dice.random() < 0.03:
        data = dice.choice(
            [b"", b"{", b"\xff\xfe", b"null", b"[]", b"[" * 5000, data[:-3], b"k8s\x00\x01"]
        )
    headers.append(("Content-Type", style))
    return HttpRequest(method=method, path=place, query=query, headers=tuple(headers), body=data)


def _patch(dice: random.Random, tree: dict[str, Any], style: str) -> object:
    if style == patches.JSON:
        paths = _PATHS
        ops = ("add", "remove", "replace", "test", "move", "copy", "x")
        return [
            {"op": dice.choice(ops), "path": dice.choice(paths), "value": dice.choice(_ODD),
             "from": dice.choice(paths)}
            for _ in range(dice.randint(0, 3))
        ]  # fmt: skip
    whole = {**tree, "$patch": "replace"} if dice.random() < 0.1 else tree
    owners = [{**_OWNER, "uid": dice.choice(_ODD)}]
    lists: dict[str, Any] = {
        "ownerReferences": owners,
        "$deleteFromPrimitiveList/finalizers": ["a/b"],
    }
    return {**whole, "metadata": {**tree["metadata"], **(lists if dice.random() < 0.3 else {})}}


def _spoilt(dice: random.Random, value: object) -> object:
    """The value with something odd somewhere in it."""
    if isinstance(value, dict) and value and dice.random() < 0.85:
        key = dice.choice(list(value))
        if dice.random() < 0.1:
            return {other: item for other, item in value.items() if other != key}
        return {**value, key: _spoilt(dice, value[key])}
    if isinstance(value, list) and value and dice.random() < 0.85:
        place = dice.randrange(len(value))
        return [*value[:place], _spoilt(dice, value[place]), *value[place + 1 :]]
    if dice.random() < 0.02:
        nested: object = {}
        for _ in range(300):
            nested = {"a": nested}
        return nested
    return dice.choice(_ODD)
