"""Creating and changing objects: what the server decides itself, and what it holds people to."""

import random
from typing import Any

import msgspec

from tonnage.clock import Clock
from tonnage.embedded.apiserver import defaults, patches, protobuf, validation
from tonnage.embedded.apiserver.deletion import Deletion
from tonnage.embedded.apiserver.kinds import ServedKind
from tonnage.embedded.apiserver.refusals import (
    Tree,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    unsupported_media_type,
)
from tonnage.embedded.apiserver.store import Collection, ObjectStore, Stored, stored
from tonnage.files import yamltext
from tonnage.objects.timestamps import rfc3339

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels, so that no words come of it."""
_ATTEMPTS = 8
_LONGEST_BASE = 58
_YAML = ("application/yaml", patches.APPLY)
_JSON = ("application/json", "")
_STYLES_OF_CUSTOM_KINDS = tuple(one for one in patches.STYLES if one != patches.STRATEGIC)

_SERVERS_OWN = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""Metadata that no client changes."""
_DROPPED = ("managedFields", "selfLink", "resourceVersion")
_BESIDE_SPEC = frozenset({"metadata", "status", "apiVersion", "kind"})


class ObjectWriter:
    """Turns what clients send into what is stored."""

    def __init__(
        self, store: ObjectStore, deleting: Deletion, *, clock: Clock, rng: random.Random
    ) -> None:
        self._store = store
        self._deleting = deleting
        self._clock = clock
        self._rng = rng
        self._namespaces = store.built_in("namespaces")

    def create(
        self, collection: Collection, tree: object, *, namespace: str, name: str = "", dry: bool
    ) -> Stored:
        """Create an object; `name` is the one the path has, if it has one."""
        kind = collection.kind
        new = _identified(kind, validation.check_shape(kind, tree))
        meta = new["metadata"]
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        _check_place(kind, meta, namespace=namespace, name=name)
        for field in (*_SERVERS_OWN, *_DROPPED, "namespace"):
            meta.pop(field, None)
        if kind.namespaced:
            meta["namespace"] = namespace
            self._check_namespace(kind, namespace, meta)
        meta["name"] = self._free_name(collection, namespace, meta)
        meta["uid"] = _uid(self._rng)
        meta["creationTimestamp"] = rfc3339(self._clock.now())
        if kind.generations:
            meta["generation"] = 1
        new = defaults.complete(self._store, kind.plural, new, has_status=kind.has_status)
        draft = self._store.draft(new)
        validation.check_new(kind, new, draft.data)
        if collection.get(namespace, meta["name"]) is not None:
            raise already_exists(kind.full_name, meta["name"])
        if dry:
            return stored(new, 0)
        return self._store.keep(collection, draft, None)

    def update(
        self,
        collection: Collection,
        before: Stored,
        tree: object,
        *,
        subresource: str = "",
        dry: bool,
    ) -> Stored:
        """Replace an object, or the part of it that the subresource is."""
        kind = collection.kind
        new = _identified(kind, validation.check_shape(kind, tree))
        meta = new["metadata"]
        _check_place(kind, meta, namespace=before.namespace, name=before.name)
        _check_version(kind, before, meta)
        old = before.meta
        if subresource == "status" and kind.custom:
            meta = dict(old)
        _take_over(meta, old)
        new["metadata"] = meta
        if subresource == "status":
            new = _with_parts(before.tree, metadata=meta, status=new.get("status"))
        elif kind.has_status:
            new = _with_parts(new, metadata=meta, status=before.tree.get("status"))
        new = defaults.revised(kind.plural, new)
        if kind.generations and _spec_changed(before.tree, new):
            meta["generation"] = old.get("generation", 0) + 1
        if new == before.tree:
            return before
        draft = self._store.draft(new)
        validation.check_changed(kind, before.tree, new, draft.data)
        if dry:
            return stored(new, before.version)
        if self._deleting.vanishes(collection, new):
            self._store.remove(collection, before)
            return draft
        return self._store.keep(collection, draft, before)

    def patched(self, collection: Collection, before: Tree, body: bytes, *, style: str) -> Tree:
        """The object, or its scale, with a patch applied."""
        kind = collection.kind
        accepted = _STYLES_OF_CUSTOM_KINDS if kind.custom else patches.STYLES
        if style not in accepted:
            raise unsupported_media_type(style, accepted)
        patch = parsed(body, content_type=style)
        if style == patches.JSON:
            return patches.json_patched(before, patch)
        if not isinstance(patch, dict):
            raise bad_request("a patch is an object")
        if style == patches.STRATEGIC:
            return patches.strategically_merged(before, patch)
        if style == patches.APPLY and not kind.custom:
            return patches.applied(before, patch)
        merged: Tree = patches.merged(before, patch)
        return merged

    def _check_namespace(self, kind: ServedKind, namespace: str, meta: Tree) -> None:
        space = self._namespaces.get("", namespace)
        if space is None:
            raise not_found("namespaces", namespace)
        if space.deleting:
            raise forbidden(
                kind.full_name,
                meta.get("name", ""),
                f"unable to create new content in namespace {namespace}"
                " because it is being terminated",
            )

    def _free_name(self, collection: Collection, namespace: str, meta: Tree) -> str:
        name, base = meta.get("name", ""), meta.get("generateName", "")
        if name:
            return str(name)
        if not base:
            problem = "Required value: name or generateName is required"
            raise invalid(collection.kind.kind, "", [("metadata.name", problem)])
        for _ in range(_ATTEMPTS):
            suffix = "".join(self._rng.choices(_SUFFIX_LETTERS, k=5))
            name = f"{base[:_LONGEST_BASE]}{suffix}"
            if collection.get(namespace, name) is None:
                break
        return str(name)


