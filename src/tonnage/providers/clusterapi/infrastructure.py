"""What the infrastructure says of its machines: `status.capacity` of a group's template.

The kinds are others for every infrastructure provider, so they are not watched: each template is
asked for once, and one that says nothing, yet or at all, again after a while.
"""

import logging
from typing import NamedTuple

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.errors import ClusterError
from tonnage.providers.clusterapi import shapes
from tonnage.providers.clusterapi.shapes import InfrastructureStatus, Scalable

ASK_AGAIN_AFTER = 300.0
"""Seconds until a template that said nothing is asked again."""

NOTHING = InfrastructureStatus()

_log = logging.getLogger(__name__)


class _Place(NamedTuple):
    group: str
    version: str
    kind: str
    namespace: str
    name: str


class Infrastructures:
    """Remembers what templates said; they are not changed, but replaced by others."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[_Place, InfrastructureStatus] = {}
        self._again_at: dict[_Place, float] = {}
        self._versions: dict[str, str] = {}
        self._unread: dict[_Place, str] = {}

    def problem(self, scalable: Scalable) -> str:
        """Why the group's template cannot be read; empty if it can, or is not there."""
        place = _place(scalable)
        if place is None or place not in self._unread:
            return ""
        name = f"{place.kind} {place.namespace}/{place.name}"
        return f"management cluster: {name}: {self._unread[place]}"

    async def status(self, scalable: Scalable) -> InfrastructureStatus:
        """What is known of the group's machines; failing to ask is knowing nothing."""
        place = _place(scalable)
        if place is None:
            return NOTHING
        if place in self._known:
            return self._known[place]
        now = self._clock.monotonic()
        if now < self._again_at.get(place, now):
            return NOTHING
        self._again_at[place] = now + ASK_AGAIN_AFTER
        self._unread.pop(place, None)
        try:
            found = await self._ask(place)
        except ClusterError as error:
            level = logging.INFO if isinstance(error, errors.NotFound) else logging.WARNING
            extra = {"kind": place.kind, "object": place.name, "error": str(error)}
            _log.log(level, "infrastructure template not read", extra=extra)
            if isinstance(error, errors.Forbidden) or _is_answer(error):
                self._unread[place] = str(error)
            return NOTHING
        if found.capacity:
            self._known[place] = found
        return found

    async def _ask(self, place: _Place) -> InfrastructureStatus:
        version = place.version or await self._version(place.group)
        resource = shapes.infrastructure(place.kind, group=place.group, version=version)
        found = await self._client.get(resource, place.name, namespace=place.namespace)
        return found.status

    async def _version(self, group: str) -> str:
        if group not in self._versions:
            versions = await self._client.group_versions(group)
            if not versions:
                raise errors.NotFound(f"there is no API group {group}", kind_missing=True)
            self._versions[group] = versions[0]
        return self._versions[group]


def _is_answer(error: ClusterError) -> bool:
    """Whether the server did answer, and it is the object that is not understood."""
    return isinstance(error, errors.ServerError) and error.status == 200


def _place(scalable: Scalable) -> _Place | None:
    reference = scalable.spec.template.spec.infrastructure_ref
    group, _, version = reference.api_version.rpartition("/")
    if not reference.name or not reference.kind or not (group or reference.api_group):
        return None
    return _Place(
        group=reference.api_group or group,
        version=version,
        kind=reference.kind,
        namespace=reference.namespace or scalable.metadata.namespace,
        name=reference.name,
    )
