"""The verbs of the Kubernetes API, typed.

    client = Client(transport, clock=clock, rng=rng)
    pod = await client.get(Pod, "web-1", namespace="default")

A kind is given as its type or, for kinds of others, as a `Resource`. Our types hold only the
fields we read, so `replace` is for kinds that are complete here (Lease, ConfigMap); everything
else is changed with `patch`, which leaves alone what it does not name.
"""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from enum import StrEnum
from typing import Generic, TypeVar
from urllib.parse import quote

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import errors, rawjson, watch_events
from tonnage.cluster.calls import Call, Caller, CallPatience
from tonnage.cluster.records import Scale
from tonnage.cluster.resources import Named, Resource, of
from tonnage.cluster.transport import Pairs, Transport
from tonnage.errors import InputError
from tonnage.objects.codec import UNDECODABLE, collector_paused
from tonnage.objects.pods import Pod

T = TypeVar("T", bound=Named)
S = TypeVar("S")

PAGE = 500
FIELD_MANAGER = "tonnage"


class PatchStyle(StrEnum):
    """How a patch is to be read, by its content type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a kind: of one namespace or all, by labels, by fields."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @property
    def query(self) -> Pairs:
        pairs = (("labelSelector", self.labels), ("fieldSelector", self.fields))
        return tuple(pair for pair in pairs if pair[1])


EVERYTHING = Selection()


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Objects as they were at one version; those that do not decode are told apart.

    `remarks` says what is wrong with items that can be used all the same, by namespace and name.
    """

    items: list[T]
    unreadable: list[watch_events.Unreadable]
    remarks: dict[tuple[str, str], str] = {}
    resource_version: str


