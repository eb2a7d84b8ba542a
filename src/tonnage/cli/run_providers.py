"""Which provider `tonnage run` was told to use: flags are checked here, before anything is started.

One function per provider; each imports what it needs only when it is the chosen one.
"""

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.autoscaler.world import World
    from tonnage.clock import Clock
    from tonnage.cluster.client import Client
    from tonnage.objects.scenarios import NodeGroup
    from tonnage.providers.protocol import Provider

KWOK = "kwok"
DECLARATIVE = "declarative"


class Wanted(NamedTuple):
    """What the flags say about node groups and who makes them."""

    provider: str
    files: tuple[str, ...] = ()
    config_map: str | None = None
    sizes: dict[str, tuple[int, int]] = {}


class Surroundings(NamedTuple):
    """What a provider lives in."""

    client: "Client"
    world: "World"
    clock: "Clock"
    rng: random.Random
    namespace: str
    dry_run: bool


Maker: TypeAlias = "Callable[[Surroundings], Provider]"
_Source: TypeAlias = "Callable[[], Awaitable[list[NodeGroup]]]"


def chosen(wanted: Wanted, *, dry_run: bool) -> Maker:
    """How to make the provider, once there is a cluster to make it for."""
    return NAMES[wanted.provider](wanted, dry_run)


def _kwok(wanted: Wanted, _: bool) -> Maker:
    groups = _declared(wanted)

    def make(around: Surroundings) -> "Provider":
        from tonnage.autoscaler.declared import DeclaredGroups
        from tonnage.providers.kwok import KwokProvider
        from tonnage.providers.kwok_objects import GROUP_LABEL

        source = groups(around)
        if around.dry_run:
            # Looking is not innocent with kwok: it makes nodes that were asked for and are missing.
            return DeclaredGroups(source, around.world, label=GROUP_LABEL)
        return KwokProvider(
            around.client, around.clock, source, namespace=around.namespace, rng=around.rng
        )

    return make


def _declarative(wanted: Wanted, dry_run: bool) -> Maker:
    if not dry_run:
        raise InputError("--provider declarative makes no nodes: it is for --dry-run")
    groups = _declared(wanted)

    def make(around: Surroundings) -> "Provider":
        from tonnage.autoscaler.declared import DeclaredGroups

        return DeclaredGroups(groups(around), around.world)

    return make


def _declared(wanted: Wanted) -> "Callable[[Surroundings], _Source]":
    """Node groups from files, read now, or from a ConfigMap, read again and again."""
    from tonnage.autoscaler import declared

    if bool(wanted.files) == bool(wanted.config_map):
        raise InputError("expected node groups: either --node-groups or --node-groups-configmap")
    read = _from_files(wanted.files, wanted.sizes) if wanted.files else []

    def source(around: Surroundings) -> _Source:
        async def groups() -> "list[NodeGroup]":
            from tonnage.providers import kwok_groups

            if wanted.config_map is None:
                return read
            found = await kwok_groups.from_config_map(
                around.client, wanted.config_map, namespace=around.namespace
            )
            return declared.resized(found, wanted.sizes)

        return groups

    return source


def _from_files(files: tuple[str, ...], sizes: dict[str, tuple[int, int]]) -> "list[NodeGroup]":
    from tonnage.autoscaler import declared
    from tonnage.cli import reading
    from tonnage.objects.scenarios import NodeGroup

    loaded = reading.read(files, lenient=False)
    groups = [obj for obj in loaded.objects if isinstance(obj, NodeGroup)]
    if not groups:
        raise InputError(f"{', '.join(files)}: there is no NodeGroup in it")
    return declared.resized(groups, sizes)


NAMES: dict[str, Callable[[Wanted, bool], Maker]] = {KWOK: _kwok, DECLARATIVE: _declarative}
