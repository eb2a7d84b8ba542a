"""Claims that no volume is set for, in the terms in which they are alike.

Thousands of pods wait together at times, each with such a claim of its own, and all of them are
looked at again every moment. What a claim says is read when it has changed, not at every look.
"""

from collections.abc import Hashable, Mapping

import msgspec

from tonnage.objects import selectors
from tonnage.objects.storage import (
    SELECTED_NODE_ANNOTATION,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tonnage.objects.volumes import PodVolume
from tonnage.snapshot.interner import Interner

ClaimKey = tuple[str, str]

_ENCODER = msgspec.msgpack.Encoder()


class WaitingClaim(msgspec.Struct, gc=False, eq=False):
    """A claim without a volume. Claims with the same `kind` differ in nothing but their names.

    Who keeps it has to ask whether it still `holds`: not after the claim, or a volume that names
    it, has changed.
    """

    class_name: str
    kind: int
    holds: bool = True


class ClaimsOfPod(msgspec.Struct, gc=False, eq=False):
    """What the claims of a pod come to, if all of them wait. Pods that are alike have the same."""

    kinds: tuple[int, ...]
    classes: frozenset[str]


class WaitingClaims:
    """Knows what it has read of claims until they change.

    `claims` are all there are, `reserved` the volumes that name a claim. As long as `changes` stays
    the same, everything that was read still holds.
    """

    def __init__(
        self,
        claims: Mapping[ClaimKey, PersistentVolumeClaim],
        reserved: Mapping[ClaimKey, tuple[PersistentVolume, ...]],
    ) -> None:
        self._claims = claims
        self._reserved = reserved
        self._known: dict[ClaimKey, WaitingClaim] = {}
        self._kinds: Interner[Hashable] = Interner()
        self._plain: dict[bytes, tuple[str, int]] = {}
        """Class and kind of claims about which nothing but their spec has anything to say."""
        self._alike: dict[tuple[int, ...], ClaimsOfPod] = {}
        self.changes = 0

    def get(self, key: ClaimKey) -> WaitingClaim | None:
        """`None` if there is no such claim, or none that could get a volume, or it has one."""
        known = self._known.get(key)
        if known is None:
            claim = self._claims.get(key)
            if claim is None or not _waits(claim):
                return None
            known = self._known[key] = self._read(claim, self._reserved.get(key, ()))
        return known

    def of_pod(
        self,
        namespace: str,
        volumes: tuple[PodVolume, ...],
        before: tuple[WaitingClaim, ...] | None,
    ) -> tuple[WaitingClaim, ...] | None:
        """The claims of a pod; `None` if some of its volumes are anything else.

        `before` is what was last found for it. To look there is much faster than to look up
        thousands of names, most of which are not in the processor's caches.
        """
        if before is not None:
            for one in before:
                if not one.holds:
                    break
            else:
                return before
        found = []
        for volume in volumes:
            known = None if volume.ephemeral else self.get((namespace, volume.claim))
            if known is None:
                return None
            found.append(known)
        return tuple(found)

    def alike(self, claims: tuple[WaitingClaim, ...]) -> ClaimsOfPod:
        """What these claims of one pod come to."""
        kinds = tuple([one.kind for one in claims])
        found = self._alike.get(kinds)
        if found is None:
            classes = frozenset(one.class_name for one in claims)
            found = self._alike[kinds] = ClaimsOfPod(kinds, classes)
        return found

    def forget(self, key: ClaimKey) -> None:
        """The claim, or a volume that names it, is not what it was."""
        known = self._known.pop(key, None)
        if known is not None:
            known.holds = False
            self.changes += 1

    def forget_all(self) -> None:
        """Read every claim anew when it is next asked for; kinds of claims that are gone go."""
        for known in self._known.values():
            known.holds = False
        self._known.clear()
        self._kinds = Interner()
        self._plain.clear()
        self._alike.clear()
        self.changes += 1

    def _read(
        self, claim: PersistentVolumeClaim, naming: tuple[PersistentVolume, ...]
    ) -> WaitingClaim:
        if naming or claim.metadata.annotations:
            return WaitingClaim(claim.class_name, self._kind_of(claim, naming))
        # Thousands are written alike, and to write one again is faster than to take it apart.
        written = _ENCODER.encode(claim.spec)
        known = self._plain.get(written)
        if known is None:
            known = self._plain[written] = (claim.class_name, self._kind_of(claim, naming))
        return WaitingClaim(*known)

    def _kind_of(self, claim: PersistentVolumeClaim, naming: tuple[PersistentVolume, ...]) -> int:
        spec = claim.spec
        return self._kinds.id_of(
            (
                claim.class_name,
                spec.resources.requests.get("storage"),
                spec.access_modes,
                None if spec.selector is None else selectors.canonical(spec.selector),
                spec.volume_mode,
                spec.volume_attributes_class_name,
                claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION),
                _set_aside(naming),
            )
        )


def _waits(claim: PersistentVolumeClaim) -> bool:
    return (
        not claim.spec.volume_name
        and claim.status.phase != "Lost"
        and claim.metadata.deletion_timestamp is None
    )


def _set_aside(naming: tuple[PersistentVolume, ...]) -> str | None:
    """Of the volumes that name a claim, the one that is not bound to it yet."""
    for volume in reversed(naming):
        if volume.status.phase == "Available":
            return volume.metadata.name
    return None
