"""What is put right before anything is bought: machines that failed, never came, or lack a driver.

No failure here ends the round: it is told and tried again.
"""

from collections.abc import Mapping, Sequence

from tonnage.autoscaler.actuator import EventReason
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.provider_state import ProviderState
from tonnage.errors import ProviderError
from tonnage.groups import daemons
from tonnage.groups.model import Group
from tonnage.groups.readiness import UNREADY, Readiness
from tonnage.groups.registry import TIMEOUT, Observation, Registry
from tonnage.objects.nodes import Node

_CLASSES = {"outOfResources": "OutOfResource", "quota": "OutOfResource", "other": "Other"}
"""Upstream's names for what went wrong."""


class Remediator:
    """Deletes only what the provider itself calls failed or nobody has seen a node of in time."""

    def __init__(self, context: AutoscalingContext, registry: Registry) -> None:
        self._context = context
        self._world = context.world
        self._actuator = context.actuator
        self._metrics = context.metrics
        self._registry = registry
        self._told_unready: dict[str, tuple[str, ...]] = {}
        self._told_problems: set[str] = set()
        self._told_outages: set[str] = set()
        self._leaving: set[str] = set()
        """Nodes we had deleted that are still there, also if their provider has yet to say so."""

    def tell(self, observation: Observation) -> None:
        """Say what did not come."""
        for one in observation.happened:
            self._metrics.failed_scale_up(one.failure.code or one.failure.error_class)
            if one.failure.code == TIMEOUT:
                reason = EventReason.SCALE_UP_TIMED_OUT
                message = (
                    f"Nodes added to group {one.group} failed to register, or to become "
                    f"ready, within {one.seconds:g}s"
                )
            else:
                reason = EventReason.SCALE_UP_FAILED
                code = f"{_CLASSES.get(one.failure.error_class, 'Other')}.{one.failure.code}"
                message = (
                    f"Failed adding {one.nodes} nodes to group {one.group} due to {code}; "
                    f"source errors: {one.failure.message}"
                )
                self._metrics.failed_creations(one.failure.code or "other", one.nodes)
            self._context.tell(reason, message, warning=True)

    def tell_problems(self, provided: ProviderState) -> None:
        """Say what somebody has to mend about groups, each thing once."""
        now = set(provided.to_mend)
        for problem in sorted(now - self._told_problems):
            self._context.tell(EventReason.NODE_GROUP_PROBLEM, problem, warning=True)
        self._told_problems = now

    async def clear(self, observation: Observation, provided: ProviderState) -> bool:
        """Delete machines that failed or never registered; give back what no machine stands for.

        Whether anything was changed: what is known of sizes is then out of date.
        """
        changed = False
        by_id = {group.id: group for group in provided.groups}
        for name, group_health in observation.groups.items():
            group = by_id[name]
            if group_health.failed:
                changed |= await self._delete(
                    group, group_health.failed, provided, reason="its creation failed"
                )
            if group_health.overdue and len(self._world.cache(Node)):
                changed |= await self._delete(
                    group,
                    group_health.overdue,
                    provided,
                    reason="no node has registered for it",
                    still_awaited=True,
                )
            if group_health.give_back:
                changed |= await self._give_back(group, group_health.give_back)
        return changed

    def tell_unready(
        self, readiness: Readiness, provided: ProviderState, config: AutoscalerConfig
    ) -> None:
        """Tell of nodes past their time without drivers, each time others are missing."""
        lacking = self._lacking(readiness, provided)
        self._told_unready = {
            name: told for name, told in self._told_unready.items() if name in lacking
        }
        for name, missing in lacking.items():
            node = self._world.node(name)
            if node is not None and self._told_unready.get(name) != missing:
                self._told_unready[name] = missing
                self._actuator.tell(
                    node,
                    EventReason.CSI_DRIVER_NOT_REGISTERED,
                    f"{', '.join(missing)} not registered within "
                    f"{config.driver_registration_timeout:g}s; the node counts as unready",
                    warning=True,
                )

    def tell_outages(self, readiness: Readiness) -> None:
        """Say that it is the driver where most nodes lack it, and when that is over."""
        outages = {outage.driver: outage for outage in readiness.outages if outage.proven}
        for name in sorted(self._told_outages - outages.keys()):
            message = f"Driver {name} is no longer missing on most nodes"
            self._context.tell(EventReason.CSI_DRIVER_BACK, message)
        for name in sorted(outages.keys() - self._told_outages):
            message = f"{outages[name]}: it is the driver, not the nodes; none is replaced for it"
            self._context.tell(EventReason.CSI_DRIVER_OUTAGE, message, warning=True)
        self._told_outages = set(outages)

    async def replace_unready(
        self,
        readiness: Readiness,
        observation: Observation,
        provided: ProviderState,
        config: AutoscalerConfig,
        *,
        now: float,
    ) -> bool:
        """If so configured, delete empty nodes that have been without their drivers for too long.

        One of a group at a time, with a pause after it, and only for drivers that other nodes have.
        What is needed instead is bought like everything else.
        """
        if not config.replace_unready_drivers:
            return False
        by_id = {group.id: group for group in provided.groups}
        out = {outage.driver for outage in readiness.outages if outage.proven}
        replaced: set[str] = set()
        for name, missing in self._lacking(readiness, provided).items():
            group = by_id.get(readiness.nodes[name].group or "")
            if group is None or group.id in replaced or out.intersection(missing):
                continue
            if self._is_busy(group.id, readiness, observation, config, now):
                continue
            if self._is_empty(name) and await self._replace(group, name):
                self._registry.replaced(group.id, now=now)
                replaced.add(group.id)
        return bool(replaced)

    def _is_busy(
        self,
        group: str,
        readiness: Readiness,
        observation: Observation,
        config: AutoscalerConfig,
        now: float,
    ) -> bool:
        """Whether the last node of the group to be replaced is still there, or its successor new.

        Nodes whose drivers are expected back are not on their way to anything.
        """
        pause = config.replace_unready_drivers_pause
        if not self._registry.may_replace(group, now=now, pause=pause):
            return True
        nodes = readiness.groups[group]
        starting = observation.groups[group].upcoming - nodes.not_awaited
        return starting > 0 or any(readiness.nodes[one].group == group for one in self._leaving)

    def _lacking(self, readiness: Readiness, provided: ProviderState) -> dict[str, tuple[str, ...]]:
        """Nodes past their time with the drivers they lack, but for those on their way out."""
        self._leaving &= readiness.nodes.keys()
        leaving = self._leaving | {
            machine.name
            for machines in provided.machines.values()
            for machine in machines
            if machine.deleting
        }
        return {
            node.node: node.missing_drivers
            for node in readiness.nodes.values()
            if node.state == UNREADY and node.missing_drivers and node.node not in leaving
        }

    def _is_empty(self, node: str) -> bool:
        pods = self._world.pods_by_node.get(node, {}).values()
        return len(daemons.staying(pods)) == len(pods)

    async def _replace(self, group: Group, node: str) -> bool:
        reason = "its drivers are not registered"
        try:
            if group.target <= group.min_size:
                if group.target >= group.max_size:
                    return False
                # Not below the minimum even for a moment: first the new one, then away with it.
                await self._actuator.increase(group.id, 1, reason=reason)
            await self._actuator.delete(group.id, [node], reason=reason)
        except ProviderError as error:
            message = f"Failed to replace node {node}: {error}"
            self._context.tell(EventReason.REPLACE_UNREADY_FAILED, message, warning=True)
            return False
        if not self._actuator.dry_run:
            self._leaving.add(node)
            self._context.tell(
                EventReason.REPLACE_UNREADY,
                f"Removed node {node} without its drivers",
            )
        return not self._actuator.dry_run

    async def _delete(
        self,
        group: Group,
        names: Sequence[str],
        provided: ProviderState,
        *,
        reason: str,
        still_awaited: bool = False,
    ) -> bool:
        """Delete machines; the registry no longer awaits those it knows to have failed."""
        going = _allowed(group, names, provided.machines)
        if not going:
            return False
        try:
            await self._actuator.delete(group.id, going, reason=reason)
        except ProviderError as error:
            for name in going:
                message = f"Failed to remove node {name}: {error}"
                self._context.tell(EventReason.DELETE_UNREGISTERED_FAILED, message, warning=True)
            return False
        if self._actuator.dry_run:
            return False
        if still_awaited:
            self._registry.gave_up(group.id, len(going))
        self._metrics.unregistered_removed(len(going))
        for name in going:
            message = f"Removed unregistered node {name}"
            self._context.tell(EventReason.DELETE_UNREGISTERED, message)
        return True

    async def _give_back(self, group: Group, nodes: int) -> bool:
        try:
            await self._actuator.decrease_target(
                group.id, nodes, reason="they did not register in time"
            )
        except ProviderError as error:
            message = f"Failed to take back {nodes} nodes of group {group.id}: {error}"
            self._context.tell(EventReason.FAILED_TO_REVERT_SCALE_UP, message, warning=True)
            return False
        return not self._actuator.dry_run


def _allowed(
    group: Group, names: Sequence[str], machines: Mapping[str, Sequence[object]]
) -> Sequence[str]:
    """Those that may go: not below the minimum, and all or none where that is the rule."""
    if group.all_or_nothing:
        return names if len(names) == len(machines.get(group.id, ())) else ()
    return names[: max(0, group.target - group.min_size)]
