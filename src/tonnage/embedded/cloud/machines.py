"""The machines of a cloud by group, and what they have cost."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec

from tonnage.providers.protocol import Instance, InstanceError, InstanceState


class CloudMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine from its request on. `due` is when its next step is: started, failed, or gone."""

    name: str
    group: str
    id: str
    asked_at: float
    due: float
    state: InstanceState = "creating"
    fails_with: InstanceError | None = None
    """What will be known when it is due, if it does not come."""
    registers: bool = True
    node: str = ""
    """The Node that it has registered."""
    error: InstanceError | None = None

    @property
    def instance(self) -> Instance:
        return Instance(id=self.id, state=self.state, node=self.node, error=self.error)


class GroupBill(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group's machines so far; without a price they cost nothing."""

    machine_hours: float
    cost: float


class Bill(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What all machines have cost so far, in the unit of the groups' prices."""

    groups: dict[str, GroupBill]

    @property
    def cost(self) -> float:
        return sum(group.cost for group in self.groups.values())


class CloudMachines:
    """Every machine once, in the order of requests; each is paid from request to end.

    One that fails was never there, so it costs nothing.
    """

    def __init__(self, prices: dict[str, float]) -> None:
        self._prices = prices
        self._by_group: dict[str, dict[str, CloudMachine]] = {group: {} for group in prices}
        self._instances: dict[str, dict[str, Instance]] = {group: {} for group in prices}
        self._ended_hours: defaultdict[str, float] = defaultdict(float)
        self._gone: set[tuple[str, str]] = set()
        self.changes: Counter[str] = Counter()
        """Of each group: whoever has seen all of them knows its machines as they are."""

    def put(self, machine: CloudMachine) -> None:
        """A new machine, or a known one as it is now."""
        self._by_group[machine.group][machine.name] = machine
        self._instances[machine.group][machine.name] = machine.instance
        self.changes[machine.group] += 1

    def end(self, machine: CloudMachine, *, now: float) -> None:
        """It is no longer there; its part of the bill stays."""
        del self._by_group[machine.group][machine.name]
        del self._instances[machine.group][machine.name]
        self.changes[machine.group] += 1
        self._gone |= {(machine.group, machine.name), (machine.group, machine.id)}
        if machine.fails_with is None:
            self._ended_hours[machine.group] += (now - machine.asked_at) / 3600

    def of(self, group: str) -> list[CloudMachine]:
        return list(self._by_group[group].values())

    def instances(self, group: str) -> list[Instance]:
        """The same as an autoscaler sees them."""
        return list(self._instances[group].values())

    def get(self, group: str, name: str) -> CloudMachine | None:
        return self._by_group[group].get(name)

    def was_there(self, group: str, name: str) -> bool:
        """Whether a machine that is gone had the name or id."""
        return (group, name) in self._gone

    def target(self, group: str) -> int:
        return sum(machine.state != "deleting" for machine in self._by_group[group].values())

    def __iter__(self) -> Iterator[CloudMachine]:
        for machines in self._by_group.values():
            yield from machines.values()

    def bill(self, now: float) -> Bill:
        groups = {}
        for group, machines in self._by_group.items():
            seconds = sum(
                now - machine.asked_at for machine in machines.values() if not machine.fails_with
            )
            hours = self._ended_hours[group] + seconds / 3600
            groups[group] = GroupBill(machine_hours=hours, cost=hours * self._prices[group])
        return Bill(groups=groups)
