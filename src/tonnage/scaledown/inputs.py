"""Everything a scale-down decision is made from: the inputs of every decision, and a few more."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tonnage.groups.cluster_state import ClusterState
from tonnage.groups.inputs import Inputs
from tonnage.groups.model import Group
from tonnage.groups.options import Options
from tonnage.objects.workloads import PodDisruptionBudget
from tonnage.rules.features import Features
from tonnage.scaledown.budgets import Budgets
from tonnage.scaledown.controllers import ControllerIndex, Controllers
from tonnage.scaledown.state import ScaleDownState
from tonnage.scaleup import assessment, decision
from tonnage.scaleup.assessment import Assessment
from tonnage.snapshot.snapshot import Snapshot


class ScaleDownInputs(NamedTuple):
    """What a decision is made from; `assessed` has the cluster, templates and readiness.

    `state` is what the round before remembered. `wanted` are nodes that are to go whatever their
    utilisation and timers, for who asks "what if".
    """

    assessed: Assessment
    controllers: Controllers
    budgets: Budgets
    state: ScaleDownState = ScaleDownState()
    wanted: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        objects: Iterable[object],
        *,
        state: ScaleDownState | None = None,
        ignored_budgets: Iterable[str] = (),
        wanted: Iterable[str] = (),
    ) -> "ScaleDownInputs":
        """The inputs for a cluster of these objects; `ignored_budgets` are as good as not there."""
        known = list(objects)
        budgets = (one for one in known if isinstance(one, PodDisruptionBudget))
        return cls(
            assessed=assessment.assess(_after_scale_up(inputs)),
            controllers=ControllerIndex(known),
            budgets=Budgets(budgets, ignored=ignored_budgets),
            state=state or ScaleDownState(),
            wanted=frozenset(wanted),
        )

    @property
    def inputs(self) -> Inputs:
        return self.assessed.inputs

    @property
    def options(self) -> Options:
        return self.assessed.inputs.options

    def options_of(self, group: Group | None) -> Options:
        """The options as they hold for nodes of the group."""
        if group is None or group.scale_down is None:
            return self.options
        return group.scale_down.over(self.options)

    @property
    def features(self) -> Features:
        """Those a decision goes by."""
        inputs = self.assessed.inputs
        return decision.as_decided(inputs.features, inputs.options)

    @property
    def now(self) -> float:
        return self.assessed.inputs.now

    @property
    def cluster(self) -> ClusterState:
        return self.assessed.inputs.cluster

    @property
    def snapshot(self) -> Snapshot:
        return self.assessed.inputs.cluster.snapshot

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.assessed.inputs.groups

    @property
    def group_of(self) -> Mapping[str, Group]:
        """The group of each node that has one."""
        return self.assessed.inputs.group_of


def _after_scale_up(inputs: Inputs) -> Inputs:
    """Groups with what upstream asks for first in the same loop, for pods that wait."""
    if not inputs.options.as_upstream or not inputs.cluster.snapshot.pending_pods():
        return inputs
    plan = decision.decide(inputs).plan
    asked = {up.group: up.delta for step in plan.steps[:1] for up in step.scale_ups}
    groups = tuple(
        msgspec.structs.replace(group, target=group.target + asked.get(group.id, 0))
        for group in inputs.groups
    )
    return msgspec.structs.replace(inputs, groups=groups)
