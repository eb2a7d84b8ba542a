"""The provider of node groups whose machines are only played.

A machine becomes a Node, without drivers and not Ready, through the API like any other; the world's
kubelets and drivers bring it to life from there.
"""

import asyncio
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.embedded.cloud.behaviour import CapacityShortage, CloudBehaviour, label
from tonnage.embedded.cloud.machines import Bill, CloudMachine, CloudMachines
from tonnage.embedded.world.behaviour import SeededChance
from tonnage.embedded.world.keyed_tasks import KeyedTasks
from tonnage.errors import InputError, ProviderError
from tonnage.groups import node_group_objects
from tonnage.groups.model import Group
from tonnage.objects.labels import ZONE
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate, NodeGroup
from tonnage.providers import kwok_objects, sizes
from tonnage.providers.kwok_objects import GROUP_LABEL
from tonnage.providers.protocol import GroupOptions, Instance, InstanceError

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so that no name is a word."""


class SimulatedCloud:
    """A group's target is its machines that are not being deleted, failed ones included.

    `run` plays until cancelled. Nodes that are there at the start, by a group's `nodes` or
    `nodeSelector`, are machines that run; a `targetSize` above them asks for the rest.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        node_groups: Iterable[NodeGroup],
        behaviour: CloudBehaviour,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._clock = clock
        self._behaviour = behaviour
        self._chance = SeededChance(rng)
        self._declared = {group.metadata.name: kwok_objects.check(group) for group in node_groups}
        self._groups = {
            group.id: group
            for group in node_group_objects.from_objects(self._declared.values(), ())
        }
        prices = {name: group.price_per_hour or 0.0 for name, group in self._groups.items()}
        self.machines = CloudMachines(prices)
        self._seen: dict[str, tuple[int, Group]] = {}
        """Groups with their machines, as of so many changes of these."""
        self._numbers = dict.fromkeys(self._declared, 0)
        self._began = clock.monotonic()
        self._opening = asyncio.Lock()
        self._opened = False
        self._chores: KeyedTasks | None = None

    async def run(self) -> None:
        """Once. Machines that were asked for before come as if it had been running."""
        await self.open()
        chores = KeyedTasks(clock=self._clock, chance=self._chance)
        async with asyncio.TaskGroup() as tasks:
            chores.open(tasks)
            self._chores = chores
            for machine in self.machines:
                self._carry_on(machine)
            # Without machines there is nothing to do yet; the group of tasks has to stay open.
            await asyncio.Event().wait()

    async def open(self) -> None:
        """Take in the nodes that are there already; `run` and `refresh` do, if nobody has."""
        async with self._opening:
            if not self._opened:
                await self._adopt()
                self._opened = True

    def bill(self) -> Bill:
        """What the machines have cost until now."""
        return self.machines.bill(self._clock.monotonic())

    async def lose(self, node: str) -> None:
        """The machine of a node is gone at once, and the node with it; nobody asked for it."""
        for machine in list(self.machines):
            if machine.node == node:
                if self._chores is not None:
                    self._chores.stop(("machine", machine.name))
                self.machines.end(machine, now=self._clock.monotonic())
        with suppress(errors.NotFound):
            await self._client.delete(Node, node)

    # Asked by autoscalers

    async def refresh(self) -> None:
        self._check_answers()
        await self.open()

    async def groups(self) -> Sequence[Group]:
        return [self._group(name) for name in self._groups]

    async def problems(self) -> Sequence[str]:
        return ()

    async def instances(self, group: str) -> Sequence[Instance]:
        self._check_group(group)
        return self.machines.instances(group)

    async def template(self, group: str) -> GroupTemplate | None:
        return self._group(group).provider_template

    async def price(self, group: str) -> float | None:
        return self._group(group).price_per_hour

    async def options(self, group: str) -> GroupOptions:
        self._check_group(group)
        return GroupOptions()

    async def increase(self, group: str, delta: int) -> None:
        self._check_answers()
        sizes.check_increase(self._group(group), delta)
        for _ in range(delta):
            self._ask_for_machine(group)

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        self._check_answers()
        known = self._group(group)
        by_word = {machine.id: machine for machine in self.machines.of(group)}
        by_word |= {machine.name: machine for machine in self.machines.of(group)}
        asked = [name for name in nodes if not self.machines.was_there(group, name)]
        sizes.check_own(known, asked, instances=by_word)
        meant = {by_word[name].name: by_word[name] for name in asked}
        going = [machine for machine in meant.values() if machine.state != "deleting"]
        sizes.check_deletion(known, [machine.name for machine in going])
        for machine in going:
            self._give_up(machine)

    async def decrease_target(self, group: str, delta: int) -> None:
        self._check_answers()
        known, machines = self._group(group), self.machines.of(group)
        missing = [machine for machine in reversed(machines) if machine.state == "creating"]
        there = sum(machine.state == "running" for machine in machines)
        sizes.check_decrease(known, delta, there=there)
        # Those that are known not to come first, then the youngest.
        missing.sort(key=lambda machine: machine.error is None)
        for machine in missing[:delta]:
            self._give_up(machine)

    # What becomes of machines

    def _ask_for_machine(self, group: str) -> None:
        name = self._new_name(group)
        now = self._clock.monotonic()
        error = self._error(group, name)
        delay = self._behaviour.start if error is None else self._behaviour.fails_after
        machine = CloudMachine(
            name=name,
            group=group,
            id=self._provider_id(group, name),
            asked_at=now,
            due=now + self._chance.seconds(delay, "start", name),
            fails_with=error,
            registers=not self._never_registers(group, name),
        )
        self.machines.put(machine)
        self._carry_on(machine)

    def _new_name(self, group: str) -> str:
        """With the number in it, no two names are the same whatever the dice say; and none is that
        of a machine that an earlier cloud has left.
        """
        while True:
            self._numbers[group] += 1
            dice = self._chance.dice("name", group, self._numbers[group])
            name = f"{group}-{self._numbers[group]}{''.join(dice.choices(_SUFFIX, k=4))}"
            if self.machines.get(group, name) is None:
                return name

    def _error(self, group: str, name: str) -> InstanceError | None:
        for shortage in self._behaviour.shortages:
            if self._is_short(shortage, group):
                where = label(self._declared[group], ZONE)
                told = f"no machine to be had for group {group}" + (f" in {where}" if where else "")
                return InstanceError(
                    error_class=shortage.error,
                    code=shortage.error_code,
                    message=shortage.message or told,
                )
        if self._chance.befalls(self._behaviour.failure_chance, "fails", name):
            return InstanceError(code="LaunchFailed", message=f"machine {name} did not start")
        return None

    def _never_registers(self, group: str, name: str) -> bool:
        chance = self._behaviour.never_register_chance
        return self._behaviour.never_registers(group) or self._chance.befalls(
            chance, "never registers", name
        )

    def _is_short(self, shortage: CapacityShortage, group: str) -> bool:
        if not shortage.is_open(self._clock.monotonic() - self._began):
            return False
        if not shortage.is_about(self._declared[group]):
            return False
        there = sum(
            machine.fails_with is None and shortage.is_about(self._declared[machine.group])
            for machine in self.machines
        )
        return there >= shortage.left

    def _give_up(self, machine: CloudMachine) -> None:
        now = self._clock.monotonic()
        if self._chores is not None:
            self._chores.stop(("machine", machine.name))
        if machine.state == "creating":
            self.machines.end(machine, now=now)
            return
        due = now + self._chance.seconds(self._behaviour.stop, "stop", machine.name)
        going = msgspec.structs.replace(machine, state="deleting", due=due)
        self.machines.put(going)
        self._carry_on(going)

    def _carry_on(self, machine: CloudMachine) -> None:
        if self._chores is None:
            return
        key = ("machine", machine.name)
        if machine.state == "deleting":
            self._chores.start(key, partial(self._end, machine))
        elif machine.state == "creating" and machine.error is None:
            self._chores.start(key, partial(self._start, machine))

    async def _start(self, machine: CloudMachine) -> None:
        await self._until(machine.due)
        if machine.fails_with is not None:
            self.machines.put(msgspec.structs.replace(machine, error=machine.fails_with))
            return
        if machine.registers:
            await self._register(machine)
        registered = machine.name if machine.registers else ""
        self.machines.put(msgspec.structs.replace(machine, state="running", node=registered))

    async def _register(self, machine: CloudMachine) -> None:
        group, taints = self._declared[machine.group], self._behaviour.startup_taints
        node = kwok_objects.node(group, machine.name, startup_taints=taints)
        spec = msgspec.structs.replace(node.spec, provider_id=machine.id)
        try:
            await self._client.create(Node, msgspec.structs.replace(node, spec=spec))
        except errors.Conflict as error:
            if not error.already_exists:
                raise

    async def _end(self, machine: CloudMachine) -> None:
        await self._until(machine.due)
        if machine.node:
            with suppress(errors.NotFound):
                await self._client.delete(Node, machine.node)
        self.machines.end(machine, now=self._clock.monotonic())

    async def _until(self, moment: float) -> None:
        left = moment - self._clock.monotonic()
        if left > 0:
            await self._clock.sleep(left)

    # What there is

    async def _adopt(self) -> None:
        listing = await self._client.list(Node)
        now = self._clock.monotonic()
        by_name = {node.metadata.name: node for node in listing.items}
        found = node_group_objects.from_objects(self._declared.values(), listing.items)
        self._groups = {group.id: group for group in found}
        self._seen.clear()
        for group in found:
            for name in group.nodes:
                node = by_name[name]
                if GROUP_LABEL not in node.metadata.labels:
                    patch = {"metadata": {"labels": {GROUP_LABEL: group.id}}}
                    await self._client.patch(Node, name, patch)
                self.machines.put(
                    CloudMachine(
                        name=name,
                        group=group.id,
                        id=node.spec.provider_id or self._provider_id(group.id, name),
                        asked_at=now,
                        due=now,
                        state="running",
                        node=name,
                    )
                )
            if group.target > group.max_size:
                raise InputError(
                    f"NodeGroup {group.id}: spec.targetSize: {group.target}: expected"
                    f" spec.maxSize ({group.max_size}) at most"
                )
            for _ in range(group.target - len(group.nodes)):
                self._ask_for_machine(group.id)

    def _check_answers(self) -> None:
        seconds = self._clock.monotonic() - self._began
        if any(outage.is_open(seconds) for outage in self._behaviour.outages):
            raise ProviderError("the cloud does not answer just now", cause="transient")

    def _check_group(self, name: str) -> None:
        if name not in self._groups:
            raise ProviderError(f"there is no group {name}")

    def _group(self, name: str) -> Group:
        self._check_group(name)
        changes = self.machines.changes[name]
        known = self._seen.get(name)
        if known is None or known[0] != changes:
            group = msgspec.structs.replace(
                self._groups[name],
                target=self.machines.target(name),
                nodes=tuple(machine.node for machine in self.machines.of(name) if machine.node),
            )
            known = self._seen[name] = changes, group
        return known[1]

    def _provider_id(self, group: str, name: str) -> str:
        zone = label(self._declared[group], ZONE)
        return f"simulated://{zone or 'anywhere'}/{group}/{name}"
