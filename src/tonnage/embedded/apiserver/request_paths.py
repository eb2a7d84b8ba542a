"""From the path and query of a request to what it asks for."""

from functools import lru_cache
from urllib.parse import unquote

import msgspec

from tonnage.cluster.transport import HttpRequest, Pairs
from tonnage.embedded.apiserver.refusals import bad_request, method_not_allowed, no_such_path
from tonnage.embedded.apiserver.store import Collection, ObjectStore

_OF_NAMESPACES = ("status", "finalize")
_OF_RUNNING_PODS = ("log", "exec", "attach", "portforward", "proxy", "ephemeralcontainers")


class ResourcePath(msgspec.Struct, frozen=True):
    """Where a path points: a kind, and as much of namespace, name and subresource as it has."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


class ResourceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request about objects of one kind."""

    method: str
    collection: Collection
    namespace: str
    name: str
    subresource: str
    query: dict[str, str]
    accept: str
    content_type: str
    body: bytes

    @property
    def dry(self) -> bool:
        return self.query.get("dryRun") == "All"

    @property
    def watches(self) -> bool:
        return self.method == "GET" and not self.name and self.flag("watch")

    def flag(self, name: str) -> bool:
        return self.query.get(name, "") in ("true", "1", "True")

    def number(self, name: str) -> int | None:
        text = self.query.get(name, "")
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise bad_request(f"{name}: expected a whole number, not {text!r}")
        return int(text)


def asked(store: ObjectStore, request: HttpRequest) -> ResourceRequest:
    """What a request is about; refused if there is no such thing."""
    place = _place(request.path)
    collection = store.collections.get((place.group, place.version, place.plural))
    if collection is None:
        raise no_such_path()
    kind = collection.kind
    if place.namespace and not kind.namespaced:
        raise no_such_path()
    if kind.namespaced and place.name and not place.namespace:
        raise no_such_path()
    if place.subresource and place.subresource not in kind.subresources:
        if kind.full_name == "pods" and place.subresource in _OF_RUNNING_PODS:
            raise method_not_allowed(
                f"pods/{place.subresource}: no containers run in the embedded cluster"
            )
        raise no_such_path()
    accept, content_type = _media_types(request.headers)
    query = dict(request.query)
    if query.get("dryRun", "All") != "All":
        raise bad_request(f"dryRun: expected All, not {query['dryRun']!r}")
    return ResourceRequest(
        method=request.method,
        collection=collection,
        namespace=place.namespace,
        name=place.name,
        subresource=place.subresource,
        query=query,
        accept=accept,
        content_type=content_type,
        body=request.body or b"",
    )


@lru_cache(maxsize=64)
def _media_types(headers: Pairs) -> tuple[str, str]:
    """What is accepted, and what is sent."""
    values = {name.lower(): value for name, value in headers}
    sent = values.get("content-type", "").partition(";")[0].strip()
    return values.get("accept", ""), sent


@lru_cache(maxsize=1 << 15)
def _place(path: str) -> ResourcePath:
    root, *parts = path.strip("/").split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if root == "api" and len(parts) >= 2:
        group, version, *rest = "", *parts
    elif root == "apis" and len(parts) >= 3:
        group, version, *rest = parts
    else:
        raise no_such_path()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in _OF_NAMESPACES:
        _, namespace, *rest = rest
    plural, name, subresource, *more = (*rest, "", "")
    if any(more):
        raise no_such_path()
    return ResourcePath(group, version, plural, namespace, name, subresource)
