"""A cluster in which nobody does anything but the test, and the invariants look on."""

from collections import Counter
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from tonnage.clock import virtual
from tonnage.clock.virtual import VirtualClock
from tonnage.embedded.apiserver.store import Collection, Stored
from tonnage.embedded.cloud import CloudMachine
from tonnage.embedded.world import DriverBehaviour, WorldBehaviour
from tonnage.groups.passing_taints import TO_BE_DELETED
from tonnage.objects.scenarios import GroupTemplate, NodeGroup
from tonnage.providers.protocol import InstanceError
from tonnage.report.timeline import Decided
from tonnage.simulation.checks.disks import SELECTED
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.invariants import Invariants
from tonnage.simulation.scenario import Simulation, Spec, Tree
from tonnage.snapshot.reservations import Reservation, Source
from tonnage.testing import builders
from tonnage.testing.provider_contract import declared

OPTED_IN, PLAIN = "opted.example.com", "plain.example.com"
LOCAL = "local.example.com"
"""A driver with a disk of 20 GiB on every node, where it is listed."""
ZONE = "topology.kubernetes.io/zone"
SIZE = "10Gi"
"""Of every volume."""
COMING_WITHIN = 100.0
SETTLED = 200.0


class Stage:
    """Words for what happens in a cluster with two groups, `east` and `west`, of 1 to 3 nodes.

    Their templates promise two slots of each driver.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        groups = tuple(map(_group, ("east", "west")))
        drivers = (
            DriverBehaviour(name=OPTED_IN),
            DriverBehaviour(name=PLAIN),
            DriverBehaviour(name=LOCAL, capacity="20Gi", nodes=()),
        )
        spec = Spec(duration=3600.0, world=WorldBehaviour(drivers=drivers))
        simulation = Simulation(name="stage", spec=spec, groups=groups)
        self.ensemble = Ensemble(simulation, clock=clock)
        self.invariants = Invariants(self.ensemble, coming_within=COMING_WITHIN, settled=SETTLED)
        self._assumed: dict[str, Reservation] = {}
        self.ensemble.scheduler = cast(
            Any, SimpleNamespace(world=SimpleNamespace(assumed=self._assumed))
        )
        self._store = self.ensemble.server.store
        self._uids = 0
        for driver in (OPTED_IN, PLAIN, LOCAL):
            opting = {"preventPodSchedulingIfMissing": driver == OPTED_IN}
            self._put("csidrivers", driver, namespace="", spec=opting)
            self._put("storageclasses", driver, namespace="", provisioner=driver)
        for group in ("east", "west"):
            self.machine(f"{group}-1", group)
            self.node(f"{group}-1")
            self.csi_node(f"{group}-1")

    @property
    def rules(self) -> list[str]:
        """What was broken, each rule once for every time."""
        return [one.rule for one in self.invariants.violations]

    @property
    def excused(self) -> Counter[str]:
        return self.invariants.excused

    async def after(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    # Nodes

    def machine(self, name: str, group: str, *, node: bool = True, failed: bool = False) -> None:
        now = self.clock.monotonic()
        self.ensemble.cloud.machines.put(
            CloudMachine(
                name=name,
                group=group,
                id=name,
                asked_at=now,
                due=now,
                state="running" if node else "creating",
                node=name if node else "",
                error=InstanceError(code="Failed") if failed else None,
            )
        )

    def no_machine(self, name: str, group: str) -> None:
        machines = self.ensemble.cloud.machines
        found = machines.get(group, name)
        assert found is not None
        machines.end(found, now=self.clock.monotonic())
        self.something_happens()

    def node(self, name: str, *, ready: bool = True, tainted: bool = False) -> None:
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        taints = [{"key": "wait", "effect": "NoSchedule"}] if tainted else []
        labels = {ZONE: name.partition("-")[0]}
        self._put(
            "nodes",
            name,
            namespace="",
            labels=labels,
            spec={"taints": taints},
            status={"conditions": [condition]},
        )

    def csi_node(self, name: str, *, local: bool = False, **limits: int | None) -> None:
        """With two slots of both drivers, or as told: `None` is a driver that is not there."""
        told = {OPTED_IN: limits.get("opted_in", 2), PLAIN: limits.get("plain", 2)}
        drivers: list[Tree] = [
            {"name": driver, "nodeID": name, "allocatable": {"count": limit}}
            for driver, limit in told.items()
            if limit is not None
        ]
        if local:
            drivers.append({"name": LOCAL, "nodeID": name})
        self._put("csinodes", name, namespace="", spec={"drivers": drivers})

    # Pods

    def pod(self, name: str, *drivers: str, zone: str = "", promised: str = "") -> None:
        """A pod that waits, with a volume of each driver; `zone` is where these are already."""
        volumes = []
        for driver in drivers:
            claim = _claim_name(name, driver)
            self._claim(claim, driver, zone=zone, promised=promised)
            source = {"claimName": claim}
            volumes.append({"name": claim, "persistentVolumeClaim": source})
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"phase": "Pending", "conditions": [refused]}
        self._put("pods", name, spec={"volumes": volumes}, status=status)

    def send(self, name: str, node: str, *, driver: str = LOCAL) -> None:
        """What the scheduler does to have a volume of a pod made."""
        self._claim(_claim_name(name, driver), driver, zone="", promised=node)

    def provision(self, name: str, node: str) -> None:
        """The volume of a pod is made on a node's disk, and its claim is bound to it."""
        claim = _claim_name(name, LOCAL)
        term = {"key": f"topology.{LOCAL}/node", "operator": "In", "values": [node]}
        terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
        spec = {
            "csi": {"driver": LOCAL},
            "nodeAffinity": terms,
            "capacity": {"storage": SIZE},
            "claimRef": {"namespace": "default", "name": claim},
        }
        self._put("persistentvolumes", f"pv-{claim}", namespace="", spec=spec)
        self._claim(claim, LOCAL, zone="", promised=node, volume=f"pv-{claim}")

    def decide(self, name: str, node: str) -> None:
        """What the scheduler does before it binds a pod."""
        found = self._collection("pods").get("default", name)
        assert found is not None
        key = f"default/{name}"
        self._assumed[key] = Reservation(key, Source.ASSUMED, 0.0, node=node, uid=found.uid)

    def bind(self, name: str, node: str) -> None:
        found = self._collection("pods").get("default", name)
        assert found is not None
        spec = {**found.tree["spec"], "nodeName": node}
        self._store.put(self._collection("pods"), {**found.tree, "spec": spec}, found)

    def bound(self, name: str, *drivers: str, node: str) -> None:
        """A pod that comes and is bound at once."""
        self.pod(name, *drivers)
        self.bind(name, node)

    def attach(self, volume: str, driver: str, node: str) -> None:
        source = {"persistentVolumeName": volume}
        spec = {"attacher": driver, "nodeName": node, "source": source}
        self._put("volumeattachments", volume, namespace="", spec=spec)

    # Nodes that go

    def mark(self, name: str) -> None:
        """As scale-down does with a node that is going."""
        nodes = self._collection("nodes")
        found = nodes.get("", name)
        assert found is not None
        taint = {"key": TO_BE_DELETED, "effect": "NoSchedule"}
        spec = {**found.tree["spec"], "taints": [taint]}
        self._store.put(nodes, {**found.tree, "spec": spec}, found)

    def replica(self, name: str, node: str) -> None:
        """A pod of a StatefulSet that is ready on a node, in place of one of its name before."""
        owner = name.rpartition("-")[0]
        self._put("statefulsets", owner, spec={"replicas": 9})
        owned_by = self._collection("statefulsets").get("default", owner)
        assert owned_by is not None
        before = self._collection("pods").get("default", name)
        if before is not None:
            self._store.remove(self._collection("pods"), before)
        self._uids += 1
        controller = {"kind": "StatefulSet", "name": owner, "controller": True}
        meta: Tree = {
            "name": name,
            "namespace": "default",
            "uid": str(self._uids),
            "labels": {"app": owner},
            "ownerReferences": [{**controller, "apiVersion": "apps/v1", "uid": owned_by.uid}],
        }
        ready = {"type": "Ready", "status": "True"}
        self._store.put(
            self._collection("pods"),
            {
                "metadata": meta,
                "spec": {"nodeName": node},
                "status": {"phase": "Running", "conditions": [ready]},
            },
            None,
        )

    def evict(self, name: str) -> None:
        pods = self._collection("pods")
        found = pods.get("default", name)
        assert found is not None
        meta = {**found.meta, "deletionTimestamp": "2030-01-01T00:00:00Z"}
        self._store.put(pods, {**found.tree, "metadata": meta}, found)

    def budget(self, name: str, **spec: Any) -> None:
        selector = {"matchLabels": {"app": name}}
        self._put("poddisruptionbudgets", name, spec={"selector": selector, **spec})

    def buy(self, group: str, nodes: int, *, refused: bool = False) -> None:
        """As the autoscaler does, and the machines are on their way from then on."""
        before = self.ensemble.cloud.before_increase
        assert before is not None
        before(group, nodes)
        if refused:
            self.refuse(group, nodes)
            return
        for _ in range(nodes):
            self._uids += 1
            self.machine(f"{group}-new-{self._uids}", group, node=False)
        self.something_happens()

    def delete(self, name: str, group: str) -> None:
        """As the autoscaler does, before anything comes of it."""
        before = self.ensemble.cloud.before_delete
        assert before is not None
        before(group, [name])

    def fail(self, group: str) -> None:
        """One of the machines on their way does not come."""
        machines = self.ensemble.cloud.machines
        found = next(one for one in machines.of(group) if not one.node and one.error is None)
        machines.put(msgspec.structs.replace(found, error=InstanceError(code="Failed")))
        self.something_happens()

    def refuse(self, group: str, nodes: int) -> None:
        """A request for nodes that the provider does not fulfil."""
        now = self.ensemble.accounts.now
        asked = Decided(at=now, deed="increase", group=group, nodes=nodes, error="no")
        self.ensemble.cloud.asked.append(asked)
        self.something_happens()

    def something_happens(self) -> None:
        """A change that matters to nobody: the invariants look after every one."""
        self._uids += 1
        self._put("configmaps", f"note-{self._uids}")

    def _claim(self, name: str, driver: str, *, zone: str, promised: str, volume: str = "") -> None:
        spec: Tree = {
            "storageClassName": driver,
            "resources": {"requests": {"storage": SIZE}},
            "volumeName": volume,
        }
        if zone:
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
            affinity = {"required": {"nodeSelectorTerms": [term]}}
            self._put(
                "persistentvolumes",
                name,
                namespace="",
                spec={"csi": {"driver": driver}, "nodeAffinity": affinity},
            )
            spec["volumeName"] = name
        notes = {SELECTED: promised} if promised else {}
        self._put("persistentvolumeclaims", name, spec=spec, annotations=notes)

    def _put(
        self,
        plural: str,
        name: str,
        *,
        namespace: str = "default",
        labels: Tree | None = None,
        annotations: Tree | None = None,
        **parts: Any,
    ) -> None:
        collection = self._collection(plural)
        before: Stored | None = collection.get(namespace, name)
        self._uids += 1
        meta: Tree = {
            "name": name,
            "uid": before.uid if before is not None else str(self._uids),
            "labels": labels or {},
            "annotations": annotations or {},
        }
        if namespace:
            meta["namespace"] = namespace
        self._store.put(collection, {"metadata": meta, **parts}, before)

    def _collection(self, plural: str) -> Collection:
        return next(found for key, found in self._store.collections.items() if key[2] == plural)


def played(act: Callable[[Stage], Coroutine[Any, Any, None]]) -> Stage:
    """The stage after a play in virtual time."""
    clock = VirtualClock()

    async def main() -> Stage:
        stage = Stage(clock)
        # Beginnings are over: what was so until now is not to be mixed up with what follows.
        await clock.sleep(10.0)
        await act(stage)
        return stage

    return virtual.run(main, clock=clock)


def _claim_name(pod: str, driver: str) -> str:
    return f"{pod}-{driver.partition('.')[0]}"


def _group(name: str) -> NodeGroup:
    node = builders.node("any", zone=name)
    csi_node = builders.csinode("any", {OPTED_IN: 2, PLAIN: 2})
    return declared(
        name, template=GroupTemplate(node=node, csi_node=csi_node), min_size=1, max_size=3
    )
