"""Node groups from files, with the nodes the watch shows: for dry runs on a live cluster."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import msgspec

from tonnage.autoscaler.world import World
from tonnage.errors import InputError
from tonnage.objects.meta import LabelSelector
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers.declarative import DeclarativeProvider


class DeclaredGroups(DeclarativeProvider):
    """Groups whose members are the nodes of the cluster; requests change targets in memory only.

    With a `label`, a group's nodes are those that carry its name under it, whatever it declares.
    """

    def __init__(
        self,
        source: Callable[[], Awaitable[Sequence[NodeGroup]]],
        world: World,
        *,
        label: str = "",
    ) -> None:
        super().__init__(())
        self._source = source
        self._label = label
        self._world = world

    async def refresh(self) -> None:
        declared = tuple(_labelled(one, self._label) for one in await self._source())
        if [one.metadata.name for one in declared] != list(self._groups):
            # Only with the nodes there are does a group without a target know its own.
            self._groups = {}
        self._declared = declared
        self.observe(list(self._world.cache(Node)))


def _labelled(group: NodeGroup, label: str) -> NodeGroup:
    if not label:
        return group
    selector = LabelSelector(match_labels={label: group.metadata.name})
    spec = msgspec.structs.replace(group.spec, nodes=(), node_selector=selector)
    return msgspec.structs.replace(group, spec=spec)


def resized(
    node_groups: Iterable[NodeGroup], sizes: Mapping[str, tuple[int, int]]
) -> list[NodeGroup]:
    """The groups with other bounds for those named, as upstream's `--nodes MIN:MAX:NAME` gives."""
    by_name = {group.metadata.name: group for group in node_groups}
    unknown = sorted(set(sizes) - set(by_name))
    if unknown:
        raise InputError(f"--nodes: there is no node group {', '.join(unknown)}")
    for name, (least, most) in sizes.items():
        spec = msgspec.structs.replace(by_name[name].spec, min_size=least, max_size=most)
        by_name[name] = msgspec.structs.replace(by_name[name], spec=spec)
    return list(by_name.values())
