"""The API as an object: requests in, answers out, no sockets and no time of its own."""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.transport import HttpRequest, Response
from tonnage.embedded.apiserver import discovery, patches, reviews, subresources, tables
from tonnage.embedded.apiserver.deletion import DeleteOptions, Deletion
from tonnage.embedded.apiserver.disruptions import Disruptions
from tonnage.embedded.apiserver.event_expiry import EVENT_TTL, EventExpiry
from tonnage.embedded.apiserver.journal import StoreJournal
from tonnage.embedded.apiserver.kinds import DEFINITIONS, from_definition
from tonnage.embedded.apiserver.lists import Lister
from tonnage.embedded.apiserver.refusals import (
    ApiRefusal,
    Tree,
    bad_request,
    invalid,
    method_not_allowed,
    no_such_path,
    not_found,
)
from tonnage.embedded.apiserver.request_paths import ResourceRequest, asked
from tonnage.embedded.apiserver.store import Collection, ObjectStore, Occurrence, Stored
from tonnage.embedded.apiserver.subresources import Evictions
from tonnage.embedded.apiserver.watches import Watch
from tonnage.embedded.apiserver.writes import ObjectWriter, parsed

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
REMEMBERED = 4096

_JSON = {"content-type": "application/json"}
_PLAIN = {"content-type": "text/plain"}


