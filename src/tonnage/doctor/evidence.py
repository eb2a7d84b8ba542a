"""All that the checks look at, gathered once so that each of them stays a plain question."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from tonnage.doctor import programs
from tonnage.doctor.programs import RunningProgram
from tonnage.groups.inputs import Inputs
from tonnage.groups.model import Template
from tonnage.groups.options import Options
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Namespace
from tonnage.objects.pods import Pod
from tonnage.objects.storage import CSIDriver
from tonnage.rules import opt_in
from tonnage.rules.features import Features
from tonnage.scaleup import assessment, decision
from tonnage.scaleup.assessment import Assessment
from tonnage.scaleup.plan import Plan
from tonnage.snapshot.snapshot import Snapshot

T = TypeVar("T")

KINDS_BESIDE = frozenset(
    {"Deployment", "ClusterRole", "ClusterRoleBinding", "KubeSchedulerConfiguration"}
)
"""What is looked at beside objects that have to do with scheduling."""

_ROLES = ("ClusterRole", "ClusterRoleBinding")


class Evidence:
    """A cluster at one moment. `beside` are documents of `KINDS_BESIDE`, as they were written."""

    def __init__(
        self,
        objects: Iterable[KubeObject],
        *,
        features: Features,
        now: float,
        beside: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.objects = list(objects)
        self.features = features
        self.now = now
        self.beside = tuple(beside)

    def of(self, kind: type[T]) -> list[T]:
        """The objects of a kind."""
        return [obj for obj in self.objects if isinstance(obj, kind)]

    @property
    def nothing_to_look_at(self) -> bool:
        """Whether there is nothing a check could find fault with: roles exist in every cluster."""
        programs = any(one.get("kind") not in _ROLES for one in self.beside)
        return not programs and all(isinstance(one, Namespace) for one in self.objects)

    def documents(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.beside if one.get("kind") == kind]

    @cached_property
    def programs(self) -> list[RunningProgram]:
        return programs.recognised(programs.decoded(self.beside))

    @cached_property
    def opted_in(self) -> list[CSIDriver]:
        """Drivers that ask for it, by field or annotation, whether or not anybody listens."""
        return [one for one in self.of(CSIDriver) if opt_in.asks(one)]

    @cached_property
    def enforced(self) -> bool:
        """Whether our extender or scheduler is there, which need no gate for the opt-in."""
        return any(program.does in ("scheduler", "extender") for program in self.programs) or any(
            opt_in.enforcing(pod) for pod in self.of(Pod)
        )

    @cached_property
    def inputs(self) -> Inputs:
        """What a scale-up decision would be made from."""
        features = opt_in.settled(self.features, "always" if self.enforced else "auto", seen="")
        return Inputs.of_objects(self.objects, options=Options(), features=features, now=self.now)

    @cached_property
    def assessed(self) -> Assessment:
        return assessment.assess(self.inputs)

    @property
    def templates(self) -> Mapping[str, Template]:
        """The next node of each group."""
        return self.assessed.templates.by_group

    @cached_property
    def group_of(self) -> dict[str, str]:
        """The node group of each node that has one."""
        return {node: group.id for node, group in self.inputs.group_of.items()}

    @cached_property
    def plan(self) -> Plan:
        """What an autoscaler would do for the pods that wait."""
        return decision.decide_on(self.assessed).plan

    @property
    def snapshot(self) -> Snapshot:
        return self.inputs.cluster.snapshot
