"""How many nodes may go: of a group, and of the cluster's cores and memory."""

from collections.abc import Iterable

from tonnage.groups.model import Group
from tonnage.groups.options import Options
from tonnage.objects.nodes import Node
from tonnage.objects.resources import cores_and_memory
from tonnage.scaledown.codes import KeepCode
from tonnage.scaledown.facts import NodeFacts
from tonnage.scaledown.state import ScaleDownState

_GIB = 1 << 30


class Allowances:
    """Counts removals against every limit; what is taken is gone for the rest of the plan."""

    def __init__(
        self,
        options: Options,
        nodes: Iterable[Node],
        groups: Iterable[Group],
        state: ScaleDownState,
    ) -> None:
        leaving = state.removing
        self._least_cores = options.cores.least
        self._least_memory = options.memory.least * _GIB
        self._cores = self._memory = 0
        for node in nodes if self.bounded else ():
            if node.metadata.name not in leaving:
                cores, memory = cores_and_memory(node)
                self._cores += cores
                self._memory += memory
        self._spare = {
            group.id: group.target
            - group.min_size
            - sum(1 for name in group.nodes if name in leaving)
            for group in groups
        }

    def refusal(self, facts: NodeFacts, *, whole_group: bool = False) -> KeepCode | None:
        """Why the node may not go; `None` if it may.

        A group that goes as a whole has no minimum between.
        """
        assert facts.group is not None
        if not whole_group and self._spare[facts.group.id] <= 0:
            return KeepCode.MIN_SIZE
        if not self.bounded:
            return None
        cores, memory = cores_and_memory(facts.node)
        if self._cores - cores < self._least_cores or self._memory - memory < self._least_memory:
            return KeepCode.MIN_RESOURCES
        return None

    def take(self, facts: NodeFacts) -> None:
        assert facts.group is not None
        self._spare[facts.group.id] -= 1
        cores, memory = cores_and_memory(facts.node)
        self._cores -= cores
        self._memory -= memory

    def give_back(self, facts: NodeFacts) -> None:
        """Undo `take`."""
        assert facts.group is not None
        self._spare[facts.group.id] += 1
        cores, memory = cores_and_memory(facts.node)
        self._cores += cores
        self._memory += memory

    @property
    def bounded(self) -> bool:
        """Whether there is a minimum of cores or memory, so that small nodes go first."""
        return bool(self._least_cores or self._least_memory)
