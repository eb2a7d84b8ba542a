"""Node groups that may have no nodes yet: from files, and from a ConfigMap that is watched."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from tonnage.cluster.cache import Cache
from tonnage.cluster.records import ConfigMap
from tonnage.errors import InputError, ProviderError, system_errors
from tonnage.files import load
from tonnage.groups import node_group_objects
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers import kwok_groups
from tonnage.providers.declarations import LastGood
from tonnage.providers.protocol import Provider


class SourceGroups(NamedTuple):
    """Node groups, and what is wrong with some of them: those are told as they were before."""

    groups: Sequence[Group]
    problem: str = ""


GroupSource: TypeAlias = Callable[[], Awaitable[SourceGroups]]


class FileGroups:
    """NodeGroup manifests in files, read again when they change."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = tuple(files)
        self._texts: tuple[bytes, ...] = ()
        self._groups: tuple[NodeGroup, ...] = ()
        self.read()

    def read(self) -> tuple[NodeGroup, ...]:
        texts = tuple(_bytes(name) for name in self._files)
        if texts != self._texts:
            loaded = load(self._files)
            groups = tuple(obj for obj in loaded.objects if isinstance(obj, NodeGroup))
            if not groups:
                raise InputError(f"{', '.join(self._files)}: there is no NodeGroup in it")
            self._texts, self._groups = texts, groups
        return self._groups


def none() -> GroupSource:
    """No node groups: only those groups count that have nodes."""

    async def groups() -> SourceGroups:
        return SourceGroups(())

    return groups


def from_files(files: FileGroups, nodes: Cache[Node]) -> GroupSource:
    async def groups() -> SourceGroups:
        return SourceGroups(node_group_objects.from_objects(files.read(), nodes))

    return groups


def from_config_map(cache: Cache[ConfigMap], name: str, nodes: Cache[Node]) -> GroupSource:
    """Of a ConfigMap in a cache that holds only it. A misspelt group stays what it was.

    If there is none to stay, nobody tells: its objects would be deleted as those of a group that
    is gone.
    """
    good = LastGood()

    async def groups() -> SourceGroups:
        stored = next((one for one in cache if one.metadata.name == name), None)
        if stored is None:
            raise InputError(f"ConfigMap {name}: it is not there, or not readable")
        told = kwok_groups.declared(stored)
        lost = told.misspelt - good.groups.keys() or (told.illegible and not good.groups)
        if lost:
            raise InputError("; ".join(told.problems))
        good.take(told)
        found = node_group_objects.from_objects(good.groups.values(), nodes)
        return SourceGroups(found, "; ".join(good.problems))

    return groups


def from_provider(provider: Provider) -> GroupSource:
    """Of a provider that somebody else refreshes; without a group it has not been yet."""

    async def groups() -> SourceGroups:
        found = []
        told = await provider.groups()
        if not told:
            raise ProviderError("the provider has told of no node groups yet")
        for group in told:
            template = group.provider_template
            if template is None:
                try:
                    template = await provider.template(group.id)
                except ProviderError:
                    # One group that cannot be asked about leaves the others alone.
                    template = None
            found.append(msgspec.structs.replace(group, provider_template=template))
        return SourceGroups(found)

    return groups


def _bytes(name: str) -> bytes:
    with system_errors(name):
        return Path(name).read_bytes()
