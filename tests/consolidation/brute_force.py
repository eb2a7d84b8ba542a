"""The cheapest cluster of all: every way to place every pod is looked at.

An independent count of what `consolidation` decides on: cpu, slots and zones, prices and moves.
"""

from collections import Counter

from tests.consolidation.clusters import NodeType, RandomCluster, RandomPod

_LITTLE = 1e-9


def cost_of_moves(cluster: RandomCluster) -> dict[str, float]:
    """What it costs that each pod moves, in the money of prices."""
    prices = [kind.price for kind in cluster.type_of.values()]
    per_second = sum(prices) / len(prices) / 3600
    replicas = {
        obj.metadata.key: obj.metadata.controller.kind
        for obj in cluster.objects
        if type(obj).__name__ == "Pod" and obj.metadata.controller is not None
    }
    found = {}
    for pod in cluster.pods:
        seconds = 30 + 30 + 30 * pod.volumes
        # The ReplicaSet wants three; the StatefulSet does not say, and is taken to want one.
        several = 3 if replicas[f"default/{pod.name}"] == "ReplicaSet" else 1
        found[pod.name] = seconds * (1 + 4 / several + pod.weight) * per_second
    return found


def cheaper_than(
    cluster: RandomCluster, cost: float, hours: float, *, free_moves: bool = False
) -> float | None:
    """The least cost of all ways to place the pods, if it is below `cost`."""
    search = _Enumeration(cluster, cost, hours, {} if free_moves else cost_of_moves(cluster))
    search.descend(0, 0.0)
    return search.best if search.best < cost - _LITTLE else None


class _Enumeration:
    def __init__(
        self, cluster: RandomCluster, cost: float, hours: float, moves: dict[str, float]
    ) -> None:
        self._cluster = cluster
        self._hours = hours
        self.best = cost
        self._moves = moves
        self._pods = sorted(cluster.pods, key=lambda pod: (-pod.cpu, -pod.volumes))
        self._bins: list[tuple[str, NodeType]] = list(cluster.type_of.items())
        self._there = len(self._bins)
        self._free = [[kind.cpu, kind.slots] for _, kind in self._bins]
        self._held = [0] * len(self._bins)
        self._size = Counter(kind.group for kind in cluster.type_of.values())

    def descend(self, depth: int, spent: float) -> None:
        if spent >= self.best - _LITTLE:
            return
        if depth == len(self._pods):
            self.best = min(self.best, spent + self._nodes_kept())
            return
        pod = self._pods[depth]
        tried: set[tuple[object, ...]] = set()
        for number, (name, kind) in enumerate(self._bins):
            same = (kind.group, *self._free[number])
            if number >= self._there:
                if same in tried:
                    continue
                tried.add(same)
            if self._fits(pod, number, kind):
                self._put(pod, number, 1)
                self.descend(
                    depth + 1, spent + (0.0 if name == pod.node else self._moves.get(pod.name, 0.0))
                )
                self._put(pod, number, -1)
        for kind in self._cluster.types:
            new = sum(one is kind for _, one in self._bins[self._there :])
            if self._size[kind.group] + new >= kind.most:
                continue
            self._bins.append(("", kind))
            self._free.append([kind.cpu, kind.slots])
            self._held.append(0)
            number = len(self._bins) - 1
            if self._fits(pod, number, kind):
                self._put(pod, number, 1)
                moved = self._moves.get(pod.name, 0.0)
                self.descend(depth + 1, spent + kind.price * self._hours + moved)
                self._put(pod, number, -1)
            for column in (self._bins, self._free, self._held):
                column.pop()

    def _nodes_kept(self) -> float:
        """What the nodes cost that stay: those with pods, and those of the minimum of a group."""
        empty: dict[str, list[float]] = {}
        cost = 0.0
        for number, (_, kind) in enumerate(self._bins[: self._there]):
            if self._held[number]:
                cost += kind.price
            else:
                empty.setdefault(kind.group, []).append(kind.price)
        least = {kind.group: kind.least for kind in self._cluster.types}
        for group, prices in empty.items():
            may_go = max(self._size[group] - least[group], 0)
            cost += sum(prices[may_go:])
        return cost * self._hours

    def _fits(self, pod: RandomPod, number: int, kind: NodeType) -> bool:
        cpu, slots = self._free[number]
        return cpu >= pod.cpu and slots >= pod.volumes and pod.zone in ("", kind.zone)

    def _put(self, pod: RandomPod, number: int, sign: int) -> None:
        self._free[number][0] -= sign * pod.cpu
        self._free[number][1] -= sign * pod.volumes
        self._held[number] += sign
