"""What must hold after every change in the API, whatever goes wrong around it.

The rules are in `checks`; here they are put together and told of what happens.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.cluster import resources
from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.embedded.cloud.behaviour import label
from tonnage.groups import node_group_objects
from tonnage.objects.labels import ZONE
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from tonnage.service import config_file
from tonnage.simulation import random_gangs, scenario_files
from tonnage.simulation.checks import kept_room
from tonnage.simulation.checks.bindings import BindingCheck
from tonnage.simulation.checks.bookings import BookingCheck
from tonnage.simulation.checks.bounds import BoundsCheck
from tonnage.simulation.checks.context import CheckContext
from tonnage.simulation.checks.deletions import DeletionCheck
from tonnage.simulation.checks.disks import DiskCheck
from tonnage.simulation.checks.findings import Findings, Violation
from tonnage.simulation.checks.gangs import GangCheck
from tonnage.simulation.checks.kept_room import KeptRoomCheck
from tonnage.simulation.checks.pending_pods import PendingPodCheck
from tonnage.simulation.checks.placements import NOT_COUNTED, PlacementCheck
from tonnage.simulation.checks.places import PlaceCheck
from tonnage.simulation.checks.purchases import PurchaseCheck
from tonnage.simulation.checks.removals import Removals
from tonnage.simulation.checks.repeats import RepeatCheck
from tonnage.simulation.ensemble import Ensemble
from tonnage.snapshot.reservations import Reservation

__all__ = ["Invariants", "Violation"]

_DECIDED_BY: tuple[type[Any], ...] = (
    Pod, Node, CSINode, PersistentVolumeClaim, PersistentVolume, VolumeAttachment,
)  # fmt: skip
_LASTS = 300.0
"""Seconds after which what a script does is surely over."""
_REJOINING = 60.0
"""Seconds after a cut within which everything is watched again: the longest backoff, and more."""
_PLURALS = frozenset(resources.of(kind).plural for kind in _DECIDED_BY)


class Invariants:
    """Listens to an ensemble; `violations` are what was broken so far.

    `excused` counts breaches that no scheduler and no autoscaler could have prevented, by reason.
    """

    def __init__(self, ensemble: Ensemble, *, coming_within: float, settled: float) -> None:
        """`coming_within` is how long after its request a machine is surely still waited for.

        Where nothing was bought for `settled` seconds, nothing more will be.
        """
        self._ensemble = ensemble
        self._settled = settled
        spec = ensemble.simulation.spec
        accounts, cloud = ensemble.accounts, ensemble.cloud
        groups = {
            group.id: group
            for group in node_group_objects.from_objects(ensemble.simulation.groups, ())
        }
        self._findings = Findings(lambda: accounts.now)
        context = CheckContext(
            accounts=accounts,
            store=ensemble.server.store,
            cloud=cloud,
            groups=groups,
            clock=ensemble.clock,
            findings=self._findings,
            assumed=self._assumed,
            behind=self._is_behind,
        )
        self._disks = DiskCheck(context)
        self._places = places = PlaceCheck(context, self._disks, coming_within=coming_within)
        self._bindings = BindingCheck(context)
        self.placements = PlacementCheck(context)
        self._bounds = BoundsCheck(context)
        self._repeats = RepeatCheck(context, places)
        config = config_file.parse(
            b"", AutoscalerConfig, where="", given=scenario_files.autoscaler_options(spec)
        )
        kept = kept_room.demands(config.kept_slots, ensemble.simulation.groups)
        self._kept_room = KeptRoomCheck(context, places, kept)
        self._gangs = GangCheck(context, places)
        self._bookings = BookingCheck(context, places)
        # Pods that never wait use up what is kept or booked, and gangs may come to have hope: then
        # nobody can tell for whom something is bought.
        self._for_pods_alone = not (
            kept or config.provisioning_requests or random_gangs.is_laid_over(ensemble.simulation)
        )
        self._purchases = PurchaseCheck(
            context,
            places,
            self._repeats,
            gangs=self._gangs,
            bookings=self._bookings,
            kept=kept,
            repeats_count=self._for_pods_alone,
        )
        self._deletions = DeletionCheck(context, patience=config.driver_registration_timeout)
        self.removals = Removals(
            context,
            detach_timeout=config.volume_detach_timeout,
            zones={label(group, ZONE) for group in ensemble.simulation.groups},
        )
        self._waiting = PendingPodCheck(context, places, self._bookings)
        self._changed_at = -1.0
        self._cuts = [
            (at, at + action.cut.lasts + _REJOINING)
            for action in spec.script
            if action.cut is not None
            for at in action.times(spec.duration)
        ]
        self._quiet_since = max(
            (at + _LASTS for one in spec.script for at in one.times(spec.duration)), default=0.0
        )
        cloud.before_increase = self._before_increase
        cloud.before_delete = self._before_delete
        accounts.listeners.append(self._changed)

    @property
    def violations(self) -> list[Violation]:
        return self._findings.violations

    @property
    def excused(self) -> Counter[str]:
        return self._findings.excused

    def at_the_end(self) -> None:
        """When trouble is long over: whoever has a place is there, whoever could have one too."""
        self._bounds.check()
        self._waiting.at_the_end(settled=self._settled)
        self._gangs.at_the_end(settled=self._settled)
        self.placements.at_the_end()
        self.removals.at_the_end()
        self._kept_room.at_the_end(settled=self._settled)

    def _before_increase(self, group: str, delta: int) -> None:
        if self.placements.waiting:
            self._findings.excuse(NOT_COUNTED)
            return
        self._purchases.check(group, delta)
        if self._for_pods_alone:
            wishes = self._places.wishes()
            self.removals.check_purchase(group, wishes, quiet_since=self._quiet_since)

    def _before_delete(self, group: str, nodes: Sequence[str]) -> None:
        given_back = [name for name in nodes if self.removals.is_marked(name)]
        self.removals.check(given_back)
        self._deletions.check(group, [name for name in nodes if name not in given_back])

    def _changed(self, collection: Collection, occurrence: Occurrence) -> None:
        kind = collection.kind.plural
        self._disks.changed(kind, occurrence)
        self._bindings.changed(kind, occurrence)
        self.placements.changed(kind, occurrence)
        self._repeats.changed(kind, occurrence)
        self._deletions.changed(kind, occurrence)
        self.removals.changed(kind, occurrence)
        self._waiting.changed(kind, occurrence)
        self._gangs.changed(kind, occurrence)
        self._bookings.changed(kind, occurrence)
        self._bounds.check()
        if kind in _PLURALS:
            self._changed_at = self._ensemble.accounts.now

    def _assumed(self) -> Mapping[str, Reservation]:
        scheduler = self._ensemble.scheduler
        return scheduler.world.assumed if scheduler is not None else {}

    def _is_behind(self) -> bool:
        """Whether the autoscaler could not know better: it decided by what is no longer so.

        What changed at this very moment it may not have heard of when it decided, though it has by
        now. For longer it is excused only by a cut of the scenario's; then its caches are compared
        with what the API holds, object by object.
        """
        now, autoscaler = self._ensemble.accounts.now, self._ensemble.autoscaler
        if self._changed_at == now:
            return True
        if autoscaler is None or not any(begin <= now <= end for begin, end in self._cuts):
            return False
        store = self._ensemble.server.store
        for kind in _DECIDED_BY:
            cache = autoscaler.world.cache(kind)
            resource = cache.resource
            collection = store.collections[resource.group, resource.version, resource.plural]
            held = {one.metadata.uid: one.metadata.resource_version for one in cache}
            if held != {one.uid: one.meta["resourceVersion"] for one in collection.within()}:
                return True
        return False
