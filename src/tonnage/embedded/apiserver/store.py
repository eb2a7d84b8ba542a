"""Objects by kind, one version counter for all of them, and what happened of late.

An object is kept as its JSON and, while it is of interest, as a tree. Neither is ever changed, so
lists, watchers and pages share them; a change is a new tree that shares what did not change.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from tonnage.embedded.apiserver.kinds import BUILT_IN, ServedKind
from tonnage.embedded.apiserver.refusals import Tree

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

Selects: TypeAlias = Callable[["Stored"], bool]


LARGEST_HISTORY = 32 * 2**20
"""Bytes of JSON of a kind that the changes are of which a watch can go back."""

_TREES = 4096
"""Objects that were changed last and keep their trees, which take ten times the room of JSON."""


class Stored:
    """An object as it was at one version."""

    __slots__ = ("_answer", "_asked", "_tree", "data", "indexed", "name", "namespace", "version")

    def __init__(self, namespace: str, name: str, version: int, tree: Tree, data: bytes) -> None:
        self.namespace = namespace
        self.name = name
        self.version = version
        self.data = data
        self.indexed = ""
        """The value that it is found by, if its kind has an index."""
        self._tree: Tree | None = tree
        self._asked: Selects | None = None
        self._answer = False

    @property
    def tree(self) -> Tree:
        """Not to be changed; made anew from the JSON if it was let go."""
        tree = self._tree
        if tree is None:
            tree = self._tree = msgspec.json.decode(self.data)
        return tree

    def glance(self) -> Tree:
        """The tree for who asks once, such as a list that selects: one made anew is not kept."""
        return self._tree if self._tree is not None else msgspec.json.decode(self.data)

    def let_go(self) -> None:
        self._tree = None

    def is_selected(self, selects: Selects) -> bool:
        """The answer to a question, which those who watch alike ask again and again."""
        if self._asked is not selects:
            self._asked, self._answer = selects, selects(self)
        return self._answer

    @property
    def meta(self) -> Tree:
        found: Tree = self.tree["metadata"]
        return found

    @property
    def uid(self) -> str:
        return str(self.meta["uid"])

    @property
    def key(self) -> str:
        """`namespace/name`, or the name of an object that belongs to no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def deleting(self) -> bool:
        return "deletionTimestamp" in self.meta


class Occurrence:
    """A change of one object."""

    __slots__ = ("_gone", "after", "before", "version")

    def __init__(self, version: int, before: Stored | None, after: Stored | None) -> None:
        self.version = version
        self.before = before
        self.after = after
        self._gone: Stored | None = None

    @property
    def subject(self) -> Stored:
        """The object, as it is or as it last was."""
        found = self.after or self.before
        assert found is not None
        return found

    def type_for(self, selects: Selects | None) -> str:
        """What it is to someone who sees only some objects; empty if nothing."""
        before, after = self.before, self.after
        if selects is not None:
            before = before if before is not None and before.is_selected(selects) else None
            after = after if after is not None and after.is_selected(selects) else None
        if after is not None:
            return ADDED if before is None else MODIFIED
        return DELETED if before is not None else ""

    def object(self, type_: str) -> Stored:
        """What the event shows: of an object that went, how it last was, with the version since."""
        if type_ != DELETED:
            return self.subject
        if self._gone is None:
            assert self.before is not None
            self._gone = stored(self.before.tree, self.version)
        return self._gone


def stored(tree: Tree, version: int) -> Stored:
    """An object with its version in it."""
    meta = tree["metadata"]
    tree = {**tree, "metadata": {**meta, "resourceVersion": str(version)}}
    return Stored(meta.get("namespace", ""), meta["name"], version, tree, msgspec.json.encode(tree))


