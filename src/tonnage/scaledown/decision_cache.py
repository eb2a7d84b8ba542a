"""What one decision leaves for the next: found anew only where something has changed."""

from collections.abc import Mapping, Sequence
from operator import is_

from tonnage.objects.pods import Pod
from tonnage.scaledown.facts import FactCache, NodeFacts
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.portability import PodKinds
from tonnage.scaledown.volume_zones import VolumeZones

_SPARE = 1000
"""Pods that are gone and still known, before all are found anew."""


class DecisionCache:
    """Holds nothing that could not be found again; a decision without it comes to the same."""

    def __init__(self) -> None:
        self._facts = FactCache()
        self._kinds: PodKinds | None = None
        self._kinds_of: list[object] = []
        self._zones: VolumeZones | None = None

    def facts(
        self,
        inputs: ScaleDownInputs,
        promised: Mapping[str, Sequence[Pod]],
        *,
        only: str | None = None,
    ) -> dict[str, NodeFacts]:
        """What is known of all nodes; with `only` of one node anew, of the others as it was."""
        if only is None:
            return self._facts.of(inputs, promised)
        known = self._facts.with_fresh(inputs, only)
        return known if len(known) > 1 else FactCache(only=only).of(inputs, promised)

    def kinds(self, inputs: ScaleDownInputs) -> PodKinds:
        """Kinds of pods, while nodes and drivers are what they were and nobody keeps apart."""
        snapshot = inputs.snapshot
        basis: list[object] = [
            *snapshot.nodes.values(),
            *snapshot.csinodes.values(),
            *snapshot.storage.drivers.values(),
        ]
        same = len(basis) == len(self._kinds_of) and all(map(is_, basis, self._kinds_of))
        told_by_pods = bool(snapshot.problem_pods) or bool(snapshot.anti_terms.terms)
        if (
            self._kinds is None
            or not same
            or told_by_pods
            or self._kinds.size > 2 * len(snapshot.pods) + _SPARE
        ):
            self._kinds = PodKinds(snapshot, inputs.features)
            self._kinds_of = basis
        return self._kinds

    def zones(self, inputs: ScaleDownInputs, *, anew: bool) -> VolumeZones:
        """Where volumes can be used; unless `anew`, as the last decision found it."""
        if self._zones is None or anew:
            self._zones = VolumeZones(inputs)
        return self._zones
