"""What must hold after every change in the API, whatever goes wrong around it.

For clusters in which any pod may run on any node and slots are what runs out first, as `exploring`
makes them: only then is "has a place" a matter of counting.
"""

from collections import defaultdict
from typing import NamedTuple

from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.groups import nodegroups
from tonnage.groups.model import Group
from tonnage.objects.storage import NodeDriver
from tonnage.report.figures import moment
from tonnage.simulation.ensemble import Ensemble

SELECTED = "volume.kubernetes.io/selected-node"

_SEEN_WITHIN = 1.0
"""Seconds within which everybody has seen a change."""


class Violation(NamedTuple):
    """A rule that was broken, when and how."""

    at: float
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{moment(self.at)} {self.rule}: {self.what}"


class _Reported(NamedTuple):
    """What a CSINode says of a driver from a moment on: a limit, none, or nothing at all."""

    since: float
    listed: bool
    limit: int | None


class Invariants:
    """Listens to an ensemble; `violations` are what was broken so far."""

    def __init__(self, ensemble: Ensemble, *, coming_within: float) -> None:
        """`coming_within` is how long after its request a machine is still waited for."""
        self._ensemble = ensemble
        self._accounts = ensemble.accounts
        self._coming_within = coming_within
        self._drivers = ensemble.server.store.collections["storage.k8s.io", "v1", "csidrivers"]
        self._groups = {
            group.id: group for group in nodegroups.from_objects(ensemble.simulation.groups, ())
        }
        self._reported: defaultdict[tuple[str, str], list[_Reported]] = defaultdict(list)
        self._selected: dict[str, float] = {}
        """When a node was decided on, by the claim that the decision was written on."""
        self._asked = 0
        self.violations: list[Violation] = []
        ensemble.accounts.listeners.append(self._changed)

    def at_the_end(self) -> None:
        """When nothing has happened for long: whoever has a place is there."""
        pending = [key for key, one in self._accounts.pods.items() if one.state == "pending"]
        if not pending:
            return
        free = self._free(coming=False)
        if free:
            what = f"{pending[0]} and {len(pending) - 1} more, with {free} slots free"
            self._violated("a pod with a place is pending", what)
        room = [
            name for name, group in self._groups.items() if self._target(group) < group.max_size
        ]
        if room:
            what = f"{pending[0]} and {len(pending) - 1} more, and {room[0]} could grow"
            self._violated("a pod that could be helped is pending", what)

    def _changed(self, collection: Collection, occurrence: Occurrence) -> None:
        kind = collection.kind.plural
        if kind == "csinodes":
            self._note_limits(occurrence.subject.name)
        elif kind == "persistentvolumeclaims":
            self._note_decision(occurrence)
        elif kind == "pods":
            before, after = occurrence.before, occurrence.after
            if after is not None and before is not None:
                node = after.tree["spec"].get("nodeName", "")
                if node and not before.tree["spec"].get("nodeName"):
                    self._check_binding(f"{after.namespace}/{after.name}", node)
        self._check_groups()

    # Bindings

    def _note_limits(self, node: str) -> None:
        now, listed = self._accounts.now, self._accounts.slots.limits.get(node, {})
        for driver in {*listed, *(name for one, name in self._reported if one == node)}:
            state = _Reported(now, driver in listed, listed.get(driver))
            known = self._reported[node, driver]
            if not known or known[-1][1:] != state[1:]:
                known.append(state)

    def _note_decision(self, occurrence: Occurrence) -> None:
        claim = occurrence.subject
        key = f"{claim.namespace}/{claim.name}"
        if occurrence.after is None or SELECTED not in claim.meta.get("annotations", {}):
            self._selected.pop(key, None)
        else:
            self._selected.setdefault(key, self._accounts.now)

    def _check_binding(self, pod: str, node: str) -> None:
        volumes = self._accounts.pods[pod].volumes
        now = self._accounts.now
        decided = min((self._selected.get(one.identity, now) for one in volumes), default=now)
        for driver in {volume.driver for volume in volumes}:
            used = self._accounts.slots.used(node, driver)
            states = self._believable(node, driver, since=decided - _SEEN_WITHIN)
            if self._opted_in(driver) and not any(one.listed for one in states):
                self._violated("bound where its driver is missing", f"{pod} on {node}: {driver}")
            if all(one.limit is not None and used > one.limit for one in states):
                limit = max(one.limit or 0 for one in states)
                what = f"{pod} on {node}: {used} volumes of {driver}, which has {limit} slots"
                self._violated("bound beyond a limit", what)

    def _believable(self, node: str, driver: str, *, since: float) -> list[_Reported]:
        """What whoever decided on the binding may have seen."""
        known = self._reported[node, driver]
        later = [one for one in known if one.since > since]
        before = known[: len(known) - len(later)]
        return [*(before[-1:] or [_Reported(0.0, False, None)]), *later]

    def _opted_in(self, driver: str) -> bool:
        found = self._drivers.get("", driver)
        return found is not None and bool(
            found.tree.get("spec", {}).get("preventPodSchedulingIfMissing")
        )

    # Groups

    def _check_groups(self) -> None:
        asked = self._ensemble.cloud.asked
        new = asked[self._asked :]
        self._asked = len(asked)
        for one in new:
            if one.error:
                continue
            group = self._groups[one.group]
            target = self._target(group)
            if not group.min_size <= target <= group.max_size:
                bounds = f"{group.min_size} to {group.max_size}"
                self._violated("a group beyond its bounds", f"{group.id}: {target}, {bounds}")

    def check_purchase(self, group: str, delta: int) -> None:
        """To be told just before nodes are bought: were those that come not enough?"""
        pending = sum(one.state == "pending" for one in self._accounts.pods.values())
        free = self._free(coming=True)
        if free >= pending:
            what = f"{group} +{delta} for {pending} pending pods, with {free} slots free or coming"
            self._violated("bought what was already coming", what)

    def _target(self, group: Group) -> int:
        return self._ensemble.cloud.machines.target(group.id)

    def _free(self, *, coming: bool) -> int:
        """Slots that pods can have: now, or as soon as all machines that come are there."""
        accounts, free = self._accounts, 0
        for machine in self._ensemble.cloud.machines:
            if machine.error is not None or machine.state == "deleting":
                continue
            node = accounts.nodes.get(machine.node) if machine.node else None
            if node is not None and node.state == "ready":
                limits = accounts.slots.limits[machine.node].items()
                free += sum(
                    max((limit or 0) - accounts.slots.used(machine.node, driver), 0)
                    for driver, limit in limits
                )
            elif coming and (node is None or node.state != "notReady"):
                age = accounts.now - machine.asked_at
                if age < self._coming_within:
                    free += self._slots_of_new(machine.group, machine.node)
        return free

    def _slots_of_new(self, group: str, node: str) -> int:
        template = self._groups[group].provider_template
        assert template is not None
        assert template.csi_node is not None
        return sum(
            max(self._expected(group, entry) - self._accounts.slots.used(node, entry.name), 0)
            for entry in template.csi_node.spec.drivers
        )

    def _expected(self, group: str, entry: NodeDriver) -> int:
        """A new node's slots; where live nodes of the group say less, that may be believed."""
        told = entry.allocatable.count if entry.allocatable is not None else None
        live = (
            self._accounts.slots.limits.get(machine.node, {}).get(entry.name)
            for machine in self._ensemble.cloud.machines.of(group)
        )
        return min((one for one in (told, *live) if one is not None), default=0)

    def _violated(self, rule: str, what: str) -> None:
        self.violations.append(Violation(round(self._accounts.now, 3), rule, what))