class Collection:
    """The objects of one kind, their latest changes, and those who watch them."""

    def __init__(self, kind: ServedKind, *, remembered: int, since: int) -> None:
        self.kind = kind
        self.history: deque[Occurrence] = deque()
        self.forgotten = since
        """Nobody can be told what happened up to this version."""
        self.watchers: list[Callable[[Occurrence | None], None]] = []
        """Told of each change, and `None` when the kind is no longer served."""
        self._remembered = remembered
        self._size = 0
        self._buckets: dict[str, dict[str, Stored]] = {}
        self._index: dict[str, dict[tuple[str, str], Stored]] = {}

    def get(self, namespace: str, name: str) -> Stored | None:
        bucket = self._buckets.get(namespace)
        return bucket.get(name) if bucket else None

    def within(self, namespace: str = "") -> Iterator[Stored]:
        """Those of a namespace, or of all, in the order of lists."""
        for each in [namespace] if namespace else sorted(self._buckets):
            bucket = self._buckets.get(each, {})
            for name in sorted(bucket):
                yield bucket[name]

    def indexed(self, value: str, namespace: str = "") -> Iterator[Stored]:
        """Of those of a namespace, or of all, the ones that the index has for a value."""
        found = self._index.get(value, {})
        return (found[key] for key in sorted(found) if not namespace or key[0] == namespace)

    def holds_any(self, namespace: str) -> bool:
        return bool(self._buckets.get(namespace))

    def after(self, version: int) -> Iterable[Occurrence]:
        """What happened since a version that is not forgotten."""
        found = []
        for occurrence in reversed(self.history):
            if occurrence.version <= version:
                break
            found.append(occurrence)
        return reversed(found)

    def keep(self, obj: Stored) -> None:
        bucket = self._buckets.setdefault(obj.namespace, {})
        if self.kind.index:
            self._take_from_index(bucket.get(obj.name))
            obj.indexed = sys.intern(_value(obj.glance(), self.kind.index))
            self._index.setdefault(obj.indexed, {})[obj.namespace, obj.name] = obj
        bucket[obj.name] = obj

    def drop(self, obj: Stored) -> None:
        bucket = self._buckets[obj.namespace]
        if self.kind.index:
            self._take_from_index(bucket[obj.name])
        del bucket[obj.name]
        if not bucket:
            del self._buckets[obj.namespace]

    def _take_from_index(self, obj: Stored | None) -> None:
        if obj is None:
            return
        entries = self._index[obj.indexed]
        del entries[obj.namespace, obj.name]
        if not entries:
            del self._index[obj.indexed]

    def publish(self, occurrence: Occurrence) -> None:
        self.history.append(occurrence)
        self._size += len(occurrence.subject.data)
        while len(self.history) > self._remembered or self._size > LARGEST_HISTORY:
            oldest = self.history.popleft()
            self._size -= len(oldest.subject.data)
            self.forgotten = oldest.version
        for tell in list(self.watchers):
            tell(occurrence)


def _value(tree: Tree, path: str) -> str:
    """A field that is text, or nothing."""
    value: object = tree
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


class ObjectStore:
    """All collections; `observers` learn of every change after those who watch."""

    def __init__(self, *, remembered: int) -> None:
        """`remembered` is how many changes of each kind a watch can go back, if they are short."""
        self.version = 0
        self.collections: dict[tuple[str, str, str], Collection] = {}
        self.observers: list[Callable[[Collection, Occurrence], None]] = []
        self._remembered = remembered
        self._trees: deque[Stored] = deque()
        self._by_kind: dict[tuple[str, str], Collection] = {}
        for kind in BUILT_IN:
            self.serve(kind)

    def serve(self, kind: ServedKind) -> None:
        """Serve a kind from now on, or serve it as it is now described."""
        key = (kind.group, kind.version, kind.plural)
        found = self.collections.get(key)
        if found is not None:
            found.kind = kind
            return
        made = Collection(kind, remembered=self._remembered, since=self.version)
        self.collections[key] = self._by_kind[kind.api_version, kind.kind] = made

    def withdraw(self, kind: ServedKind) -> None:
        collection = self.collections.pop((kind.group, kind.version, kind.plural), None)
        if collection is None:
            return
        del self._by_kind[kind.api_version, kind.kind]
        for tell in list(collection.watchers):
            tell(None)

    def built_in(self, plural: str) -> Collection:
        """A collection of the core group, such as `pods`."""
        return self.collections["", "v1", plural]

    def of_kind(self, api_version: str, kind: str) -> Collection | None:
        return self._by_kind.get((api_version, kind))

    def draft(self, tree: Tree) -> Stored:
        """What `keep` would store, to be looked at before."""
        return stored(tree, self.version + 1)

    def keep(self, collection: Collection, draft: Stored, before: Stored | None) -> Stored:
        """Make the last draft the object's present state."""
        self.version += 1
        assert draft.version == self.version, "something else was stored since the draft"
        collection.keep(draft)
        self._tell(collection, Occurrence(self.version, before, draft))
        self._let_trees_go(draft, before)
        return draft

    def put(self, collection: Collection, tree: Tree, before: Stored | None) -> Stored:
        """Make this the object's present state."""
        return self.keep(collection, self.draft(tree), before)

    def remove(self, collection: Collection, obj: Stored) -> None:
        self.version += 1
        collection.drop(obj)
        self._tell(collection, Occurrence(self.version, obj, None))

    def restore(self, collection: Collection, obj: Stored) -> None:
        """Put back what an earlier run kept; nobody watches yet."""
        self.version = max(self.version, obj.version)
        collection.keep(obj)

    def begin_at(self, version: int) -> None:
        """What happened up to this version is nowhere written any more."""
        self.version = version
        for collection in self.collections.values():
            collection.forgotten = version

    def _let_trees_go(self, changed: Stored, before: Stored | None) -> None:
        """Whatever was last changed may soon be again; of the others the JSON is enough."""
        if before is not None:
            before.let_go()
        self._trees.append(changed)
        if len(self._trees) > _TREES:
            self._trees.popleft().let_go()

    def _tell(self, collection: Collection, occurrence: Occurrence) -> None:
        collection.publish(occurrence)
        for observe in self.observers:
            observe(collection, occurrence)
