"""Groups as NodeGroup objects declare them: for files, dry runs and tests.

Requests change targets in memory and nothing else. Nodes come and go when somebody says so with
`observe`, be it a test, a simulation or the watch of a cluster that other hands scale.
"""

from collections.abc import Iterable, Sequence

import msgspec

from tonnage.errors import ProviderError
from tonnage.groups import node_group_objects
from tonnage.groups.model import Group
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate, NodeGroup
from tonnage.providers import sizes
from tonnage.providers.protocol import GroupOptions, Instance


class DeclarativeProvider:
    """Targets stay within the declared sizes, and never fall below the nodes that stay."""

    def __init__(self, node_groups: Iterable[NodeGroup], nodes: Iterable[Node] = ()) -> None:
        self._declared = tuple(node_groups)
        self._groups: dict[str, Group] = {}
        self._provider_ids: dict[str, str] = {}
        self._leaving: set[str] = set()
        self.observe(nodes)

    def observe(self, nodes: Iterable[Node]) -> None:
        """Take these as the nodes there are now; targets stay what they were."""
        nodes = tuple(nodes)
        self._provider_ids = {node.metadata.name: node.spec.provider_id for node in nodes}
        self._leaving &= self._provider_ids.keys()
        self._groups = {
            group.id: msgspec.structs.replace(
                group, target=self._groups[group.id].target if self._groups else group.target
            )
            for group in node_group_objects.from_objects(self._declared, nodes)
        }

    async def refresh(self) -> None:
        """Nothing to look at: what is declared does not change by itself."""

    async def groups(self) -> Sequence[Group]:
        return list(self._groups.values())

    async def problems(self) -> Sequence[str]:
        """None: what is declared was read by somebody else."""
        return ()

    async def instances(self, group: str) -> Sequence[Instance]:
        known = self._group(group)
        missing = known.target - len(self._staying(known))
        return [
            *(
                Instance(
                    id=self._provider_ids[node] or node,
                    state="deleting" if node in self._leaving else "running",
                    node=node,
                )
                for node in known.nodes
            ),
            *(
                Instance(id=f"{group}-pending-{number}", state="creating")
                for number in range(1, missing + 1)
            ),
        ]

    async def template(self, group: str) -> GroupTemplate | None:
        return self._group(group).provider_template

    async def price(self, group: str) -> float | None:
        return self._group(group).price_per_hour

    async def options(self, group: str) -> GroupOptions:
        self._group(group)
        return GroupOptions()

    async def increase(self, group: str, delta: int) -> None:
        known = self._group(group)
        sizes.check_increase(known, delta)
        self._set_target(known, known.target + delta)

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        known = self._group(group)
        sizes.check_own(known, nodes)
        going = set(nodes) - self._leaving
        sizes.check_deletion(known, going)
        self._leaving |= going
        self._set_target(known, known.target - len(going))

    async def decrease_target(self, group: str, delta: int) -> None:
        known = self._group(group)
        sizes.check_decrease(known, delta, there=len(self._staying(known)))
        self._set_target(known, known.target - delta)

    def _group(self, name: str) -> Group:
        try:
            return self._groups[name]
        except KeyError:
            raise ProviderError(f"there is no group {name}") from None

    def _staying(self, group: Group) -> list[str]:
        return [node for node in group.nodes if node not in self._leaving]

    def _set_target(self, group: Group, target: int) -> None:
        self._groups[group.id] = msgspec.structs.replace(group, target=target)
