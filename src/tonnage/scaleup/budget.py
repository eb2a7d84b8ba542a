"""How many more nodes may be bought: of a group, in the cluster, within the totals."""

from collections import Counter
from collections.abc import Iterable

from tonnage.groups.model import Group, Template
from tonnage.groups.options import Options
from tonnage.objects.nodes import Node
from tonnage.objects.resources import cores_and_memory

MAX_SIZE_REACHED = "max node group size reached"
MAX_NODES_REACHED = "max total nodes in cluster reached"
_GIB = 1 << 30
_NO_LIMIT = 1 << 40


class Budget:
    """Counts purchases against every limit; what is taken is gone for the rest of the plan."""

    def __init__(self, options: Options, nodes: Iterable[Node]) -> None:
        self._options = options
        self._bought: dict[str, int] = {}
        self._nodes = 0
        self._cores = 0
        self._memory = 0
        for amounts, count in Counter(map(cores_and_memory, nodes)).items():
            self._add(amounts, count)

    def target(self, group: Group) -> int:
        return group.target + self._bought.get(group.id, 0)

    def group_room(self, group: Group) -> int:
        return max(group.max_size - self.target(group), 0)

    def cluster_room(self, template: Template) -> int:
        """Nodes like the template that the whole cluster may still grow by."""
        rooms = [_NO_LIMIT]
        if self._options.max_nodes_total:
            rooms.append(self._options.max_nodes_total - self._nodes)
        cores, memory = cores_and_memory(template.node)
        if cores:
            rooms.append((self._options.cores.most - self._cores) // cores)
        if memory:
            rooms.append((self._options.memory.most * _GIB - self._memory) // memory)
        return max(min(rooms), 0)

    def left(self) -> tuple[int, int, int]:
        """Nodes, cores and bytes of memory that the whole cluster may still grow by."""
        options = self._options
        nodes = options.max_nodes_total - self._nodes if options.max_nodes_total else _NO_LIMIT
        cores = options.cores.most - self._cores
        memory = options.memory.most * _GIB - self._memory
        return max(nodes, 0), max(cores, 0), max(memory, 0)

    @staticmethod
    def size_of(template: Template) -> tuple[int, int, int]:
        """What one more node takes of what is `left`."""
        return 1, *cores_and_memory(template.node)

    def take(self, group: Group, template: Template, count: int) -> None:
        self._bought[group.id] = self._bought.get(group.id, 0) + count
        self._add(cores_and_memory(template.node), count)

    def why_full(self, group: Group, template: Template) -> str | None:
        """The limit that stops the group from growing, in upstream's words."""
        if self.group_room(group) == 0:
            return MAX_SIZE_REACHED
        if self._options.max_nodes_total and self._nodes >= self._options.max_nodes_total:
            return MAX_NODES_REACHED
        if self.cluster_room(template) == 0:
            cores, _ = cores_and_memory(template.node)
            short = "cpu" if self._cores + cores > self._options.cores.most else "memory"
            return f'exceeded quota: "cluster-wide", resources: {short}'
        return None

    def _add(self, amounts: tuple[int, int], count: int) -> None:
        cores, memory = amounts
        self._nodes += count
        self._cores += cores * count
        self._memory += memory * count
