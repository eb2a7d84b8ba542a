"""The management cluster as we follow it: its objects by watch, with our own writes on top.

A watch is always a little late. What we wrote ourselves is therefore kept until the watch has come
as far, so that nobody decides the same thing twice in between.
"""

import asyncio
import random
from collections.abc import Iterator
from typing import Any, TypeAlias, TypeVar

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.cache import Cache
from tonnage.cluster.client import Client, Selection
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.records import Scale
from tonnage.cluster.resources import Named
from tonnage.errors import ClusterError, ProviderError
from tonnage.providers.clusterapi import shapes
from tonnage.providers.clusterapi.shapes import ApiCluster, ApiMachine, Kinds, Scalable

T = TypeVar("T", bound=Named)

_POLL = 0.05

_Key: TypeAlias = tuple[str, str, str]


class Management:
    """`follow` comes first; after it the objects can be looked through without waiting."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        group: str,
        version: str = "",
        namespace: str = "",
    ) -> None:
        self.client = client
        self._clock = clock
        self._rng = rng
        self._group = group
        self._version = version
        self._selection = Selection(namespace=namespace)
        self._following: asyncio.Task[None] | None = None
        self._own_machines: dict[_Key, ApiMachine] = {}
        self._own_scales: dict[_Key, Scale] = {}
        self.kinds: Kinds

    async def follow(self) -> None:
        """Wait for all objects the first time; afterwards only see whether they can be trusted."""
        if self._following is None:
            await self._start()
        assert self._following is not None
        if self._following.done():
            failure = self._following.exception()
            self._following = None
            raise ProviderError(f"management cluster: no longer followed: {failure}")
        while any(not cache.synced and cache.obstacle is None for cache in self._caches):
            await self._clock.sleep(_POLL)
        self._check()

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            self._following = None

    # Looking.

    @property
    def problems(self) -> list[str]:
        """Objects that cannot be read; one that could be before is still taken as it was then."""
        if self._following is None:
            return []
        return [
            f"management cluster: {cache.resource.kind} {namespace}/{name}: {problem}"
            for cache in self._caches
            for (namespace, name), problem in cache.problems.items()
        ]

    def machines(self) -> Iterator[ApiMachine]:
        for machine in self._machines:
            yield _newest(self._own_machines, _key("", machine), machine) or machine

    def never_read(self, namespace: str) -> list[str]:
        """The names of Machines that are there and could not be read even once."""
        known = self._machines
        return [
            name
            for at, name in known.problems
            if at == namespace and not known.get(name, namespace=at)
        ]

    def machine_sets(self) -> Iterator[Scalable]:
        return self._sized(self._machine_sets)

    def machine_deployments(self) -> Iterator[Scalable]:
        return self._sized(self._machine_deployments)

    def machine_pools(self) -> Iterator[Scalable]:
        return self._sized(self._machine_pools)

    def cluster(self, name: str, *, namespace: str) -> ApiCluster | None:
        return self._clusters.get(name, namespace=namespace)

    # What we know before the watch does.

    def saw(self, machine: ApiMachine) -> None:
        """A machine as an answer to us showed it."""
        self._own_machines[_key("", machine)] = machine

    def saw_scale(self, kind: str, scale: Scale) -> None:
        """The size of an object as an answer to us showed it."""
        self._own_scales[_key(kind, scale)] = scale

    def _sized(self, cache: Cache[Scalable]) -> Iterator[Scalable]:
        for obj in cache:
            own = _newest(self._own_scales, _key(cache.resource.kind, obj), obj)
            if own is None:
                yield obj
            else:
                spec = msgspec.structs.replace(obj.spec, replicas=own.spec.replicas)
                yield msgspec.structs.replace(obj, spec=spec)

    # Following.

    async def _start(self) -> None:
        version = self._version or await self._preferred_version()
        self.kinds = shapes.kinds(self._group, version)
        mirror = Mirror(self.client, clock=self._clock, rng=self._rng)
        self._machines = mirror.add(self.kinds.machines, self._selection)
        self._machine_sets = mirror.add(self.kinds.machine_sets, self._selection)
        self._machine_deployments = mirror.add(self.kinds.machine_deployments, self._selection)
        self._machine_pools = mirror.add(self.kinds.machine_pools, self._selection)
        self._clusters = mirror.add(self.kinds.clusters, self._selection)
        self._following = asyncio.create_task(mirror.run())

    async def _preferred_version(self) -> str:
        try:
            versions = await self.client.group_versions(self._group)
        except ClusterError as error:
            raise ProviderError(f"management cluster: {error}", cause="transient") from error
        if not versions:
            raise ProviderError(
                f"management cluster: it does not serve the API group {self._group}; is Cluster API"
                " installed there, and is CAPI_GROUP right?"
            )
        return versions[0]

    @property
    def _scalable_caches(self) -> tuple[Cache[Scalable], ...]:
        return self._machine_sets, self._machine_deployments, self._machine_pools

    @property
    def _caches(self) -> tuple[Cache[Any], ...]:
        return self._machines, *self._scalable_caches, self._clusters

    def _check(self) -> None:
        """Refuse to go on without the kinds that everything hangs on.

        MachineDeployments and MachinePools need not exist, and Clusters only say what is paused.
        """
        for cache in (self._machines, self._machine_sets, self._machine_deployments):
            obstacle, kind = cache.obstacle, cache.resource.full_name
            if obstacle is None:
                continue
            if obstacle.forbidden:
                raise ProviderError(f"management cluster: missing right: {obstacle.verb} {kind}")
            if cache is not self._machine_deployments:
                raise ProviderError(f"management cluster: it does not serve {kind}")
        for one in self._caches:
            if one.obstacle is None and one.stale:
                kind = one.resource.full_name
                raise ProviderError(
                    f"management cluster: nothing was heard of {kind} for {one.age:.0f} s",
                    cause="transient",
                )


def _key(kind: str, obj: Named) -> _Key:
    return kind, obj.metadata.namespace, obj.metadata.name


def _newest(own: dict[_Key, T], key: _Key, cached: Named) -> T | None:
    """What we know better than the cache; once the cache has come as far, that is forgotten.

    Versions of one kind are numbers that grow. If they are anything else, the cache knows better.
    """
    known = own.get(key)
    if known is None:
        return None
    mine, theirs = known.metadata.resource_version, cached.metadata.resource_version
    if mine.isdigit() and theirs.isdigit() and int(mine) > int(theirs):
        return known
    del own[key]
    return None
