"""Pods, nodes and slots, counted from every change in the API as it happens."""

from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

from tonnage.clock import Clock
from tonnage.embedded.apiserver.store import Collection, ObjectStore, Occurrence, Stored
from tonnage.embedded.world import WorldBehaviour
from tonnage.objects.pods import DISRUPTION_TARGET, EVICTED, FINISHED
from tonnage.providers.kwok_objects import GROUP_LABEL
from tonnage.report.timeline import (
    NODE_STATES,
    Decided,
    NodeState,
    PodCounts,
    Sample,
    Spread,
    Summary,
)
from tonnage.simulation.disks import DiskLedger
from tonnage.simulation.slots import SlotCounter, Volume

PodState: TypeAlias = Literal["pending", "starting", "running", "leaving"]


class PodAccount:
    """What is known of one pod that has not ended."""

    __slots__ = ("created_at", "evicted", "node", "ran", "since", "state", "volumes")

    def __init__(self, now: float) -> None:
        self.created_at = self.since = now
        self.state: PodState = "pending"
        self.node = ""
        self.ran = self.evicted = False
        self.volumes: tuple[Volume, ...] = ()


class NodeAccount:
    """What is known of one node that is there."""

    __slots__ = ("born", "expected", "ready", "state", "was_ready", "was_up")

    def __init__(self, expected: frozenset[str], now: float) -> None:
        self.born = now
        self.expected = expected
        self.ready = self.was_ready = self.was_up = False
        self.state: NodeState = "starting"