def parsed(body: bytes, *, content_type: str) -> Any:
    """The body of a request as plain values."""
    if content_type == protobuf.MEDIA_TYPE:
        return protobuf.decode(body)
    try:
        if content_type in _JSON or content_type in patches.STYLES:
            return msgspec.json.decode(body)
        if content_type not in _YAML:
            raise unsupported_media_type(content_type, (*_JSON[:1], *_YAML[:1]))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        # JSON is YAML too, and nearly always what comes; only what is not JSON is read slowly.
        if content_type not in _YAML:
            raise bad_request(f"the body of the request is not JSON: {error}") from None
    try:
        documents = list(yamltext.read(body))
    except yamltext.YamlError as error:
        raise bad_request(f"the body of the request is not YAML: {error}") from None
    if len(documents) != 1:
        raise bad_request("the body of the request is not one YAML document")
    return documents[0].value


def _identified(kind: ServedKind, tree: Tree) -> Tree:
    """The tree with its kind in front, which may be left out but not be another."""
    given = (tree.pop("apiVersion", "") or kind.api_version, tree.pop("kind", "") or kind.kind)
    if given != (kind.api_version, kind.kind):
        raise bad_request(
            f"the request is about {kind.kind} of {kind.api_version},"
            f" the object in it is {given[1]} of {given[0]}"
        )
    return {"apiVersion": kind.api_version, "kind": kind.kind, **tree}


def _check_place(kind: ServedKind, meta: Tree, *, namespace: str, name: str) -> None:
    if kind.namespaced and meta.get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if name and meta.get("name", name) != name:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )


def _check_version(kind: ServedKind, before: Stored, meta: Tree) -> None:
    version, uid = meta.get("resourceVersion"), meta.get("uid")
    if not version and not kind.unconditional:
        problem = "Invalid value: 0x0: must be specified for an update"
        raise invalid(kind.kind, before.name, [("metadata.resourceVersion", problem)])
    if uid and uid != before.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object: {before.uid}"
        raise conflict(kind.full_name, before.name, why)
    if version and version != str(before.version):
        raise conflict(kind.full_name, before.name)


def _take_over(meta: Tree, old: Tree) -> None:
    """The server's own metadata, whatever the client sent."""
    for field in (*_SERVERS_OWN, "name", "namespace", "resourceVersion"):
        if field in old:
            meta[field] = old[field]
        else:
            meta.pop(field, None)
    meta.pop("managedFields", None)
    meta.pop("selfLink", None)


def _with_parts(tree: Tree, *, metadata: Tree, status: object) -> Tree:
    new = {**tree, "metadata": metadata, "status": status}
    if status is None:
        del new["status"]
    return new


def _spec_changed(before: Tree, after: Tree) -> bool:
    """Whether anything but metadata and status differs."""
    return any(before.get(key) != after.get(key) for key in {*before, *after} - _BESIDE_SPEC)


def _uid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
