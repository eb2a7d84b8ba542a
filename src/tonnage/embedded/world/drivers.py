"""CSI drivers on nodes: they register, report a limit, change it, crash and come back."""

from functools import partial

from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world import csinodes, node_patches
from tonnage.embedded.world.behaviour import (
    DriverBehaviour,
    DriverLimitChange,
    is_meant,
    is_played,
)
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.csinodes import Drivers
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.errors import InputError
from tonnage.objects.conditions import is_ready
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode, NodeDriver, NodeDriverAllocatable


class DriverRegistrations:
    """Each driver once per played node, from the node being Ready to the node being gone."""

    def __init__(self, context: WorldContext, caches: WorldCaches) -> None:
        self._client, self._clock, self._behaviour, self._chance, self._chores = context
        self._csi_nodes = caches.csi_nodes
        self._nodes = caches.nodes
        self._drivers = {driver.name: driver for driver in context.behaviour.drivers}
        self._begun: set[tuple[str, str]] = set()
        self._limits: dict[tuple[str, str], int | None] = {}
        self._real_limits: dict[tuple[str, str], int | None] = {}
        caches.nodes.subscribe(self._node_changed)

    async def register(self, node: str, driver: str) -> None:
        """Register now, and take the startup taint off: labels first, as kubelets do."""
        found, behaviour = await self._client.get(Node, node), self._behaviour_of(driver, node)
        labels, topology = found.metadata.labels, behaviour.segment(found)
        missing = {key: value for key, value in topology.items() if labels.get(key) != value}
        if missing:
            await self._client.patch(Node, node, {"metadata": {"labels": missing}})
        limit = self._limits.get((node, driver), behaviour.limit)
        entry = NodeDriver(
            name=driver,
            node_id=node,
            topology_keys=tuple(sorted(topology)),
            allocatable=None if limit is None else NodeDriverAllocatable(count=limit),
        )
        await csinodes.change(self._client, found, partial(_with, entry=entry))
        if behaviour.startup_taint and behaviour.untaints_blindly:
            left = node_patches.without(found.spec.taints, behaviour.startup_taint)
            await node_patches.write_taints(self._client, node, left)
        elif behaviour.startup_taint:
            await node_patches.change_taints(
                self._client,
                node,
                lambda node: node_patches.without(node.spec.taints, behaviour.startup_taint),
            )

    async def unregister(self, node: str, driver: str) -> None:
        """The driver's socket is gone, as after a crash: its entry goes, labels stay."""
        found = await self._client.get(Node, node)
        await csinodes.change(self._client, found, partial(_without, driver=driver))

    async def set_limit(self, node: str, driver: str, limit: int | None) -> None:
        """Have and report another limit from now on, at once if the driver is registered."""
        self.set_real_limit(node, driver, limit)
        await self.report_limit(node, driver)

    def set_real_limit(self, node: str, driver: str, limit: int | None) -> None:
        """Have another limit from now on, and leave everybody in the belief of the old one."""
        behaviour = self._behaviour_of(driver, node)
        self._limits.setdefault((node, driver), behaviour.limit)
        self._real_limits[node, driver] = limit

    async def report_limit(self, node: str, driver: str) -> None:
        """Report the limit that there is, as kubelets do when they ask the driver again."""
        self._limits[node, driver] = self.real_limit(node, driver)
        csi_node = await self._client.get(CSINode, node)
        if any(entry.name == driver for entry in csi_node.spec.drivers):
            await self.register(node, driver)

    def real_limit(self, node: str, driver: str) -> int | None:
        """How many volumes the node can really have of the driver's; `None` is no limit.

        Of a driver that is not played it is what the CSINode says.
        """
        if (node, driver) in self._real_limits:
            return self._real_limits[node, driver]
        if driver in self._drivers:
            behaviour = self._behaviour_of(driver, node)
            hidden = behaviour.real_limit
            return behaviour.limit if hidden is None else hidden
        csi_node = self._csi_nodes.get(node)
        entries = csi_node.spec.drivers if csi_node is not None else ()
        return next((entry.limit for entry in entries if entry.name == driver), None)

    def _node_changed(self, change: Change[Node]) -> None:
        node, name = change.object, change.object.metadata.name
        if not is_played(node, self._behaviour):
            return
        for driver in self._behaviour.drivers:
            key = (name, driver.name)
            if change.type is EventType.DELETED:
                self._chores.stop(("driver", *key))
                for index in range(len(driver.changes)):
                    self._chores.stop(("limit", *key, index))
                self._begun.discard(key)
                self._limits.pop(key, None)
                self._real_limits.pop(key, None)
            elif key not in self._begun and is_ready(node):
                self._begun.add(key)
                if self._ever_registers(node, driver):
                    self._chores.start(("driver", *key), partial(self._live, node, driver))
        csi_node = self._csi_nodes.get(name)
        if change.type is EventType.DELETED and csi_node is not None and _owned(csi_node, node):
            delete = partial(self._client.delete, CSINode, name, uid=csi_node.metadata.uid)
            self._chores.start(("csinode gone", name), delete)

    def _ever_registers(self, node: Node, driver: DriverBehaviour) -> bool:
        if not is_meant(node, driver.nodes) or is_meant(node, driver.never_on):
            return False
        about = ("never registers", driver.name, node.metadata.name)
        return not self._chance.befalls(driver.never_chance, *about)

    async def _live(self, played: Node, driver: DriverBehaviour) -> None:
        node = played.metadata.name
        about = (node, driver.name)
        # The server is asked: a cache of one kind may lag behind that of another, and a driver
        # that had registered with a limit of its own before would be told the usual one.
        registered = await csinodes.drivers_of(self._client, played)
        if all(one.name != driver.name for one in registered):
            await self._clock.sleep(
                self._chance.seconds(driver.registers_after, "register", *about)
            )
            await self._chores.insist(partial(self.register, *about), "register", *about)
        for index, change in enumerate(driver.changes):
            if is_meant(played, change.nodes):
                work = partial(self._change_limit, *about, change, index)
                self._chores.start(("limit", *about, index), work)
        turn = 0
        while driver.crashes_after is not None:
            turn += 1
            await self._clock.sleep(self._chance.seconds(driver.crashes_after, "up", *about, turn))
            await self._chores.insist(partial(self.unregister, *about), "crash", *about)
            await self._clock.sleep(self._chance.seconds(driver.down_for, "down", *about, turn))
            await self._chores.insist(partial(self.register, *about), "register", *about)

    async def _change_limit(
        self, node: str, driver: str, change: DriverLimitChange, index: int
    ) -> None:
        about = (node, driver, index)
        await self._clock.sleep(self._chance.seconds(change.after, "limit", *about))
        self.set_real_limit(node, driver, change.limit)
        await self._clock.sleep(self._chance.seconds(change.reported_after, "report", *about))
        report = partial(self.report_limit, node, driver)
        await self._chores.insist(report, "report", *about)

    def _behaviour_of(self, driver: str, node: str) -> DriverBehaviour:
        """Of a driver that is described several times, what is said for the node."""
        if driver not in self._drivers:
            known = ", ".join(self._drivers) or "none"
            raise InputError(f"no driver {driver} in this world; there is: {known}")
        found = self._nodes.get(node)
        if found is not None:
            for behaviour in self._behaviour.drivers:
                if behaviour.name == driver and is_meant(found, behaviour.nodes):
                    return behaviour
        return self._drivers[driver]


def _with(drivers: Drivers, *, entry: NodeDriver) -> Drivers:
    """As kubelets do: nothing if it is so already, otherwise the new entry comes last."""
    return drivers if entry in drivers else (*_without(drivers, driver=entry.name), entry)


def _without(drivers: Drivers, *, driver: str) -> Drivers:
    return tuple(one for one in drivers if one.name != driver)


def _owned(csi_node: CSINode, node: Node) -> bool:
    return any(
        reference.uid == node.metadata.uid for reference in csi_node.metadata.owner_references
    )