class ApiServer:
    """A Kubernetes API in memory: the same requests in the same order give the same bytes.

    Each request is carried out at once and as a whole; nothing waits, except for watches.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        data: Path | None = None,
        remembered: int = REMEMBERED,
        event_ttl: float = EVENT_TTL,
    ) -> None:
        """`data` keeps the objects; `remembered` changes of a kind can still be watched from.

        `event_ttl` is how many seconds an Event is kept after it was last written.
        """
        self.store = ObjectStore(remembered=remembered)
        self.clock = clock
        self._journal = StoreJournal(data, self.store) if data is not None else None
        self._deleting = Deletion(self.store, clock)
        self._disruptions = Disruptions(self.store)
        self._writing = ObjectWriter(self.store, self._deleting, clock=clock, rng=rng)
        self._evictions = Evictions(self.store, self._deleting, self._disruptions)
        self._reading = Lister(self.store, clock)
        self._expiring = EventExpiry(self.store, clock, after=event_ttl)
        self.store.observers.append(self._definition_changed)
        self._adopt_restored()
        for name in NAMESPACES:
            spaces = self.store.built_in("namespaces")
            if spaces.get("", name) is None:
                self._writing.create(spaces, {"metadata": {"name": name}}, namespace="", dry=False)

    def answer(self, request: HttpRequest) -> Response:
        """The answer to anything but a watch."""
        self._expiring.remove_expired()
        try:
            return self._answer(request)
        except ApiRefusal as refusal:
            return refused(refusal)
        except RecursionError:
            # Whatever is stored was encoded before, so this came too early to change anything.
            return refused(bad_request("the request is nested too deeply"))

    def watch(self, request: HttpRequest) -> Watch | None:
        """The watch a request asks for, if it asks for one; raises `ApiRefusal`."""
        if not any(name == "watch" for name, _ in request.query):
            return None
        self._expiring.remove_expired()
        wanted = asked(self.store, request)
        if not wanted.watches:
            return None
        if not tables.is_wanted(wanted.accept):
            return Watch(self.store, wanted)
        return Watch(self.store, wanted, render=lambda obj: self._table(wanted, [obj]))

    def close(self) -> None:
        """Let go of the data file."""
        if self._journal is not None:
            self._journal.close()

    def _answer(self, request: HttpRequest) -> Response:
        if request.path in _HEALTH:
            return Response(status=200, headers=_PLAIN, body=b"ok")
        if request.path == "/openapi/v2" and _wants_protobuf(request):
            # kubectl checks lists by this document; an empty one knows no kind and objects to none.
            return Response(status=200, headers=_PLAIN, body=b"")
        if request.method == "GET" and discovery.is_document(request.path):
            kinds = [collection.kind for collection in self.store.collections.values()]
            found = discovery.document(request.path, kinds)
            if found is None:
                raise no_such_path()
            return _shown(found)
        if request.method == "POST" and reviews.is_review(request.path):
            return _shown(reviews.answer(request.path), status=201)
        wanted = asked(self.store, request)
        verb = _VERBS.get((wanted.method, bool(wanted.name), wanted.subresource in _POSTED))
        if verb is None:
            raise method_not_allowed("the server does not allow this method on the resource")
        return verb(self, wanted)

    # Looking

    def _get(self, wanted: ResourceRequest) -> Response:
        obj = _existing(wanted)
        if wanted.subresource == "scale":
            return _shown(subresources.scale_of(wanted.collection, obj))
        if tables.is_wanted(wanted.accept):
            return Response(status=200, headers=_JSON, body=self._table(wanted, [obj]))
        return _stored(obj)

    def _list(self, wanted: ResourceRequest) -> Response:
        listed = self._reading.listed(wanted)
        if tables.is_wanted(wanted.accept):
            body = self._table(wanted, listed.items, metadata=listed.metadata)
        else:
            body = listed.encoded(wanted.collection.kind)
        return Response(status=200, headers=_JSON, body=body)

    def _table(
        self, wanted: ResourceRequest, objects: list[Stored], *, metadata: Tree | None = None
    ) -> bytes:
        if metadata is None:
            metadata = {"resourceVersion": str(objects[0].version)}
        return tables.table(
            wanted.collection.kind,
            objects,
            metadata=metadata,
            now=self.clock.now(),
            include=wanted.query.get("includeObject", ""),
        )

    # Changing

    def _create(self, wanted: ResourceRequest) -> Response:
        kind = wanted.collection.kind
        if kind.namespaced and not wanted.namespace:
            raise method_not_allowed("the server does not allow this method on the resource")
        tree = parsed(wanted.body, content_type=wanted.content_type)
        obj = self._writing.create(
            wanted.collection, tree, namespace=wanted.namespace, dry=wanted.dry
        )
        return _stored(obj, status=201)

    def _replace(self, wanted: ResourceRequest) -> Response:
        tree = parsed(wanted.body, content_type=wanted.content_type)
        return self._updated(wanted, _existing(wanted), tree)

    def _patch(self, wanted: ResourceRequest) -> Response:
        style = wanted.content_type
        before = wanted.collection.get(wanted.namespace, wanted.name)
        if style == patches.APPLY:
            if not wanted.query.get("fieldManager"):
                problem = "Required value: is required for apply patch"
                raise invalid("PatchOptions", "", [("fieldManager", problem)])
            if before is None and not wanted.subresource:
                return self._applied_new(wanted)
        before = _existing(wanted)
        current = before.tree
        if wanted.subresource == "scale":
            current = subresources.scale_of(wanted.collection, before)
        tree = self._writing.patched(wanted.collection, current, wanted.body, style=style)
        return self._updated(wanted, before, tree)

    def _applied_new(self, wanted: ResourceRequest) -> Response:
        tree = parsed(wanted.body, content_type=wanted.content_type)
        if isinstance(tree, dict):
            meta = tree.get("metadata")
            tree = {**tree, "metadata": {"name": wanted.name, **(meta or {})}}
        obj = self._writing.create(
            wanted.collection, tree, namespace=wanted.namespace, name=wanted.name, dry=wanted.dry
        )
        return _stored(obj, status=201)

    def _updated(self, wanted: ResourceRequest, before: Stored, tree: Tree) -> Response:
        collection = wanted.collection
        scales = wanted.subresource == "scale"
        if scales:
            tree = subresources.scaled(collection, before, tree)
        obj = self._writing.update(
            collection, before, tree, subresource=wanted.subresource, dry=wanted.dry
        )
        return _shown(subresources.scale_of(collection, obj)) if scales else _stored(obj)

    # Deleting

    def _delete(self, wanted: ResourceRequest) -> Response:
        if wanted.subresource:
            raise method_not_allowed("the server does not allow this method on the resource")
        obj = _existing(wanted)
        options = _delete_options(wanted)
        dry = wanted.dry or "All" in (options.dry_run or ())
        left = self._deleting.delete(wanted.collection, obj, options, dry=dry)
        if left is not None or wanted.collection.kind.plural in _SHOWN_WHEN_GONE:
            return _stored(left or obj)
        details = {"name": obj.name, "kind": wanted.collection.kind.plural, "uid": obj.uid}
        return _shown({**_SUCCESS, "details": details})

    def _delete_all(self, wanted: ResourceRequest) -> Response:
        options = _delete_options(wanted)
        listed = self._reading.listed(wanted)
        for obj in listed.items:
            # Owners may have taken it along.
            current = wanted.collection.get(obj.namespace, obj.name)
            if current is not None:
                self._deleting.delete(wanted.collection, current, options, dry=wanted.dry)
        body = listed.encoded(wanted.collection.kind)
        return Response(status=200, headers=_JSON, body=body)

    def _post_to_pod(self, wanted: ResourceRequest) -> Response:
        tree = parsed(wanted.body, content_type=wanted.content_type)
        if not isinstance(tree, dict):
            raise bad_request(f"pods/{wanted.subresource}: expected an object")
        pod = _existing(wanted)
        if wanted.subresource == "binding":
            now = self.clock.now()
            subresources.bind(self.store, pod, tree, now=now, dry=wanted.dry)
        else:
            self._evictions.evict(pod, tree, dry=wanted.dry)
        return _shown(_SUCCESS, status=201)

    # Kinds that come and go

    def _definition_changed(self, collection: Collection, occurrence: Occurrence) -> None:
        if collection.kind is not DEFINITIONS:
            return
        if occurrence.after is not None:
            self.store.serve(from_definition(occurrence.after.tree))
            return
        kind = from_definition(occurrence.subject.tree)
        orphans = self.store.of_kind(kind.api_version, kind.kind)
        for obj in list(orphans.within()) if orphans is not None else ():
            assert orphans is not None
            self.store.remove(orphans, obj)
        self.store.withdraw(kind)

    def _adopt_restored(self) -> None:
        if self._journal is not None:
            self._journal.restore(self._deleting.adopt)
        budgets = self.store.collections["policy", "v1", "poddisruptionbudgets"]
        for obj in list(budgets.within()):
            self._disruptions.adopt(obj)
        self._expiring.adopt()


def _wants_protobuf(request: HttpRequest) -> bool:
    return any(name.lower() == "accept" and "protobuf" in value for name, value in request.headers)


def refused(refusal: ApiRefusal) -> Response:
    """The answer that says no."""
    headers = dict(_JSON)
    if refusal.retry_after is not None:
        headers["retry-after"] = str(refusal.retry_after)
    return Response(status=refusal.code, headers=headers, body=refusal.body)


def _existing(wanted: ResourceRequest) -> Stored:
    obj = wanted.collection.get(wanted.namespace, wanted.name)
    if obj is None:
        raise not_found(wanted.collection.kind.full_name, wanted.name)
    return obj


def _delete_options(wanted: ResourceRequest) -> DeleteOptions:
    """From the body, or else from the query."""
    if not wanted.body:
        return DeleteOptions(
            grace_period_seconds=wanted.number("gracePeriodSeconds"),
            propagation_policy=wanted.query.get("propagationPolicy"),
        )
    tree = parsed(wanted.body, content_type=wanted.content_type)
    try:
        return msgspec.convert(tree, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions: {error}") from None


def _stored(obj: Stored, *, status: int = 200) -> Response:
    return Response(status=status, headers=_JSON, body=obj.data)


def _shown(tree: Tree, *, status: int = 200) -> Response:
    return Response(status=status, headers=_JSON, body=msgspec.json.encode(tree))


_SUCCESS: Tree = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_SHOWN_WHEN_GONE = frozenset(
    {
        "csidrivers", "csinodes", "persistentvolumeclaims", "persistentvolumes", "pods",
        "resourcequotas", "serviceaccounts", "services", "storageclasses", "volumeattachments",
    }
)  # fmt: skip
"""Kinds of which a deletion answers with the object; typed clients expect no other."""
_HEALTH = ("/healthz", "/livez", "/readyz")
_POSTED = ("binding", "eviction")

_VERBS: dict[tuple[str, bool, bool], Callable[[ApiServer, ResourceRequest], Response]] = {
    ("GET", True, False): ApiServer._get,
    ("GET", False, False): ApiServer._list,
    ("POST", False, False): ApiServer._create,
    ("POST", True, True): ApiServer._post_to_pod,
    ("PUT", True, False): ApiServer._replace,
    ("PATCH", True, False): ApiServer._patch,
    ("DELETE", True, False): ApiServer._delete,
    ("DELETE", False, False): ApiServer._delete_all,
}
"""By method, whether one object is named, and whether the subresource is one that takes posts."""
