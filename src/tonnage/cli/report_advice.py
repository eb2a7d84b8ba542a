"""Right-sizing for the report of a run: what its last nodes and pods would cost on other types."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tonnage.consolidation.right_size import SizeAdvice
    from tonnage.simulation.ensemble import Ensemble

_SECONDS = 1.0
"""For the best mix; a tenth of it for each type. It is counted in work, not by a clock."""


class ReportAdvice:
    """Takes the clusters that runs end with, if anybody wants to read of it."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self.found: list[tuple[str, SizeAdvice]] = []

    def take(self, ensemble: "Ensemble") -> None:
        """As `ended` of a run. Says nothing where no node is left, or none has a type and a price
        and nothing is stranded."""
        if not self._wanted:
            return
        from tonnage.api import Cluster
        from tonnage.cli import advise

        spec = ensemble.simulation.spec
        cluster = Cluster(
            ensemble.objects,
            kubernetes_version=spec.kubernetes_version,
            feature_gates=spec.feature_gates,
        )
        now = ensemble.clock.now().timestamp()
        prices = advise.group_prices(cluster.inputs(now=now))
        if prices:
            prices = advise.with_list_prices(prices)
        found = cluster.right_size(prices, now=now, seconds=_SECONDS)
        if not found.nodes_now:
            return
        if found.types or any(one.cpu_milli or one.memory for one in found.stranded):
            self.found.append((ensemble.label, found))
