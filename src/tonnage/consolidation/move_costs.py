"""What it costs to move a pod: how long it is away, and how much that weighs, in money."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tonnage.groups.consolidation_options import ConsolidationOptions
from tonnage.objects.pods import Pod
from tonnage.scaledown import drain_rules
from tonnage.scaledown.controllers import Controllers
from tonnage.scaledown.facts import disruption_cost_of

_HOUR = 3600.0


class MoveCost(NamedTuple):
    """`seconds` is how long the pod is away; `weight` how much each of them counts."""

    seconds: float
    weight: float
    money: float


class MoveCosts:
    """Costs of single moves. `price_of_node` is that of the mean node, for an hour."""

    def __init__(
        self,
        options: ConsolidationOptions,
        controllers: Controllers,
        *,
        price_of_node: float,
        observed: Mapping[str, float],
        has_stand_in: Callable[[Pod], bool] = lambda _: False,
    ) -> None:
        self._options = options
        self._has_stand_in = has_stand_in
        self._controllers = controllers
        hourly = options.price_of_pod_hour
        self._per_second = (price_of_node if hourly is None else hourly) / _HOUR
        self._volume_seconds = {**observed, **options.driver_seconds}

    def of(self, pod: Pod, slots: Mapping[str, int]) -> MoveCost:
        """Of a pod whose volumes take so many slots of each driver."""
        options = self._options
        seconds = options.eviction_seconds + options.start_seconds
        for driver, count in slots.items():
            seconds += count * self._volume_seconds.get(driver, options.volume_seconds)
        if any(map(drain_rules.is_local, pod.spec.volumes)):
            seconds += options.local_data_seconds
        weight = self._replica_weight(pod) + disruption_cost_of(pod.metadata.annotations)
        return MoveCost(seconds, weight, seconds * weight * self._per_second)

    def _replica_weight(self, pod: Pod) -> float:
        """The fewer replicas there are, the more each of them is missed, unless a second one is
        started first."""
        if self._has_stand_in(pod):
            return 1.0
        owner = pod.metadata.controller
        if owner is None:
            return self._options.single_replica_weight
        found = self._controllers.find(pod.metadata.namespace, owner)
        if found is None or found.replicas is None:
            return 1.0
        return 1.0 + max(self._options.single_replica_weight - 1.0, 0.0) / max(found.replicas, 1)
