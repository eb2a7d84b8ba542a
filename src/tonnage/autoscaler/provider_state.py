"""The provider's groups and machines, asked once in a loop, every question bounded in time.

And whether to believe it where it has machines and no node is known.
"""

import logging
from collections.abc import Awaitable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from tonnage.autoscaler.world import ClusterView
from tonnage.clock import Clock
from tonnage.errors import ProviderError
from tonnage.groups.group_machines import Failure, GroupMachine
from tonnage.groups.model import Group
from tonnage.groups.scale_down_options import GroupScaleDown
from tonnage.objects import codec, prices, validation
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate
from tonnage.providers.protocol import GroupOptions, Instance, Provider

T = TypeVar("T")

_log = logging.getLogger(__name__)


class ProviderState(NamedTuple):
    """What the provider told. Of a group in `problems` only part is known.

    `unread` should have told of groups and could not be read. `to_mend` is all that is wrong with
    groups and does not pass by itself.
    """

    groups: list[Group]
    machines: Mapping[str, list[GroupMachine]]
    options: Mapping[str, GroupOptions]
    problems: Mapping[str, str]
    unread: tuple[str, ...] = ()
    to_mend: tuple[str, ...] = ()


class ProviderReader:
    """Asks a provider; no answer within the time is a `ProviderError` like any other."""

    def __init__(self, provider: Provider, *, clock: Clock) -> None:
        self.provider = provider
        self._clock = clock
        self._told: dict[str, tuple[list[Instance], list[GroupMachine]]] = {}

    async def within(self, answer: Awaitable[T], *, seconds: float, what: str) -> T:
        try:
            async with self._clock.timeout(seconds):
                return await answer
        except TimeoutError:
            raise ProviderError(f"{what}: no answer within {seconds:g} s") from None

    async def everything(self, *, seconds: float) -> ProviderState:
        """Look at the world outside. What is wrong with one group leaves the others alone."""
        provider = self.provider
        await self.within(provider.refresh(), seconds=seconds, what="refresh")
        found = await self.groups(seconds=seconds)
        unread = tuple(await self.within(provider.problems(), seconds=seconds, what="problems"))
        to_mend = list(unread)
        groups: list[Group] = []
        machines: dict[str, list[GroupMachine]] = {}
        options: dict[str, GroupOptions] = {}
        problems: dict[str, str] = {}
        for group in found:
            try:
                async with self._clock.timeout(seconds):
                    told = await provider.instances(group.id)
                    machines[group.id] = self._machines(group.id, list(told))
                    options[group.id] = await provider.options(group.id)
                    groups.append(_with_own(await self._completed(group), options[group.id]))
            except TimeoutError:
                problems[group.id] = f"group {group.id}: no answer within {seconds:g} s"
            except ProviderError as error:
                problems[group.id] = _named(group, str(error))
                if not error.retryable:
                    to_mend.append(problems[group.id])
            except Exception as error:
                # A mistake in the provider's code, or an answer nobody thought of.
                _log.exception("provider failed", extra={"group": group.id})
                problems[group.id] = _named(group, f"{type(error).__name__}: {error}")
                to_mend.append(problems[group.id])
            if group.id in problems:
                groups.append(group)
            to_mend += groups[-1].problems
        return ProviderState(groups, machines, options, problems, unread, tuple(to_mend))

    async def newest_groups(self, *, seconds: float) -> list[Group]:
        """Sizes of this very moment; without looking again a provider tells what it last saw."""
        await self.within(self.provider.refresh(), seconds=seconds, what="refresh")
        return await self.groups(seconds=seconds)

    async def groups(self, *, seconds: float) -> list[Group]:
        return list(await self.within(self.provider.groups(), seconds=seconds, what="groups"))

    def _machines(self, group: str, told: list[Instance]) -> list[GroupMachine]:
        """The machines of a group; mostly they are those of the last round."""
        before = self._told.get(group)
        if before is None or before[0] != told:
            before = self._told[group] = told, [_machine(one) for one in told]
        return before[1]

    async def _completed(self, group: Group) -> Group:
        template, price = group.provider_template, group.price_per_hour
        problems = group.problems
        if template is None:
            template = await self.provider.template(group.id)
        if price is None:
            price = await self.provider.price(group.id)
        if template is not None:
            _check(template)
        wrong = prices.complaint(price)
        if wrong:
            problems = (*problems, _named(group, f"price per hour: {wrong}"))
        return msgspec.structs.replace(
            group,
            provider_template=template,
            price_per_hour=prices.amount(price),
            problems=problems,
        )


class Loss(NamedTuple):
    """`hold` is why nothing is to be decided, if the loss is not believed."""

    hold: str = ""
    problems: tuple[str, ...] = ()


class LostNodes:
    """That all nodes are lost is believed in the end, unless pods are known to have nodes.

    Without that, a cluster whose first machines come to nothing would never get another.
    """

    def __init__(self, world: ClusterView, *, clock: Clock) -> None:
        self._world = world
        self._clock = clock
        self._since: float | None = None

    def look(self, provided: ProviderState, *, after: float) -> Loss:
        """Believe it `after` so many seconds."""
        known = len(self._world.cache(Node))
        machines = (one for some in provided.machines.values() for one in some)
        running = sum(one.running for one in machines) if not known else 0
        if not running:
            self._since = None
            return Loss()
        if self._since is None:
            self._since = self._clock.monotonic()
        found = f"no node is known, and the provider has {running} machines running"
        seconds = self._clock.monotonic() - self._since
        if seconds < after or self._world.pods_by_node:
            return Loss(hold=found)
        return Loss(problems=(f"{found} for {seconds:.0f} s: they are taken to be lost",))


def _with_own(group: Group, options: GroupOptions) -> Group:
    """The group with what its provider says of how its nodes are given back."""
    told = GroupScaleDown(
        scale_down_utilization_threshold=options.scale_down_utilization_threshold,
        scale_down_gpu_utilization_threshold=options.scale_down_gpu_utilization_threshold,
        scale_down_unneeded_time=options.scale_down_unneeded_time,
        scale_down_unready_time=options.scale_down_unready_time,
        ignore_daemon_sets_utilization=options.ignore_daemonsets_utilization,
    )
    if group.scale_down is not None or told == GroupScaleDown():
        return group
    return msgspec.structs.replace(group, scale_down=told)


def _check(template: GroupTemplate) -> None:
    """Refuse what no node could have; from a file it would not have come this far."""
    for part, obj in (("node", template.node), ("csiNode", template.csi_node)):
        fault = validation.first_fault(obj)
        if fault is not None:
            field = codec.render((part, *fault.path))
            raise ProviderError(
                f"its template: {field}: expected {fault.expected}, found {fault.found}"
            )


def _named(group: Group, problem: str) -> str:
    name = f"group {group.id}: "
    return problem if problem.startswith(name) else name + problem


def _machine(one: Instance) -> GroupMachine:
    failure = None
    if one.error is not None and one.state == "creating":
        failure = Failure(
            error_class=one.error.error_class, code=one.error.code, message=one.error.message
        )
    return GroupMachine(
        id=one.id,
        name=one.node or one.id,
        creating=one.state == "creating" and not one.node,
        running=one.state == "running",
        deleting=one.state == "deleting",
        failure=failure,
    )