class Client:
    """Calls to one API server, each bounded in time and repeated where that is safe."""

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        rng: random.Random,
        patience: CallPatience | None = None,
    ) -> None:
        patience = patience or CallPatience()
        self._caller = Caller(transport, clock=clock, rng=rng, patience=patience)

    def with_patience(self, patience: CallPatience) -> "Client":
        """The same server, asked more or less patiently."""
        caller = self._caller
        return Client(caller.transport, clock=caller.clock, rng=caller.rng, patience=patience)

    async def version(self) -> str:
        """The server's version, such as `v1.37.0`."""
        return (await self._told("/version", _Version)).git_version

    async def group_versions(self, group: str) -> tuple[str, ...]:
        """The versions an API group is served in, preferred first; none if it is not served."""
        try:
            found = await self._told(f"/apis/{quote(group, safe='')}", _Group)
        except errors.NotFound:
            return ()
        served = [one.version for one in (found.preferred_version, *found.versions) if one.version]
        return tuple(dict.fromkeys(served))

    async def get(self, kind: type[T] | Resource[T], name: str, *, namespace: str = "") -> T:
        resource = of(kind)
        call = _call(resource, "get", name=name, namespace=namespace)
        return _object(call, resource, await self._caller.answer(call))

    async def list(
        self,
        kind: type[T] | Resource[T],
        selection: Selection = EVERYTHING,
        *,
        page: int = PAGE,
    ) -> Listing[T]:
        """Everything selected, as of one version, fetched in pages.

        When the server forgets the version before the last page, the list is asked for once more
        in one piece.
        """
        try:
            pages = [each async for each in self.pages(kind, selection, page=page)]
        except errors.Gone:
            pages = [each async for each in self.pages(kind, selection, page=0)]
        return Listing(
            items=[item for each in pages for item in each.items],
            unreadable=[bad for each in pages for bad in each.unreadable],
            remarks={key: text for each in pages for key, text in each.remarks.items()},
            resource_version=pages[-1].resource_version,
        )

    async def pages(
        self,
        kind: type[T] | Resource[T],
        selection: Selection = EVERYTHING,
        *,
        page: int = PAGE,
        resource_version: str = "",
    ) -> AsyncIterator[Listing[T]]:
        """The same page by page. Version `0` allows the server to answer from an old cache."""
        resource = of(kind)
        query = selection.query
        if resource_version:
            query += (("resourceVersion", resource_version),)
            query += (("resourceVersionMatch", "NotOlderThan"),)
        if page:
            query += (("limit", str(page)),)
        token = ""
        while True:
            # The version belongs to the first page; the token carries it on.
            asked = (*selection.query, ("limit", str(page)), ("continue", token))
            call = _call(
                resource, "list", namespace=selection.namespace, query=asked if token else query
            )
            listing, token = _listing(call, resource, await self._caller.answer(call))
            yield listing
            if not token:
                return

    async def versions(
        self, kind: type[T] | Resource[T], selection: Selection = EVERYTHING
    ) -> tuple[dict[tuple[str, str], str], str]:
        """The version of every object selected, by namespace and name, and the one of the list.

        The server is asked for metadata only; one that cannot leave out the rest sends all of it.
        """
        resource = of(kind)
        found: dict[tuple[str, str], str] = {}
        version, token = "", ""
        while True:
            query = (*selection.query, ("limit", str(PAGE)))
            call = _call(
                resource,
                "list",
                namespace=selection.namespace,
                query=(*query, ("continue", token)) if token else query,
                headers=(("Accept", _METADATA_ONLY),),
            )
            page = _page(call, await self._caller.answer(call))
            for raw in page.items or ():
                meta = watch_events.identity(raw)
                found[meta.namespace, meta.name] = meta.resource_version
            version, token = page.metadata.resource_version, page.metadata.continue_
            if not token:
                return found, version

    def watch(
        self,
        kind: type[T] | Resource[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        initial_events: bool = False,
        inactivity: float = 90.0,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[watch_events.WatchEvent[T]]:
        """What happens after a version; with `initial_events`, everything that is there before.

        `opened` is called when the server has agreed, which may be long before it tells anything.
        Ends when the server ends it, after five to ten minutes. Not repeated on failure: whoever
        watches knows from where to go on.
        """
        resource = of(kind)
        seconds = int(self._caller.rng.uniform(300, 600))
        query = (
            *selection.query,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(seconds)),
        )
        if initial_events:
            query += (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
        if resource_version:
            query += (("resourceVersion", resource_version),)
        call = _call(resource, "watch", namespace=selection.namespace, query=query)
        return watch_events.events(
            self._caller, call, resource, inactivity=inactivity, opened=opened
        )

    async def create(self, kind: type[T] | Resource[T], obj: T) -> T:
        """Create an object in the namespace its metadata names."""
        resource = of(kind)
        call = _call(
            resource,
            "create",
            namespace=obj.metadata.namespace,
            body=resource.encode(obj),
            repeatable=False,
        )
        return _object(call, resource, await self._caller.answer(call))

    async def replace(self, kind: type[T] | Resource[T], obj: T, *, subresource: str = "") -> T:
        """Replace the whole object; `Conflict` unless its version is the newest."""
        resource = of(kind)
        call = _call(
            resource,
            "update",
            namespace=obj.metadata.namespace,
            name=obj.metadata.name,
            subresource=subresource,
            body=resource.encode(obj),
        )
        return _object(call, resource, await self._caller.answer(call))

    async def patch(
        self,
        kind: type[T] | Resource[T],
        name: str,
        change: object,
        *,
        style: PatchStyle = PatchStyle.MERGE,
        namespace: str = "",
        subresource: str = "",
        force: bool = False,
    ) -> T:
        """Change part of an object. `force` takes fields over from other managers on apply."""
        resource = of(kind)
        query: Pairs = (("fieldManager", FIELD_MANAGER),)
        if style is PatchStyle.APPLY and force:
            query += (("force", "true"),)
        apply = style is PatchStyle.APPLY
        call = _call(
            resource,
            "patch",
            namespace=namespace,
            name=name,
            subresource=subresource,
            query=query,
            headers=(("Content-Type", style.value),),
            body=resource.encode(change) if apply else msgspec.json.encode(change),
            # A JSON patch may append; the others say how things should be.
            repeatable=style is not PatchStyle.JSON,
        )
        return _object(call, resource, await self._caller.answer(call))

    async def delete(
        self,
        kind: type[T] | Resource[T],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_period: int | None = None,
    ) -> None:
        """Delete an object; with `uid` or a version, only that very one, `Conflict` otherwise."""
        conditions = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid or resource_version:
            options["preconditions"] = {key: value for key, value in conditions.items() if value}
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        call = _call(
            of(kind), "delete", namespace=namespace, name=name, body=msgspec.json.encode(options)
        )
        await self._caller.answer(call)

    async def bind(self, pod: Pod, node: str) -> None:
        """Bind this very pod to a node."""
        meta = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._caller.answer(_posted(pod, "binding", binding))

    async def evict(self, pod: Pod, *, grace_period: int | None = None) -> None:
        """Evict this very pod; `TooManyRequests` when a disruption budget does not allow it."""
        meta = pod.metadata
        options: dict[str, object] = {"preconditions": {"uid": meta.uid}} if meta.uid else {}
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": options,
        }
        await self._caller.answer(_posted(pod, "eviction", eviction))

    async def get_scale(
        self, kind: type[T] | Resource[T], name: str, *, namespace: str = ""
    ) -> Scale:
        call = _call(of(kind), "get", namespace=namespace, name=name, subresource="scale")
        return _decode(call, await self._caller.answer(call), Scale)

    async def scale(
        self, kind: type[T] | Resource[T], name: str, replicas: int, *, namespace: str = ""
    ) -> Scale:
        """Set the wanted number of replicas."""
        call = _call(
            of(kind),
            "patch",
            namespace=namespace,
            name=name,
            subresource="scale",
            headers=(("Content-Type", PatchStyle.MERGE.value),),
            body=msgspec.json.encode({"spec": {"replicas": replicas}}),
        )
        return _decode(call, await self._caller.answer(call), Scale)

    async def _told(self, path: str, type_: type[S]) -> S:
        """What the server tells about itself."""
        call = Call(
            verb="get", kind="", group="", what=path, method="GET", path=path, repeatable=True
        )
        return _decode(call, await self._caller.answer(call), type_)


_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_JSON_BODY: Pairs = (("Content-Type", "application/json"),)

_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}


