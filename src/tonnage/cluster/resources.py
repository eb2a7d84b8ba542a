"""How a kind is addressed on the wire and turned into objects here."""

import copy
from collections.abc import Callable
from functools import lru_cache
from typing import Generic, Protocol, TypeVar, cast
from urllib.parse import quote

import msgspec

from tonnage.cluster.records import ConfigMap, Event
from tonnage.objects import codec, kinds
from tonnage.objects.meta import ObjectMeta


class Named(Protocol):
    """Anything with metadata: every object of the API."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Named)


class Resource(Generic[T]):
    """A kind of object: its names, its paths and its decoder.

    The kinds of `objects` and `records` come from `of`; a provider makes its own for the custom
    kinds it needs.
    """

    def __init__(
        self,
        type_: type[T],
        *,
        group: str,
        version: str,
        plural: str,
        namespaced: bool,
        kind: str = "",
        decode: Callable[[bytes | msgspec.Raw], T] | None = None,
    ) -> None:
        self.type = type_
        self.kind = kind or type_.__name__
        self.group = group
        self.version = version
        self.plural = plural
        self.namespaced = namespaced
        self.decode = decode or _decoder(type_)
        self._root = f"/apis/{group}/{version}" if group else f"/api/{version}"

    def decoded_by(self, decode: Callable[[bytes | msgspec.Raw], T]) -> "Resource[T]":
        """The same kind, read in another way."""
        other = copy.copy(self)
        other.decode = decode
        return other

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`volumeattachments.storage.k8s.io`, as RBAC and kubectl write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Without a namespace, a namespaced kind is addressed in all of them at once."""
        parts = [self._root]
        if self.namespaced and namespace:
            parts += ["namespaces", _quoted(namespace)]
        parts.append(self.plural)
        if name:
            parts.append(_quoted(name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def encode(self, obj: object) -> bytes:
        """An object as the server wants it: with the names of its kind in front."""
        body = msgspec.json.encode(obj)
        head = msgspec.json.encode({"apiVersion": self.api_version, "kind": self.kind})
        return head if body == b"{}" else head[:-1] + b"," + body[1:]


def _decoder(type_: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """Plain decoding; the error says which field of the object is wrong, in words for people."""
    plain = msgspec.json.Decoder(type_)

    def decode(data: bytes | msgspec.Raw) -> T:
        try:
            return plain.decode(data)
        except msgspec.ValidationError as error:
            fault = codec.explained(str(error), msgspec.json.decode(data))
            field = f"{codec.render(fault.path)}: " if fault.path else ""
            message = f"{field}expected {fault.expected}, found {fault.found}"
            raise msgspec.ValidationError(message) from error

    return decode


@lru_cache(maxsize=1 << 14)
def _quoted(name: str) -> str:
    return quote(name, safe="")


def of(kind: type[T] | Resource[T]) -> Resource[T]:
    """The resource of a type; a resource is its own."""
    return kind if isinstance(kind, Resource) else cast(Resource[T], _BY_TYPE[kind])


def _from(row: kinds.Kind) -> Resource[kinds.KubeObject]:
    return Resource(
        row.type,
        kind=row.kind,
        group=row.group,
        version=row.version,
        plural=row.plural,
        namespaced=row.namespaced,
        decode=lambda data: codec.decode(data, row),
    )


_BY_TYPE: dict[type, object] = {
    **{row.type: _from(row) for row in kinds.ALL},
    ConfigMap: Resource(ConfigMap, group="", version="v1", plural="configmaps", namespaced=True),
    Event: Resource(Event, group="", version="v1", plural="events", namespaced=True),
}
