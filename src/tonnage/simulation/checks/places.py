"""Who waits for a place, and where there is one: plain counting, apart from the code that decides.

For clusters in which slots, local disks, zones of volumes and taints are all that keeps a pod off
a node, as `random_scenarios` makes them. Everything is read from the API and the cloud; nothing
here asks a snapshot or a filter.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from tonnage.embedded.apiserver.store import Stored
from tonnage.embedded.cloud import CloudMachine
from tonnage.objects.provisioning_requests import CONSUME_ANNOTATION
from tonnage.simulation.checks import disks
from tonnage.simulation.checks.context import CheckContext
from tonnage.simulation.checks.disks import SELECTED, DiskCheck
from tonnage.simulation.random_gangs import LABEL

Labels: TypeAlias = Mapping[str, str]
Terms: TypeAlias = list[dict[str, Any]]
Slots: TypeAlias = dict[str, float]
"""Free slots by driver; a driver that is not in it has none."""
View: TypeAlias = Literal["modest", "template", "generous"]
"""What a new node is taken to have: what its template says, or, if that is less or more, what the
live node of its group with the fewest or the most slots reports."""


_MARGIN = 60.0
"""Seconds after those for which a machine is surely waited for in which it may be."""


class PodDemand(NamedTuple):
    """A pod that waits: its volumes by driver, where they can be reached from, what it was told.

    `promised` is the node that its claims name already: no other will do.
    """

    key: str
    needs: Counter[str]
    stored: Counter[str]
    """Bytes by driver, of volumes on disks that are to be made and have no place yet."""
    claims: tuple[str, ...] = ()
    reachable: tuple[Terms, ...] = ()
    promised: str = ""
    refused: bool = False
    """The scheduler says that it found no node."""
    gang: str = ""
    """The PodGroup of coscheduling that it is of."""
    request: str = ""
    """The ProvisioningRequest whose room it takes: nothing is bought for it."""

    def reaches(self, labels: Labels) -> bool:
        return all(any(_matches(term, labels) for term in terms) for terms in self.reachable)


class NodeRoom(NamedTuple):
    """A node that is there, or will be, with its free slots and space."""

    name: str
    labels: Labels
    free: Slots
    space: Mapping[str, float]
    """Bytes by driver."""

    def times(self, wish: PodDemand) -> float:
        """How often the pod would fit."""
        if not wish.reaches(self.labels):
            return 0
        wanted = [(self.free.get(driver, 0), count) for driver, count in wish.needs.items()]
        wanted += [(max(self.space.get(name, 0), 0), size) for name, size in wish.stored.items()]
        return min((has // each for has, each in wanted if has < math.inf), default=math.inf)


class Expected(NamedTuple):
    """Slots that a machine has or will have: at least, at most, and those that its drivers tell."""

    fewest: Slots
    most: Slots
    told: Slots

    def short(self, now: "Expected") -> Slots:
        """What it has fewer of now than was expected; a missing driver without limit is one short.

        Until a driver tells of its slots, it is only others of the group that can disappoint.
        """
        found: Slots = {}
        for driver in self.most:
            hoped = (self.most if driver in now.told else self.fewest)[driver]
            has = now.fewest.get(driver, 0)
            if hoped > has:
                found[driver] = hoped - has if hoped < math.inf else 1
        return found


def are_sure(
    wishes: Iterable[PodDemand], everybody: Iterable[PodDemand], rooms: Iterable[NodeRoom]
) -> bool:
    """Whether each of the pods finds a place in the rooms, in whatever order they are filled.

    Another pod goes to one node, and takes there as many places of a pod at most as it has
    volumes of a driver that both use, or as its volumes are larger. Where that leaves a place
    whatever the others do, it is sure; where it does not, nothing is said.
    """
    everybody, rooms = list(everybody), list(rooms)
    return all(_is_sure(wish, everybody, rooms) for wish in wishes)


def _is_sure(wish: PodDemand, everybody: list[PodDemand], rooms: list[NodeRoom]) -> bool:
    fitting = [room for room in rooms if room.times(wish)]
    in_the_way = sum(
        _places_taken(wish, other)
        for other in everybody
        if other.key != wish.key
        and not other.promised
        and any(other.reaches(room.labels) for room in fitting)
    )
    return sum(room.times(wish) for room in fitting) > in_the_way


def _places_taken(wish: PodDemand, other: PodDemand) -> int:
    by_slots = [other.needs[driver] for driver in wish.needs]
    by_space = [math.ceil(other.stored[driver] / size) for driver, size in wish.stored.items()]
    return max(by_slots + by_space, default=0)


class PlaceCheck:
    """Looks things up anew whenever it is asked."""

    def __init__(self, context: CheckContext, disks_: DiskCheck, *, coming_within: float) -> None:
        """`coming_within` is how long after its request a machine is surely still waited for."""
        self._context = context
        self._accounts = context.accounts
        self._machines = context.cloud.machines
        self._groups = context.groups
        self._clock = context.clock
        self._disks = disks_
        self._coming_within = coming_within
        store = context.store
        self._nodes = store.built_in("nodes")
        self._claims = store.built_in("persistentvolumeclaims")
        self._volumes = store.built_in("persistentvolumes")

    def wishes(self) -> list[PodDemand]:
        """All pods that wait for a node and that counting does for."""
        return [self._wish(pod) for pod in self._waiting()]

    def now(self, *, but: str = "") -> Iterator[NodeRoom]:
        """The nodes that pods can be bound to; what pod `but` was promised counts as free."""
        promised = self._promised(but)
        for node in self._nodes.within():
            if takes_pods(node):
                listed = self._accounts.slots.limits.get(node.name, {})
                free = {
                    driver: self._left(node.name, driver, limit, promised)
                    for driver, limit in listed.items()
                }
                labels = node.meta.get("labels", {})
                yield NodeRoom(node.name, labels, free, self._space(node.name, listed))

    def coming(self, view: View, *, perhaps: bool = False) -> Iterator[NodeRoom]:
        """The nodes that are or will be there, each with the slots that it will have.

        With `perhaps` also those that may still be waited for, and were never up.
        """
        promised = self._promised()
        there = {room.name: room for room in self.now()}
        for machine in self._kept_machines():
            room = there.get(machine.node)
            if self._is_on_its_way(machine) or (perhaps and self._is_overdue(machine)):
                new = self.new(machine.group, view)
                for driver, slots in new.free.items():
                    if room is None or driver not in room.free:
                        new.free[driver] = self._left(machine.node, driver, slots, promised)
                    else:
                        new.free[driver] = room.free[driver]
                space = self._space(machine.node, new.free)
                yield new._replace(name=machine.name, space=space)
            elif room is not None:
                yield room

    def in_all(self, view: View) -> Iterator[NodeRoom]:
        """All nodes that there could be: there, coming, or to be had."""
        yield from self.coming(view)
        for name, group in self._groups.items():
            left = max(group.max_size - self._machines.target(name), 0)
            yield from [self.new(name, view)] * left

    def counted_on(self) -> Iterator[tuple[str, Expected]]:
        """What machines can be thought to have, by name, also those that are overdue."""
        for machine in self._kept_machines():
            yield machine.name, self._expected(machine)

    def there(self) -> Iterator[tuple[str, Expected]]:
        """The same of machines that are up, or surely come."""
        up = {node.name for node in self._nodes.within() if takes_pods(node)}
        for machine in self._kept_machines():
            if self._is_on_its_way(machine):
                yield machine.name, self._expected(machine)
            elif machine.node in up:
                told = self._told(machine)
                yield machine.name, Expected(told, told, told)

    def _kept_machines(self) -> Iterator[CloudMachine]:
        """Machines that have not failed and are not being deleted."""
        return filter(_is_kept, self._machines)

    def _expected(self, machine: CloudMachine) -> Expected:
        told = self._told(machine)
        fewest = {**self.new(machine.group, "modest").free, **told}
        return Expected(fewest, {**self.new(machine.group, "generous").free, **told}, told)

    def _told(self, machine: CloudMachine) -> Slots:
        listed = self._accounts.slots.limits.get(machine.node, {})
        return {driver: math.inf if limit is None else limit for driver, limit in listed.items()}

    def new(self, group: str, view: View) -> NodeRoom:
        """A group's next node."""
        template = self._groups[group].provider_template
        assert template is not None
        drivers = template.csi_node.spec.drivers if template.csi_node is not None else ()
        free: Slots = {}
        for entry in drivers:
            told = entry.allocatable.count if entry.allocatable is not None else None
            said = [math.inf if told is None else float(told)]
            if view != "template":
                said += self._live(group, entry.name)
            free[entry.name] = max(said) if view == "generous" else min(said)
        return NodeRoom(group, template.node.metadata.labels, free, self._space("", free))

    def growing(self, wish: PodDemand) -> list[str]:
        """Groups below their largest size whose next node would do by its template."""
        return [
            name
            for name, group in self._groups.items()
            if self._machines.target(name) < group.max_size
            and self.new(name, "template").times(wish)
        ]

    def is_busy(self, within: float) -> bool:
        """Whether machines are still on their way, or were asked for in vain a moment ago."""
        return any(map(self._is_on_its_way, self._machines)) or any(
            self._accounts.now - one.at < within for one in self._context.cloud.asked
        )

    def is_in_doubt(self, group: str) -> bool:
        """Whether a machine of the group is neither up nor surely on its way."""
        for machine in self._machines.of(group):
            node = self._accounts.nodes.get(machine.node)
            up = node is not None and node.state == "ready"
            if not up and not self._is_on_its_way(machine):
                return True
        return False

    def is_replaced(self, group: str) -> bool:
        """Whether the group is at its minimum with a node that lacks drivers for too long."""
        return self._machines.target(group) <= self._groups[group].min_size and any(
            node is not None and node.state == "comingUp" and not self._is_on_its_way(machine)
            for machine in self._machines.of(group)
            for node in (self._accounts.nodes.get(machine.node),)
        )

    def _is_on_its_way(self, machine: CloudMachine) -> bool:
        if not _is_kept(machine):
            return False
        if self._clock.monotonic() - machine.asked_at >= self._coming_within:
            return False
        node = self._accounts.nodes.get(machine.node) if machine.node else None
        return node is None or node.state in ("starting", "comingUp")

    def _is_overdue(self, machine: CloudMachine) -> bool:
        """Whether a machine that was never up may still be waited for.

        A node has its time from its birth on.
        """
        node = self._accounts.nodes.get(machine.node) if machine.node else None
        if node is None:
            age = self._clock.monotonic() - machine.asked_at
        else:
            age = self._accounts.now - node.born
        return age < self._coming_within + _MARGIN and not (node is not None and node.was_up)

    def _live(self, group: str, driver: str) -> Iterator[float]:
        for machine in self._machines.of(group):
            limit = self._accounts.slots.limits.get(machine.node, {}).get(driver)
            if limit is not None:
                yield limit

    def _space(self, node: str, drivers: Iterable[str]) -> dict[str, float]:
        return {driver: self._disks.left(node, driver) for driver in drivers}

    def _left(
        self, node: str, driver: str, limit: float | None, promised: Counter[tuple[str, str]]
    ) -> float:
        if limit is None:
            return math.inf
        return max(limit - self._accounts.slots.used(node, driver) - promised[node, driver], 0)

    def _promised(self, but: str = "") -> Counter[tuple[str, str]]:
        """Slots by node and driver that pods on their way to the node will take."""
        slots: Counter[tuple[str, str]] = Counter()
        for wish in self.wishes():
            if wish.promised and wish.key != but:
                for driver, count in wish.needs.items():
                    slots[wish.promised, driver] += count
        return slots

    def _waiting(self) -> Iterator[Stored]:
        for key, account in self._accounts.pods.items():
            if account.state == "pending":
                pod = self._context.pod(key)
                assert pod is not None
                if not has_wishes(pod):
                    yield pod

    def _wish(self, pod: Stored) -> PodDemand:
        needs: Counter[str] = Counter()
        stored: Counter[str] = Counter()
        claims, reachable, promised = [], [], ""
        for volume in self._accounts.slots.volumes_of(pod):
            needs[volume.driver] += 1
            namespace, _, name = volume.identity.partition("/")
            claim = self._claims.get(namespace, name)
            assert claim is not None
            claims.append(volume.identity)
            bound = self._volumes.get("", claim.tree["spec"].get("volumeName") or "")
            if bound is not None:
                required = (bound.tree["spec"].get("nodeAffinity") or {}).get("required")
                if required:
                    reachable.append(required["nodeSelectorTerms"])
                continue
            node = claim.meta.get("annotations", {}).get(SELECTED, "")
            promised = promised or node
            if not node and self._accounts.disks.has_end(volume.driver):
                stored[volume.driver] += disks.size_of(claim)
        conditions = pod.tree.get("status", {}).get("conditions") or ()
        refused = any(
            condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
            for condition in conditions
        )
        return PodDemand(
            pod.key,
            needs,
            stored,
            tuple(claims),
            tuple(reachable),
            promised,
            refused,
            gang=(pod.meta.get("labels") or {}).get(LABEL, ""),
            request=(pod.meta.get("annotations") or {}).get(CONSUME_ANNOTATION, ""),
        )


def _matches(term: dict[str, Any], labels: Labels) -> bool:
    expressions = term.get("matchExpressions") or ()
    assert all(expression["operator"] == "In" for expression in expressions)
    return all(labels.get(expression["key"]) in expression["values"] for expression in expressions)


def _is_kept(machine: CloudMachine) -> bool:
    return machine.error is None and machine.state != "deleting"


def has_wishes(pod: Stored) -> bool:
    """Whether other pods have a say in where the pod may be: then counting is not enough."""
    spec = pod.tree["spec"]
    return bool(spec.get("affinity") or spec.get("topologySpreadConstraints"))


def takes_pods(node: Stored) -> bool:
    """Whether a node is Ready and keeps nobody off."""
    conditions = node.tree.get("status", {}).get("conditions")
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in conditions or ()
    )
    return ready and is_open(node) and not node.deleting


def is_open(node: Stored) -> bool:
    """Whether neither taints nor a cordon keep pods off; a soft taint keeps off nobody."""
    spec = node.tree.get("spec", {})
    hard = (one for one in spec.get("taints") or () if one["effect"] != "PreferNoSchedule")
    return not spec.get("unschedulable") and not any(hard)
