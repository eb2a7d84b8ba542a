"""Everything a scale-down decision is made from."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tonnage.filters import opt_in
from tonnage.filters.features import Features
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.model import Group
from tonnage.objects.workloads import PodDisruptionBudget
from tonnage.scaledown.budgets import Budgets
from tonnage.scaledown.controllers import ControllerIndex, Controllers
from tonnage.scaledown.state import ScaleDownState
from tonnage.scaleup import deciding, gathering, looking
from tonnage.scaleup.gathering import Cluster
from tonnage.scaleup.looking import Look
from tonnage.scaleup.options import Options


class Inputs(NamedTuple):
    """What a decision is made from; `look` has the cluster, templates and readiness.

    `state` is what the round before remembered. `wanted` are nodes that are to go whatever their
    utilisation and timers, for who asks "what if".
    """

    look: Look
    controllers: Controllers
    budgets: Budgets
    options: Options
    features: Features
    now: float
    state: ScaleDownState = ScaleDownState()
    wanted: frozenset[str] = frozenset()

    @property
    def group_of(self) -> Mapping[str, Group]:
        """The group of each node that has one."""
        return {name: group for group in self.look.cluster.groups for name in group.nodes}


def of_objects(
    objects: Iterable[object],
    *,
    options: Options,
    features: Features,
    now: float,
    state: ScaleDownState | None = None,
    memory: TemplateMemory | None = None,
    ignored_budgets: Iterable[str] = (),
    wanted: Iterable[str] = (),
) -> Inputs:
    """The inputs that a file's objects come to."""
    known = list(objects)
    features = opt_in.settled(features, options.enforcement, seen=opt_in.seen_in(known))
    features = deciding.as_decided(features, options)
    cluster = gathering.cluster_of(known, options, features)
    if options.as_upstream:
        cluster = _after_scale_up(cluster, known, options=options, features=features, now=now)
    look = looking.look(
        cluster, options=options, now=now, memory=memory or TemplateMemory(), live=False
    )
    return Inputs(
        look=look,
        controllers=ControllerIndex(known),
        budgets=Budgets(
            (one for one in known if isinstance(one, PodDisruptionBudget)), ignored=ignored_budgets
        ),
        options=options,
        features=features,
        now=now,
        state=state or ScaleDownState(),
        wanted=frozenset(wanted),
    )


def _after_scale_up(
    cluster: Cluster,
    objects: list[object],
    *,
    options: Options,
    features: Features,
    now: float,
) -> Cluster:
    """Groups with what upstream asks for first in the same loop, for pods that wait."""
    if not cluster.snapshot.pending_pods():
        return cluster
    plan = deciding.decide(objects, options=options, features=features, now=now)
    asked = {up.group: up.delta for step in plan.steps[:1] for up in step.scale_ups}
    groups = [
        msgspec.structs.replace(group, target=group.target + asked.get(group.id, 0))
        for group in cluster.groups
    ]
    return cluster._replace(groups=groups)