class Accounts:
    """Equal to what the API holds, after every change of it; `listeners` are told after that."""

    def __init__(
        self, store: ObjectStore, *, clock: Clock, world: WorldBehaviour, stuck_after: float
    ) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._world = world
        self._stuck_after = stuck_after
        self.slots = SlotCounter(store)
        self.disks = DiskLedger(store, world)
        self.pods: dict[str, PodAccount] = {}
        self.nodes: dict[str, NodeAccount] = {}
        self.changes = 0
        self.created = 0
        self.evictions = 0
        """Pods that were evicted by whoever asked for it; preemption is none."""
        self.waits: list[float] = []
        """Seconds from creation to running, of each pod that came to run."""
        self.pending_peak = self.stuck_peak = self.nodes_peak = 0
        self.listeners: list[Callable[[Collection, Occurrence], None]] = []
        self._pod_states: Counter[PodState] = Counter()
        self._node_states: Counter[NodeState] = Counter()
        self._pending_seconds = self._stuck_seconds = 0.0
        self._starting: dict[str, PodAccount] = {}
        store.observers.append(self._changed)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._clock.monotonic() - self._began

    def sample(self, *, requested: int, cost: float, cost_per_hour: float) -> Sample:
        """How things are now."""
        stuck = sum(self._stuck_for(one) > 0 for one in self._starting.values())
        self.stuck_peak = max(self.stuck_peak, stuck)
        nodes: dict[NodeState, int] = {state: self._node_states[state] for state in NODE_STATES}
        nodes["requested"] = requested
        return Sample(
            at=round(self.now, 3),
            pods=PodCounts(
                pending=self._pod_states["pending"],
                starting=self._pod_states["starting"],
                stuck=stuck,
                running=self._pod_states["running"],
            ),
            nodes=nodes,
            slots=self.slots.totals(),
            cost=round(cost, 6),
            cost_per_hour=round(cost_per_hour, 6),
            local_storage=self.disks.totals(self.slots.limits),
        )

    def summary(self, last: Sample, decisions: Iterable[Decided]) -> Summary:
        """What came of it, by the last sample and what was asked of node groups."""
        nodes: Counter[str] = Counter()
        for decision in decisions:
            if not decision.error:
                nodes[decision.deed] += decision.nodes
        return Summary(
            pods_created=self.created,
            pods_ran=len(self.waits),
            pending_at_end=last.pods.pending,
            pending_peak=self.pending_peak,
            stuck_at_end=last.pods.stuck,
            stuck_peak=self.stuck_peak,
            pod_hours_pending=round(self.pod_hours_pending, 4),
            pod_hours_stuck=round(self.pod_hours_stuck, 4),
            time_to_running=self.time_to_running,
            nodes_bought=nodes["increase"],
            nodes_deleted=nodes["delete"],
            nodes_at_end=last.nodes_there,
            nodes_peak=self.nodes_peak,
            cost=last.cost,
            evictions=self.evictions,
            changes=self.changes,
        )

    @property
    def pod_hours_pending(self) -> float:
        waiting = (pod for pod in self.pods.values() if pod.state == "pending")
        return (self._pending_seconds + sum(self.now - one.since for one in waiting)) / 3600

    @property
    def pod_hours_stuck(self) -> float:
        stuck = sum(max(self._stuck_for(one), 0.0) for one in self._starting.values())
        return (self._stuck_seconds + stuck) / 3600

    @property
    def time_to_running(self) -> Spread:
        ordered = sorted(self.waits)
        waiting = sum(
            not pod.ran and pod.state in ("pending", "starting") for pod in self.pods.values()
        )
        count = len(ordered) + waiting

        def part(share: float) -> float | None:
            position = min(int(count * share), count - 1)
            return round(ordered[position], 3) if 0 <= position < len(ordered) else None

        longest = round(ordered[-1], 3) if ordered else None
        return Spread(count=count, waiting=waiting, p50=part(0.5), p99=part(0.99), longest=longest)

    def _changed(self, collection: Collection, occurrence: Occurrence) -> None:
        kind = collection.kind.plural
        before, after = occurrence.before, occurrence.after
        if kind == "events" and after is None:
            return  # The server has forgotten it; nothing has happened.
        self.changes += 1
        if kind == "pods":
            self._pod_changed(occurrence.subject, after)
        elif kind == "nodes":
            self._node_changed(occurrence.subject.name, after)
        elif kind == "csinodes":
            name = occurrence.subject.name
            self.slots.csi_node_changed(name, after)
            self._restate(name)
        elif kind == "volumeattachments":
            self.slots.attachment_changed(before, after)
        elif kind == "persistentvolumes":
            self.disks.volume_changed(before, after)
        for tell in self.listeners:
            tell(collection, occurrence)

    # Pods

    def _pod_changed(self, subject: Stored, after: Stored | None) -> None:
        key = subject.key
        account = self.pods.get(key)
        if account is not None and not account.evicted and _is_evicted(subject):
            account.evicted = True
            self.evictions += 1
        if after is None or after.tree.get("status", {}).get("phase") in FINISHED:
            if account is not None:
                self._pod_ended(key, account)
            return
        if account is None:
            account = self.pods[key] = PodAccount(self.now)
            self._pod_states["pending"] += 1
            self.created += 1
        node = after.tree["spec"].get("nodeName", "")
        if node and not account.node:
            account.node, account.volumes = node, self.slots.volumes_of(after)
            for volume in account.volumes:
                self.slots.take(node, volume)
        self._pod_is(key, account, _pod_state(after))
        self.pending_peak = max(self.pending_peak, self._pod_states["pending"])

    def _pod_is(self, key: str, account: PodAccount, state: PodState) -> None:
        if state == account.state:
            return
        self._leave(key, account)
        account.state, account.since = state, self.now
        self._pod_states[state] += 1
        if state == "starting":
            self._starting[key] = account
        if state == "running" and not account.ran:
            account.ran = True
            self.waits.append(self.now - account.created_at)

    def _pod_ended(self, key: str, account: PodAccount) -> None:
        self._leave(key, account)
        del self.pods[key]
        for volume in account.volumes:
            self.slots.release(account.node, volume)

    def _leave(self, key: str, account: PodAccount) -> None:
        """Take it out of the state it was in."""
        self._pod_states[account.state] -= 1
        if account.state == "pending":
            self._pending_seconds += self.now - account.since
        elif account.state == "starting":
            self._stuck_seconds += max(self._stuck_for(account), 0.0)
            del self._starting[key]

    def _stuck_for(self, account: PodAccount) -> float:
        return self.now - account.since - self._stuck_after

    # Nodes

    def _node_changed(self, name: str, after: Stored | None) -> None:
        if after is None:
            account = self.nodes.pop(name, None)
            if account is not None:
                self._node_states[account.state] -= 1
            return
        account = self.nodes.get(name)
        if account is None:
            group = after.meta.get("labels", {}).get(GROUP_LABEL, "")
            account = self.nodes[name] = NodeAccount(self._expected(name, group), self.now)
            self._node_states[account.state] += 1
            self.nodes_peak = max(self.nodes_peak, len(self.nodes))
        account.ready = _is_ready(after.tree)
        account.was_ready |= account.ready
        self._restate(name)

    def _restate(self, name: str) -> None:
        account = self.nodes.get(name)
        if account is None:
            return
        state: NodeState = "ready"
        if not account.ready:
            state = "notReady" if account.was_ready else "starting"
        elif not account.expected <= self.slots.limits.get(name, {}).keys():
            state = "comingUp"
        account.was_up |= state == "ready"
        if state != account.state:
            self._node_states[account.state] -= 1
            self._node_states[state] += 1
            account.state = state

    def _expected(self, name: str, group: str) -> frozenset[str]:
        """The drivers that the node should have one day."""
        names = [one for one in (name, group) if one]
        return frozenset(
            driver.name
            for driver in self._world.drivers
            if any(fnmatchcase(one, pattern) for one in names for pattern in driver.nodes)
        )


def _pod_state(pod: Stored) -> PodState:
    if pod.deleting:
        return "leaving"
    if not pod.tree["spec"].get("nodeName"):
        return "pending"
    return "running" if pod.tree.get("status", {}).get("phase") == "Running" else "starting"


def _is_evicted(pod: Stored) -> bool:
    conditions = pod.tree.get("status", {}).get("conditions") or ()
    return any(
        one["type"] == DISRUPTION_TARGET and one.get("reason") == EVICTED for one in conditions
    )


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
