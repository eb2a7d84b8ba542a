"""From a plan to requests: checked once more, written down, asked for, and told to users."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tonnage.autoscaler.actuator import EventReason
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.provider_state import ProviderReader, ProviderState
from tonnage.errors import ProviderError
from tonnage.groups.group_machines import Failure
from tonnage.groups.model import Group
from tonnage.groups.registry import Observation, Registry
from tonnage.scaleup.budget import MAX_NODES_REACHED
from tonnage.scaleup.plan import FreedRoomWait, NotHelped, Plan, SetApart, Step

_log = logging.getLogger(__name__)

_SAY_AGAIN = 300.0
"""Seconds after which a pod that is still not helped is told so once more."""


class _Order(NamedTuple):
    """Nodes to ask for of a group, why, and the pods they are for."""

    group: Group
    delta: int
    reason: str
    pods: Sequence[str] = ()


class ScaleUpExecutor:
    """Asks for what a plan says, each group once; stops if the world is no longer the plan's."""

    def __init__(
        self, context: AutoscalingContext, provider_reader: ProviderReader, registry: Registry
    ) -> None:
        self._context = context
        self._world = context.world
        self._actuator = context.actuator
        self._metrics = context.metrics
        self._clock = context.clock
        self._reader = provider_reader
        self._registry = registry
        self._told_apart: set[str] = set()
        self._told_to_wait: dict[str, str] = {}
        self._told: dict[str, tuple[str, float]] = {}
        self._resting: dict[str, float] = {}
        self._full = False
        """Whether it was told that the cluster has all the nodes it may have."""

    def skipped(self, provided: ProviderState, observation: Observation) -> dict[str, str]:
        """Groups that may not be scaled up, and why.

        A provider that refused for a cause that passes is asked again at the next scan.
        """
        now = self._clock.monotonic()
        self._resting = {name: until for name, until in self._resting.items() if now < until}
        return {
            **dict.fromkeys(self._resting, "its provider refused a moment ago"),
            **{
                name: one.skip_reason for name, one in observation.groups.items() if one.skip_reason
            },
            **dict.fromkeys(provided.problems, "its provider did not answer for it"),
        }

    async def carry_out(
        self,
        plan: Plan,
        provided: ProviderState,
        observation: Observation,
        config: AutoscalerConfig,
        *,
        now: float,
    ) -> bool:
        """Buy what the plan says and tell users of the rest. False: decide again at once."""
        for step in plan.steps:
            # The request to the provider is the line of the log; this is for who looks closer.
            _log.debug(
                "decided",
                extra={
                    "chosen": step.chosen,
                    "scale_ups": {one.group: one.delta for one in step.scale_ups},
                    "pods": list(step.pods),
                    "why": step.reason,
                },
            )
        self._tell_set_apart(plan.set_apart)
        settled = await self.buy(plan, provided, config, now=now)
        if settled:
            self._tell_not_helped(plan.not_helped)
            self._tell_waiting(plan.waiting)
        if config.enforce_node_group_min_size and not plan.scale_ups:
            skipped = self.skipped(provided, observation)
            await self._reach_minimum(provided, skipped, config, now=now)
        return settled

    async def buy(
        self, plan: Plan, provided: ProviderState, config: AutoscalerConfig, *, now: float
    ) -> bool:
        """Carry out the plan's steps. False if it was overtaken: then decide again at once."""
        steps = plan.steps[: config.steps_per_loop or None]
        deltas: Counter[str] = Counter()
        for step in steps:
            for one in step.scale_ups:
                deltas[one.group] += one.delta
        reasons = {one.group: step.reason for step in steps for one in step.scale_ups}
        pods = _pods_by_group(plan, steps)
        groups = {group.id: group for group in provided.groups}
        orders = [
            _Order(groups[name], delta, reasons[name], pods.get(name, ()))
            for name, delta in deltas.items()
            if delta > 0
        ]
        bought = await self._ask(orders, steps, provided, config, now)
        if bought is None:
            return False
        for step in steps:
            self._tell_helped(step, bought)
        return True

    async def _reach_minimum(
        self,
        provided: ProviderState,
        skipped: Mapping[str, str],
        config: AutoscalerConfig,
        *,
        now: float,
    ) -> None:
        """Ask for what groups lack to their minimum."""
        orders = [
            _Order(group, group.min_size - group.target, "below its minimum")
            for group in provided.groups
            if group.target < group.min_size and group.id not in skipped
        ]
        await self._ask(orders, (), provided, config, now)

    def _tell_not_helped(self, left_out: Sequence[NotHelped]) -> None:
        """Say why to pods that nothing is bought for: when it changes, and now and then."""
        moment = self._clock.monotonic()
        told = {one.pod: self._told[one.pod] for one in left_out if one.pod in self._told}
        for one in left_out:
            message = f"pod didn't trigger scale-up: {_summary(one)}"
            before, at = told.get(one.pod, ("", 0.0))
            pod = self._world.pod(one.pod)
            if pod is not None and (message != before or moment - at >= _SAY_AGAIN):
                told[one.pod] = (message, moment)
                self._actuator.tell(pod, EventReason.NOT_TRIGGER_SCALE_UP, message)
        self._told = told
        reached = any(
            MAX_NODES_REACHED in group.reasons for one in left_out for group in one.reasons
        )
        if reached and not self._full:
            message = "Max total nodes in cluster reached, pods are left out for it"
            self._context.tell(EventReason.MAX_NODES_TOTAL_REACHED, message, warning=True)
        self._full = reached

    def _tell_set_apart(self, pods: Sequence[SetApart]) -> None:
        """Say to pods with too many rules that they come last: once each, while it is so."""
        for one in pods:
            pod = self._world.pod(one.pod)
            if pod is not None and one.pod not in self._told_apart:
                message = f"pod is decided on last and alone: {one.reason}"
                self._actuator.tell(pod, EventReason.SET_APART, message, warning=True)
        self._told_apart = {one.pod for one in pods}

    def _tell_waiting(self, pods: Sequence[FreedRoomWait]) -> None:
        """Say to pods that room on a node is free sooner than a new one is there: once a node."""
        waits = {one.pod: one.node for one in pods}
        for one in pods:
            pod = self._world.pod(one.pod)
            if pod is not None and self._told_to_wait.get(one.pod) != one.node:
                self._actuator.tell(pod, EventReason.WAITS_FOR_FREED_ROOM, one.reason)
        self._told_to_wait = waits

    async def _ask(
        self,
        orders: Sequence[_Order],
        steps: Sequence[Step],
        provided: ProviderState,
        config: AutoscalerConfig,
        now: float,
    ) -> dict[str, str] | None:
        """Ask for the nodes; gives for each group what it went from and to."""
        if orders and not self._actuator.dry_run:
            for one in orders:
                provision_time = provided.options[one.group.id].max_node_provision_time or 0.0
                self._registry.asked(
                    one.group,
                    one.delta,
                    now=now,
                    patience=config.patience,
                    provision_time=provision_time,
                    pods=one.pods,
                )
            try:
                await self._context.write_down()
                overtaken = await self._overtaken(orders, steps, provided, config)
            except BaseException:
                self._unask(*orders)
                raise
            if overtaken:
                self._unask(*orders)
                _log.info("plan overtaken", extra={"why": overtaken})
                return None
        bought: dict[str, str] = {}
        for one in orders:
            group = one.group
            sizes = f"{group.target}->{group.target + one.delta} (max: {group.max_size})"
            if await self._increase(one, config, now=now):
                bought[group.id] = f"{{{group.id} {sizes}}}"
        return bought

    def _unask(self, *orders: _Order) -> None:
        for one in orders:
            self._registry.gave_up(one.group.id, one.delta, pods=frozenset(one.pods))

    async def _overtaken(
        self,
        orders: Sequence[_Order],
        steps: Sequence[Step],
        provided: ProviderState,
        config: AutoscalerConfig,
    ) -> str:
        """Why the plan no longer holds, or nothing."""
        self._actuator.check("refresh")
        found = await self._reader.newest_groups(seconds=config.provider_timeout)
        newest = {group.id: group for group in found}
        before = {group.id: group.target for group in provided.groups}
        for group in found:
            if group.target > before.get(group.id, group.target):
                # Nodes are on their way that the plan did not count on.
                return f"group {group.id} has a target of {group.target}, not {before[group.id]}"
        for group, delta, *_ in orders:
            now = newest.get(group.id)
            if now is None:
                return f"group {group.id} is gone"
            if now.target != group.target or now.target + delta > now.max_size:
                return f"group {group.id} has a target of {now.target}, not {group.target}"
        for step in steps:
            gone = [pod for pod in step.pods if not self._world.wants_node(pod)]
            if gone:
                return f"{len(gone)} of {len(step.pods)} pods no longer wait, such as {gone[0]}"
        return ""

    async def _increase(self, order: _Order, config: AutoscalerConfig, *, now: float) -> bool:
        group, delta = order.group, order.delta
        size = f"{group.target + delta} instead of {group.target} (max: {group.max_size})"
        if not self._actuator.dry_run:
            message = f"Scale-up: setting group {group.id} size to {size}"
            self._context.tell(EventReason.SCALED_UP_GROUP, message)
        try:
            await self._actuator.increase(group.id, delta, reason=order.reason)
        except ProviderError as error:
            self._unask(order)
            seconds = self._leave_alone(group, error, config, now=now)
            self._context.tell(
                EventReason.FAILED_TO_SCALE_UP_GROUP,
                f"Scale-up failed for group {group.id}: {error}; not tried again for {seconds:g}s",
                warning=True,
            )
            return False
        if not self._actuator.dry_run:
            self._metrics.scaled_up(delta)
            message = f"Scale-up: group {group.id} size set to {size}"
            self._context.tell(EventReason.SCALED_UP_GROUP, message)
        return True

    def _leave_alone(
        self, group: Group, error: ProviderError, config: AutoscalerConfig, *, now: float
    ) -> float:
        """Ask nothing of the group for the seconds given back; how many depends on the cause."""
        if error.retryable:
            self._metrics.failed_scale_up("transientError")
            self._resting[group.id] = self._clock.monotonic() + config.scan_interval
            return config.scan_interval
        self._metrics.failed_scale_up("cloudProviderError")
        failure = Failure(
            error_class=error.cause, code="cloudProviderError", message=str(error)[:500]
        )
        backoff = self._registry.failed(group.id, failure, now=now, patience=config.patience)
        return backoff.duration

    def _tell_helped(self, step: Step, bought: Mapping[str, str]) -> None:
        groups = [bought[one.group] for one in step.scale_ups if one.group in bought]
        if not groups:
            return
        message = f"pod triggered scale-up: [{' '.join(groups)}]"
        for seconds in self._world.decided_on(step.pods):
            self._metrics.decided_after(seconds)
        for key in step.pods:
            pod = self._world.pod(key)
            if pod is not None:
                self._actuator.tell(pod, EventReason.TRIGGERED_SCALE_UP, message)


def _pods_by_group(plan: Plan, steps: Sequence[Step]) -> dict[str, list[str]]:
    """Whom nodes of each group are bought for in these steps."""
    helped = {pod for step in steps for pod in step.pods}
    return {
        up.group: [pod for node in up.nodes for pod in node.pods if pod in helped]
        for up in plan.scale_ups
    }


def _summary(one: NotHelped) -> str:
    """How many groups give which reason, the commonest first."""
    reasons = Counter(text for group in one.reasons for text in group.reasons)
    told = ", ".join(f"{count} {text}" for text, count in reasons.most_common())
    nearest = one.nearest
    if nearest is not None:
        told += (
            f"; nearest is group {nearest.group}, which has {nearest.available} of the "
            f"{nearest.wanted} {nearest.resource} wanted"
        )
    return told or "there is no node group"
