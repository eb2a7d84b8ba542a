"""Node groups from files, with the nodes the watch shows: for dry runs on a live cluster."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from tonnage.autoscaler.world import ClusterView
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers import kwok_objects
from tonnage.providers.declarations import Declarations, LastGood
from tonnage.providers.declarative import DeclarativeProvider


class DeclaredGroups(DeclarativeProvider):
    """Groups whose members are the nodes of the cluster; requests change targets in memory only.

    With a `label`, a group's nodes are those that carry its name under it, whatever it declares.
    """

    def __init__(
        self,
        source: Callable[[], Awaitable[Declarations]],
        world: ClusterView,
        *,
        label: str = "",
    ) -> None:
        super().__init__(())
        self._source = source
        self._label = label
        self._world = world
        self._good = LastGood()

    async def problems(self) -> Sequence[str]:
        return self._good.problems

    async def refresh(self) -> None:
        self._good.take(await self._source())
        declared = tuple(self._good.groups.values())
        if self._label:
            declared = tuple(kwok_objects.by_label(group, self._label) for group in declared)
        if [one.metadata.name for one in declared] != list(self._groups):
            # Only with the nodes there are does a group without a target know its own.
            self._groups = {}
        self._declared = declared
        self.observe(list(self._world.cache(Node)))


def resized(told: Declarations, sizes: Mapping[str, tuple[int, int]]) -> Declarations:
    """The groups with other bounds for those named, as upstream's `--nodes MIN:MAX:NAME` gives."""
    groups = tuple(
        _bounded(group, *sizes[group.metadata.name]) if group.metadata.name in sizes else group
        for group in told.groups
    )
    known = {group.metadata.name for group in groups} | told.misspelt
    unknown = sorted(set(sizes) - known)
    if unknown and not told.illegible:
        problem = f"--nodes: there is no node group {', '.join(unknown)}"
        told = told._replace(problems=(*told.problems, problem))
    return told._replace(groups=groups)


def _bounded(group: NodeGroup, least: int, most: int) -> NodeGroup:
    spec = msgspec.structs.replace(group.spec, min_size=least, max_size=most)
    return msgspec.structs.replace(group, spec=spec)
