"""How objects go: grace, finalizers, owners, namespaces.

A real cluster leaves part of this to controllers that catch up later: the garbage collector and
the namespace controller. Here it happens within the request, so that it is the same in every run.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from tonnage.clock import Clock
from tonnage.embedded.apiserver.refusals import Tree, conflict, forbidden
from tonnage.embedded.apiserver.store import Collection, ObjectStore, Occurrence, Stored
from tonnage.objects.pods import FINISHED
from tonnage.objects.timestamps import rfc3339

FOREGROUND = "foregroundDeletion"
PERMANENT = ("default", "kube-system", "kube-public")
"""Namespaces that may not be deleted."""

_GRACE = 30


class Preconditions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    dry_run: list[str] | None = None


class Deletion:
    """Knows who owns whom; the only one that takes objects out of the store."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._namespaces = store.built_in("namespaces")
        self._places: dict[str, tuple[Collection, str, str]] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        store.observers.append(self._observe)

    @property
    def now(self) -> datetime:
        return self._clock.now()

    def delete(
        self, collection: Collection, obj: Stored, options: DeleteOptions, *, dry: bool = False
    ) -> Stored | None:
        """Delete an object, or begin to; `None` if it is gone, its state if it is going."""
        self._check(collection, obj, options)
        if dry:
            return obj
        if options.propagation_policy == "Orphan":
            for place, dependent in self._dependents_of(obj):
                self._disown(place, dependent, obj.uid)
        grace = _grace(collection, obj, options)
        finalizers = [*(obj.meta.get("finalizers") or ())]
        if options.propagation_policy == "Foreground" and self._dependents.get(obj.uid):
            finalizers = [*finalizers, *({FOREGROUND} - {*finalizers})]
        if collection is self._namespaces:
            return self._delete_namespace(obj)
        if grace == 0 and not finalizers:
            self._store.remove(collection, obj)
            return None
        going = self._marked(collection, obj, grace=grace, finalizers=finalizers)
        if FOREGROUND in finalizers:
            for place, dependent in self._dependents_of(obj):
                self.delete(place, dependent, DeleteOptions(propagation_policy="Foreground"))
            return collection.get(obj.namespace, obj.name)
        return going

    def vanishes(self, collection: Collection, tree: Tree) -> bool:
        """Whether an object that was to be deleted is no longer held by anything."""
        meta = tree["metadata"]
        if "deletionTimestamp" not in meta or meta.get("finalizers"):
            return False
        if collection is self._namespaces:
            return self._is_empty(meta["name"])
        return not meta.get("deletionGracePeriodSeconds")

    def adopt(self, collection: Collection, obj: Stored) -> None:
        """Learn of an object that is there from the beginning."""
        self._index(collection, None, obj)

    def _check(self, collection: Collection, obj: Stored, options: DeleteOptions) -> None:
        what = collection.kind.full_name
        wanted = options.preconditions or Preconditions()
        for field, asked, found in (
            ("UID", wanted.uid, obj.uid),
            ("ResourceVersion", wanted.resource_version, str(obj.version)),
        ):
            if asked and asked != found:
                why = f"Precondition failed: {field} in precondition: {asked}, in object: {found}"
                raise conflict(what, obj.name, why)
        if collection is self._namespaces and obj.name in PERMANENT:
            raise forbidden(what, obj.name, "this namespace may not be deleted")

    def _marked(
        self, collection: Collection, obj: Stored, *, grace: int, finalizers: list[str]
    ) -> Stored:
        meta = obj.meta
        before = meta.get("deletionGracePeriodSeconds")
        if before is not None and grace >= before and finalizers == (meta.get("finalizers") or []):
            return obj
        end = self._clock.now() + timedelta(seconds=grace)
        marked = {
            **meta,
            "deletionTimestamp": rfc3339(end),
            "deletionGracePeriodSeconds": grace,
        }
        if finalizers:
            marked["finalizers"] = finalizers
        if collection.kind.generations and before is None:
            marked["generation"] = meta.get("generation", 0) + 1
        return self._store.put(collection, {**obj.tree, "metadata": marked}, obj)

    # Namespaces

    def _delete_namespace(self, space: Stored) -> Stored | None:
        name = space.name
        if not space.deleting:
            at = rfc3339(self._clock.now())
            tree = {
                **space.tree,
                "metadata": {**space.meta, "deletionTimestamp": at},
                "status": {**space.tree.get("status", {}), "phase": "Terminating"},
            }
            self._store.put(self._namespaces, tree, space)
        for collection in [*self._store.collections.values()]:
            if collection.kind.namespaced:
                for obj in [*collection.within(name)]:
                    # Owners may have taken it along.
                    current = collection.get(name, obj.name)
                    if current is not None:
                        self.delete(collection, current, DeleteOptions())
        self._finish_namespace(name)
        return self._namespaces.get("", name)

    def _finish_namespace(self, name: str) -> None:
        space = self._namespaces.get("", name)
        if space is not None and self.vanishes(self._namespaces, space.tree):
            self._store.remove(self._namespaces, space)

    def _is_empty(self, namespace: str) -> bool:
        return not any(
            collection.holds_any(namespace)
            for collection in self._store.collections.values()
            if collection.kind.namespaced
        )

    # Owners

    def _observe(self, collection: Collection, occurrence: Occurrence) -> None:
        before, after = occurrence.before, occurrence.after
        self._index(collection, before, after)
        if after is None:
            assert before is not None
            self._bereave(before)
            self._release_owners(before)
            if before.namespace:
                self._finish_namespace(before.namespace)
        elif after.meta.get("ownerReferences") and self._is_orphan(after):
            self.delete(collection, after, DeleteOptions())

    def _index(self, collection: Collection, before: Stored | None, after: Stored | None) -> None:
        old = before.meta.get("ownerReferences") if before is not None else None
        new = after.meta.get("ownerReferences") if after is not None else None
        subject = after or before
        assert subject is not None
        if after is None:
            self._places.pop(subject.uid, None)
        elif before is None:
            self._places[subject.uid] = (collection, subject.namespace, subject.name)
        if old is new:
            return
        for owner in old or ():
            self._dependents.get(owner["uid"], {}).pop(subject.uid, None)
        for owner in new or ():
            self._dependents.setdefault(owner["uid"], {})[subject.uid] = None

    def _is_orphan(self, obj: Stored) -> bool:
        """Whether all its owners are known to be gone."""
        if obj.deleting:
            return False
        return not any(
            owner["uid"] in self._places
            or self._store.of_kind(owner["apiVersion"], owner["kind"]) is None
            for owner in obj.meta["ownerReferences"]
        )

    def _dependents_of(self, owner: Stored) -> Iterator[tuple[Collection, Stored]]:
        """Each as it is when it is its turn: dealing with one may have taken others along."""
        for uid in [*self._dependents.get(owner.uid, ())]:
            if uid in self._places:
                collection, namespace, name = self._places[uid]
                dependent = collection.get(namespace, name)
                assert dependent is not None
                yield collection, dependent

    def _bereave(self, owner: Stored) -> None:
        """An owner is gone: its dependents go too, unless others own them as well."""
        for collection, dependent in self._dependents_of(owner):
            owners = dependent.meta["ownerReferences"]
            if any(one["uid"] in self._places for one in owners):
                self._disown(collection, dependent, owner.uid)
            else:
                self.delete(collection, dependent, DeleteOptions())
        self._dependents.pop(owner.uid, None)

    def _disown(self, collection: Collection, dependent: Stored, uid: str) -> None:
        left = [one for one in dependent.meta["ownerReferences"] if one["uid"] != uid]
        meta = {**dependent.meta, "ownerReferences": left}
        if not left:
            del meta["ownerReferences"]
        self._store.put(collection, {**dependent.tree, "metadata": meta}, dependent)

    def _release_owners(self, dependent: Stored) -> None:
        """Owners that were only waiting for this dependent to go."""
        for reference in dependent.meta.get("ownerReferences") or ():
            place = self._places.get(reference["uid"])
            owner = place[0].get(place[1], place[2]) if place is not None else None
            if owner is None or self._dependents.get(owner.uid):
                continue
            finalizers = owner.meta.get("finalizers") or []
            if FOREGROUND not in finalizers:
                continue
            left = [finalizer for finalizer in finalizers if finalizer != FOREGROUND]
            assert place is not None
            tree = {**owner.tree, "metadata": {**owner.meta, "finalizers": left}}
            if self.vanishes(place[0], tree):
                self._store.remove(place[0], owner)
            else:
                self._store.put(place[0], tree, owner)


def _grace(collection: Collection, obj: Stored, options: DeleteOptions) -> int:
    """Only pods are given time, and only those that a kubelet has to end."""
    if collection.kind.full_name != "pods":
        return 0
    spec, status = obj.tree.get("spec", {}), obj.tree.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in FINISHED:
        return 0
    grace = options.grace_period_seconds
    if grace is None:
        grace = obj.meta.get("deletionGracePeriodSeconds")
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", _GRACE)
    return max(int(grace), 0)
