"""What a pod takes of the row it is on: everything that has to change when it comes or goes."""

from collections.abc import Hashable
from typing import Any

from tonnage.objects import volumes
from tonnage.snapshot.host_ports import HostPorts
from tonnage.snapshot.nodes import PODS, NodeColumns
from tonnage.snapshot.pod_counters import PodCounters
from tonnage.snapshot.records import NOWHERE, PodRecord
from tonnage.snapshot.slots import SlotLedger
from tonnage.snapshot.storage import StorageState


class Occupancy:
    """Columns, counts and indexes hold exactly what the pods on rows take."""

    def __init__(
        self,
        columns: NodeColumns,
        counters: PodCounters,
        slots: SlotLedger,
        storage: StorageState,
    ) -> None:
        self._columns = columns
        self._counters = counters
        self._slots = slots
        self._storage = storage
        self.host_ports = HostPorts()
        self.claim_users: dict[tuple[str, str], dict[str, PodRecord]] = {}
        self.disk_pods: dict[int, dict[str, PodRecord]] = {}
        self.problem_pods: dict[int, dict[str, PodRecord]] = {}

    def occupy(self, record: PodRecord, row: int) -> None:
        pod_class = record.pod_class
        record.row = row
        used = self._columns.used
        for resource, amount in pod_class.usage_columns:
            used[resource].data[row] += amount
        used[PODS].data[row] += 1
        pod_class.nodes[row] = pod_class.nodes.get(row, 0) + 1
        terminating = record.terminating
        if terminating:
            pod_class.terminating[row] = pod_class.terminating.get(row, 0) + 1
        self._counters.added(pod_class, row, 1, terminating=terminating)
        if pod_class.ports:
            self.host_ports.take(row, pod_class.ports)
        if record.volumes:
            self.take_slots(record)
            for volume in record.volumes:
                if volume.claim:
                    users = self.claim_users.setdefault((pod_class.namespace, volume.claim), {})
                    users[record.key] = record
                else:
                    include(self.disk_pods, row, record)

    def vacate(self, record: PodRecord) -> None:
        pod_class, row = record.pod_class, record.row
        used = self._columns.used
        for resource, amount in pod_class.usage_columns:
            used[resource].data[row] -= amount
        used[PODS].data[row] -= 1
        _count_down(pod_class.nodes, row)
        terminating = record.terminating
        if terminating:
            _count_down(pod_class.terminating, row)
        self._counters.added(pod_class, row, -1, terminating=terminating)
        if pod_class.ports:
            self.host_ports.give_back(row, pod_class.ports)
        if record.volumes:
            self.give_back_slots(record)
            for volume in record.volumes:
                if volume.claim:
                    discard(self.claim_users, (pod_class.namespace, volume.claim), record.key)
                else:
                    discard(self.disk_pods, row, record.key)
        record.row = NOWHERE

    def take_slots(self, record: PodRecord) -> None:
        """Take what the volumes come to now; give it back before that changes."""
        slots = volumes.slots(record.meta, record.volumes, self._storage, placed=True)
        record.slots = slots
        self._slots.use(record.row, slots.uses)
        if slots.migrated:
            self._slots.use(record.row, slots.migrated)
        if slots.problem is not None or slots.migrated_problem is not None:
            include(self.problem_pods, record.row, record)

    def give_back_slots(self, record: PodRecord) -> None:
        self._slots.unuse(record.row, record.slots.uses)
        if record.slots.migrated:
            self._slots.unuse(record.row, record.slots.migrated)
        if record.slots.problem is not None or record.slots.migrated_problem is not None:
            discard(self.problem_pods, record.row, record.key)
        record.slots = volumes.NO_SLOTS


def include(index: dict[Any, dict[str, PodRecord]], key: Hashable, record: PodRecord) -> None:
    """Put a record into an index of dictionaries, each in the order its pods came."""
    members = index.setdefault(key, {})
    last = next(reversed(members.values()), record)
    members[record.key] = record
    if last.order > record.order:
        index[key] = dict(sorted(members.items(), key=lambda entry: entry[1].order))


def discard(index: dict[Any, dict[str, Any]], key: Hashable, member: str) -> None:
    """Take a member out of an index of dictionaries, leaving no empty one behind."""
    members = index.get(key)
    if members is not None:
        members.pop(member, None)
        if not members:
            del index[key]


def _count_down(counts: dict[int, int], row: int) -> None:
    if counts[row] == 1:
        del counts[row]
    else:
        counts[row] -= 1
