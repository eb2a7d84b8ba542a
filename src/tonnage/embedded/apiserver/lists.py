"""Lists, in pages that stay what they were while someone reads them."""

import base64
import binascii
from collections import OrderedDict

import msgspec

from tonnage.clock import Clock
from tonnage.embedded.apiserver.kinds import ServedKind
from tonnage.embedded.apiserver.refusals import bad_request, gone, too_large_version
from tonnage.embedded.apiserver.request_paths import ResourceRequest
from tonnage.embedded.apiserver.request_selectors import indexed_value, selection
from tonnage.embedded.apiserver.store import ObjectStore, Stored

_LISTS_KEPT = 64
_SECONDS_KEPT = 300.0


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list, or all of it."""

    items: list[Stored]
    version: int
    next: str = ""
    remaining: int | None = None

    def encoded(self, kind: ServedKind) -> bytes:
        head = b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[' % (
            kind.kind.encode(),
            kind.api_version.encode(),
            msgspec.json.encode(self.metadata),
        )
        return b"".join((head, b",".join([one.data for one in self.items]), b"]}"))

    @property
    def metadata(self) -> dict[str, object]:
        meta: dict[str, object] = {"resourceVersion": str(self.version)}
        if self.next:
            meta["continue"] = self.next
            if self.remaining is not None:
                meta["remainingItemCount"] = self.remaining
        return meta


class _Kept(msgspec.Struct, frozen=True):
    """The rest of a list that someone may still ask for; a list of references costs little."""

    path: tuple[str, str]
    items: list[Stored]
    version: int
    until: float


class _Token(msgspec.Struct, frozen=True, array_like=True):
    number: int
    start: int


class Lister:
    """Answers lists; remembers those that were asked for in pages, for five minutes."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._made = 0

    def listed(self, asked: ResourceRequest) -> ListPage:
        limit = asked.number("limit") or 0
        token = asked.query.get("continue", "")
        if token:
            return self._continued(asked, token, limit=limit)
        self._check_version(asked)
        collection, fields = asked.collection, asked.query.get("fieldSelector", "")
        selects = selection(
            collection.kind, labels=asked.query.get("labelSelector", ""), fields=fields
        )
        value = indexed_value(collection.kind, fields)
        items = list(
            collection.within(asked.namespace)
            if value is None
            else collection.indexed(value, asked.namespace)
        )
        if selects is not None:
            items = [one for one in items if selects(one)]
        if not limit or limit >= len(items):
            return ListPage(items=items, version=self._store.version)
        self._made += 1
        until = self._clock.monotonic() + _SECONDS_KEPT
        kept = _Kept(_path(asked), items, self._store.version, until)
        self._kept[self._made] = kept
        if len(self._kept) > _LISTS_KEPT:
            self._kept.popitem(last=False)
        return _page(kept, _Token(self._made, 0), limit=limit, counted=selects is None)

    def _continued(self, asked: ResourceRequest, text: str, *, limit: int) -> ListPage:
        try:
            token = msgspec.json.decode(base64.urlsafe_b64decode(text), type=_Token)
        except (binascii.Error, msgspec.DecodeError, ValueError):
            raise bad_request("continue key is not valid") from None
        kept = self._kept.get(token.number)
        if kept is None or kept.until < self._clock.monotonic():
            self._kept.pop(token.number, None)
            raise gone(
                "The provided continue parameter is too old to display a consistent list result."
                " You can start a new list without the continue parameter."
            )
        if kept.path != _path(asked):
            raise bad_request("continue key is not valid: it belongs to another list")
        selected = "labelSelector" in asked.query or "fieldSelector" in asked.query
        return _page(kept, token, limit=limit, counted=not selected)

    def _check_version(self, asked: ResourceRequest) -> None:
        wanted = asked.number("resourceVersion") or 0
        if wanted > self._store.version:
            raise too_large_version(wanted, self._store.version)
        exact = asked.query.get("resourceVersionMatch") == "Exact"
        if exact and wanted != self._store.version:
            raise gone(f"The provided resource version is too old: {wanted}")


def _page(kept: _Kept, token: _Token, *, limit: int, counted: bool) -> ListPage:
    end = token.start + limit if limit else len(kept.items)
    if end >= len(kept.items):
        return ListPage(items=kept.items[token.start :], version=kept.version)
    rest = base64.urlsafe_b64encode(msgspec.json.encode(_Token(token.number, end)))
    return ListPage(
        items=kept.items[token.start : end],
        version=kept.version,
        next=rest.decode(),
        remaining=len(kept.items) - end if counted else None,
    )


def _path(asked: ResourceRequest) -> tuple[str, str]:
    return asked.collection.kind.full_name, asked.namespace
