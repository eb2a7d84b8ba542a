"""No group over its maximum or under its minimum, nor asked to be."""

from tonnage.groups.model import Group
from tonnage.report.timeline import Decided
from tonnage.simulation.checks.context import CheckContext

BEYOND = "a group beyond its bounds"
ASKED_BEYOND = "asked beyond a group's bounds"


class BoundsCheck:
    """Looks at every group after every change, from the first time on that it is as it should be:
    at the very beginning the cloud has not asked for its first machines yet."""

    def __init__(self, context: CheckContext) -> None:
        self._cloud = context.cloud
        self._groups = context.groups
        self._findings = context.findings
        self._asked = 0
        self._targets: dict[str, int] = {}

    def check(self) -> None:
        for name, group in self._groups.items():
            target = self._cloud.machines.target(name)
            within = group.min_size <= target <= group.max_size
            if self._targets.get(name) == target or not (within or name in self._targets):
                continue
            self._targets[name] = target
            if not within:
                self._findings.violated(BEYOND, f"{name}: {target}, {_bounds(group)}")
        asked = self._cloud.asked
        for one in asked[self._asked :]:
            self._check_request(one)
        self._asked = len(asked)

    def _check_request(self, one: Decided) -> None:
        """What a provider refused would have been too much all the same."""
        if not one.error or one.deed != "increase":
            return
        group = self._groups[one.group]
        wanted = self._cloud.machines.target(one.group) + one.nodes
        if wanted > group.max_size:
            self._findings.violated(ASKED_BEYOND, f"{group.id}: {wanted}, {_bounds(group)}")


def _bounds(group: Group) -> str:
    return f"{group.min_size} to {group.max_size}"
