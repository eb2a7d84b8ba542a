"""Objects as they are written, put into the embedded API and taken out, as kubectl would."""

from typing import Any

import msgspec

from tonnage.cluster.transport import HttpRequest
from tonnage.embedded.apiserver import ApiServer
from tonnage.embedded.apiserver.kinds import ServedKind
from tonnage.embedded.apiserver.patches import APPLY, MERGE
from tonnage.embedded.apiserver.store import Collection
from tonnage.errors import InputError

_MANAGER = (("fieldManager", "simulation"), ("force", "true"))


def named(tree: dict[str, Any]) -> str:
    """`StatefulSet default/db`, for messages."""
    meta = tree.get("metadata") or {}
    names = [meta.get("namespace", ""), meta.get("name", "")]
    return f"{tree.get('kind')} {'/'.join(filter(None, names))}"


class Manifests:
    """The way of a script to the API: what is refused is an `InputError`."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._uids: dict[str, str] = {}
        """What the API made of uids that objects had in another cluster."""

    def apply(self, tree: dict[str, Any]) -> None:
        """Create, or change what is there."""
        kind = self._kind(tree["kind"], api_version=tree["apiVersion"])
        meta = tree["metadata"]
        namespace = meta.get("namespace", "default") if kind.namespaced else ""
        if self._collection(kind).get(namespace, meta["name"]) is None:
            made = self._send("POST", _path(kind, namespace), self._owned(tree), what=named(tree))
            if meta.get("uid"):
                self._uids[meta["uid"]] = made["metadata"]["uid"]
        else:
            path = f"{_path(kind, namespace)}/{meta['name']}"
            self._send("PATCH", path, tree, what=named(tree), style=APPLY, query=_MANAGER)

    def _owned(self, tree: dict[str, Any]) -> dict[str, Any]:
        """The object with the uids that its owners have here."""
        owners = tree["metadata"].get("ownerReferences")
        if not owners:
            return tree
        here = [
            {**one, "uid": self._uids.get(one.get("uid", ""), one.get("uid"))} for one in owners
        ]
        return {**tree, "metadata": {**tree["metadata"], "ownerReferences": here}}

    def has(self, kind: str, name: str, *, namespace: str) -> bool:
        served = self._kind(kind)
        where = namespace if served.namespaced else ""
        return self._collection(served).get(where, name) is not None

    def delete(self, kind: str, name: str, *, namespace: str) -> bool:
        """Whether it was there."""
        if not self.has(kind, name, namespace=namespace):
            return False
        served = self._kind(kind)
        where = namespace if served.namespaced else ""
        self._send("DELETE", f"{_path(served, where)}/{name}", None, what=f"{kind} {name}")
        return True

    def scale(
        self, kind: str, name: str, *, namespace: str, replicas: int | None, by: int | None
    ) -> int:
        """How many replicas it then is to have."""
        served = self._kind(kind)
        found = self._collection(served).get(namespace, name)
        if found is None:
            raise InputError(f"scale: there is no {kind} {namespace}/{name}")
        now = found.tree.get("spec", {}).get("replicas", 1)
        wanted = replicas if replicas is not None else max(now + (by or 0), 0)
        change = {"spec": {"replicas": wanted}}
        path = f"{_path(served, namespace)}/{name}"
        self._send("PATCH", path, change, what=f"{kind} {name}", style=MERGE)
        return wanted

    def _kind(self, kind: str, *, api_version: str = "") -> ServedKind:
        for collection in self._server.store.collections.values():
            served = collection.kind
            if served.kind == kind and api_version in ("", served.api_version):
                return served
        raise InputError(f"{api_version} {kind}".strip() + ": the API does not serve this kind")

    def _collection(self, kind: ServedKind) -> Collection:
        return self._server.store.collections[kind.group, kind.version, kind.plural]

    def _send(
        self,
        method: str,
        path: str,
        tree: dict[str, Any] | None,
        *,
        what: str,
        style: str = "application/json",
        query: tuple[tuple[str, str], ...] = (),
    ) -> dict[str, Any]:
        answer = self._server.answer(
            HttpRequest(
                method=method,
                path=path,
                query=query,
                headers=(("Content-Type", style),),
                body=None if tree is None else msgspec.json.encode(tree),
            )
        )
        if answer.status >= 300:
            message = msgspec.json.decode(answer.body).get("message", "")
            raise InputError(f"{what}: {message}")
        told: dict[str, Any] = msgspec.json.decode(answer.body)
        return told


def _path(kind: ServedKind, namespace: str) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{where}/{kind.plural}"