def _call(
    resource: Resource[T],
    verb: str,
    *,
    namespace: str = "",
    name: str = "",
    subresource: str = "",
    query: Pairs = (),
    headers: Pairs = (),
    body: bytes | None = None,
    repeatable: bool = True,
    deferrable: bool = True,
) -> Call:
    target = "/".join(part for part in (namespace, name) if part)
    slash = f"/{subresource}" if subresource else ""
    return Call(
        verb=verb,
        kind=resource.kind,
        group=resource.group,
        what=f"{resource.full_name}{slash} {target}".rstrip(),
        method=_METHODS[verb],
        path=resource.path(namespace=namespace, name=name, subresource=subresource),
        query=query,
        headers=headers or (_JSON_BODY if body is not None else ()),
        body=body,
        repeatable=repeatable,
        deferrable=deferrable,
    )


def _posted(pod: Pod, subresource: str, body: object) -> Call:
    return _call(
        of(Pod),
        "create",
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        subresource=subresource,
        body=msgspec.json.encode(body),
        repeatable=False,
        deferrable=subresource != "eviction",
    )


def _object(call: Call, resource: Resource[T], body: bytes) -> T:
    try:
        return resource.decode(body)
    except (InputError, *UNDECODABLE) as error:
        match watch_events.second_look(body, resource, error):
            case watch_events.Change() as change:
                return change.object
        if isinstance(error, InputError):
            raise
        raise errors.ServerError(f"{call}: answer not understood: {error}", status=200) from error


def _decode(call: Call, body: bytes, type_: type[S]) -> S:
    try:
        return msgspec.json.decode(body, type=type_)
    except UNDECODABLE as error:
        raise errors.ServerError(f"{call}: answer not understood: {error}", status=200) from error


def _listing(call: Call, resource: Resource[T], body: bytes) -> tuple[Listing[T], str]:
    """A page, and the token of the next one."""
    items: list[T] = []
    unreadable: list[watch_events.Unreadable] = []
    remarks: dict[tuple[str, str], str] = {}
    with collector_paused():
        page = _page(call, body)
        for raw in page.items or ():
            try:
                items.append(resource.decode(raw))
            except Exception as error:
                match watch_events.second_look(raw, resource, error):
                    case watch_events.Change(object=obj, remark=remark):
                        items.append(obj)
                        remarks[obj.metadata.namespace, obj.metadata.name] = remark
                    case watch_events.Unreadable() as bad:
                        unreadable.append(bad)
    listing = Listing(
        items=items,
        unreadable=unreadable,
        remarks=remarks,
        resource_version=page.metadata.resource_version,
    )
    return listing, page.metadata.continue_


def _page(call: Call, body: bytes) -> "_Page":
    """The items of a page, untouched; one that no decoder can follow leaves the others alone."""
    try:
        return _PAGE.decode(body)
    except UNDECODABLE as error:
        try:
            parts = rawjson.members(body)
            items = map(msgspec.Raw, rawjson.elements(parts.get("items", b"[]")))
            return _Page(metadata=_PAGE_META.decode(parts["metadata"]), items=list(items))
        except (ValueError, KeyError, RecursionError):
            raise errors.ServerError(
                f"{call}: answer not understood: {error}", status=200
            ) from error


class _PageMeta(msgspec.Struct, rename="camel", kw_only=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, kw_only=True):
    metadata: _PageMeta
    items: list[msgspec.Raw] | None = None


_PAGE = msgspec.json.Decoder(_Page)
_PAGE_META = msgspec.json.Decoder(_PageMeta)


class _Version(msgspec.Struct, rename="camel", kw_only=True):
    git_version: str = ""


class _Served(msgspec.Struct, kw_only=True):
    version: str = ""


class _Group(msgspec.Struct, rename="camel", kw_only=True):
    versions: list[_Served] = []
    preferred_version: _Served = msgspec.field(default_factory=_Served)
