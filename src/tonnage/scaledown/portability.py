"""Pods by what another place must offer them: many can be placed at once, few need their name.

Pods of one kind differ in nothing that a destination could tell. A pod is followed by its name
where other pods have a say (spread, affinity), or its volumes do: shared between pods, attached
somewhere else, not bound yet, or the disk of an old plugin.
"""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from tonnage.objects import volumes
from tonnage.objects.volumes import PodVolume
from tonnage.rules import inter_pod_affinity, node_volume_limits, registry
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Rejection
from tonnage.scaleup import pod_groups
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.records import PodRecord
from tonnage.snapshot.rows import Bools
from tonnage.snapshot.snapshot import Snapshot

_BY_COUNT = frozenset(
    {
        "NodePorts",
        "NodeResourcesFit",
        "NodeVolumeLimits",
        "SlotPools",
        "PodTopologySpread",
        "InterPodAffinity",
    }
)
"""Rules that count: how many more fit is asked again for every placement."""


class PodKind(NamedTuple):
    """Pods that are as good as each other, and the rows that would take them if there is room."""

    footprint: Footprint
    rows: Bools
    size: float
    """The largest share of a common node that one of them takes: large ones are placed first."""


class PodKinds:
    """Kinds of pods, each worked out once for as long as the nodes stay what they are."""

    def __init__(self, snapshot: Snapshot, features: Features) -> None:
        self._snapshot = snapshot
        self._features = features
        self._kinds: dict[Hashable, PodKind] = {}
        # With the class itself: the number of one that is gone may come again.
        self._told_apart: dict[int, tuple[PodClass, bool]] = {}
        self._of_pod: dict[str, tuple[PodRecord, PodKind | None]] = {}
        columns = snapshot.columns
        alive = snapshot.table.alive.data[: snapshot.table.size]
        self._typical = {
            name: float(np.median(amounts))
            for number, name in enumerate(columns.resource_names)
            if (amounts := columns.allocatable[number].data[: len(alive)][alive]).size
            and amounts.max() > 0
        }

    def of(self, record: PodRecord) -> PodKind | None:
        """The kind of a pod; `None` if it is followed by its name."""
        known = self._of_pod.get(record.key)
        if known is not None and known[0] is record:
            return known[1]
        kind = self._find(record)
        self._of_pod[record.key] = (record, kind)
        return kind

    @property
    def size(self) -> int:
        """Pods whose kind is known."""
        return len(self._of_pod)

    def size_of(self, record: PodRecord) -> float:
        """The largest share of a common node that the pod requests."""
        return max(
            (
                amount / typical
                for name, amount in record.pod_class.requests.items()
                if (typical := self._typical.get(name))
            ),
            default=0.0,
        )

    def counted(self, record: PodRecord) -> PodKind:
        """What can be counted of a pod, also of one that is followed by its name."""
        return self._kind(record)

    def _find(self, record: PodRecord) -> PodKind | None:
        pods = record.pod_class
        apart = self._told_apart.get(id(pods))
        if apart is None:
            apart = self._told_apart[id(pods)] = (pods, self._has_say(record))
        if apart[1]:
            return None
        facts = self._volume_facts(record) if record.volumes else ()
        if facts is None:
            return None
        key = (id(pods), facts)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = self._kind(record)
        return kind

    def _has_say(self, record: PodRecord) -> bool:
        """Whether other pods have a say where the pod goes."""
        pods = record.pod_class
        if pods.spread or pods.affinity or pods.anti_affinity or pods.pinned:
            return True
        return inter_pod_affinity.may_be_refused(Ask(self._snapshot, record, self._features))

    def _volume_facts(self, record: PodRecord) -> tuple[Hashable, ...] | None:
        facts = []
        for volume in record.volumes:
            fact = self._volume_fact(record, volume)
            if fact is None:
                return None
            facts.append(fact)
        return tuple(facts)

    def _volume_fact(self, record: PodRecord, volume: PodVolume) -> Hashable | None:
        snapshot = self._snapshot
        if not volume.claim:
            return None
        claim = snapshot.storage.claim(record.meta.namespace, volume.claim)
        if claim is None or not claim.fully_bound or claim.metadata.deletion_timestamp is not None:
            return None
        if volume.ephemeral and not volumes.controlled_by(claim, record.meta):
            return None
        bound = snapshot.storage.volume(claim.spec.volume_name)
        if bound is None or claim.status.phase == "Lost":
            return None
        if len(snapshot.claim_users(record.meta.namespace, volume.claim)) > 1:
            return None
        found = volumes.use_of_claim(claim, snapshot.storage)
        if found is not None:
            use, _ = found
            elsewhere = {*snapshot.slots.users(use), *snapshot.slots.attachments(use)}
            if elsewhere - {record.row}:
                return None
        affinity = bound.spec.node_affinity.required if bound.spec.node_affinity else None
        return (
            claim.class_name,
            claim.spec.access_modes,
            None if found is None else (found[0].driver, found[1]),
            affinity,
            tuple(sorted(bound.metadata.labels.items())),
        )

    def _kind(self, record: PodRecord) -> PodKind:
        footprint = Footprint(record.pod_class, pod_groups.slots_of(self._snapshot, record))
        return PodKind(footprint, self._lasting_rows(record), self.size_of(record))

    def _lasting_rows(self, record: PodRecord) -> Bools:
        """Rows that no rule refuses but those that count."""
        snapshot = self._snapshot
        with snapshot.trial():
            # Its own use of its volumes must not speak against it.
            snapshot.drop_pod(record.meta.namespace, record.meta.name)
            ask = Ask(snapshot, record.moved_to(""), self._features)
            rows = snapshot.table.alive.data[: ask.size].copy()
            rows &= ~snapshot.columns.unschedulable.data[: ask.size]
            for rule in registry.rules(self._features):
                if rule.name in _BY_COUNT:
                    continue
                outcome = rule.pre_filter(ask)
                if isinstance(outcome, Rejection):
                    return np.zeros_like(rows)
                if outcome is None:
                    continue
                if outcome.only is not None:
                    named = np.zeros_like(rows)
                    named[
                        [snapshot.nodes[name].row for name in outcome.only & {*snapshot.nodes}]
                    ] = 1
                    rows &= named
                rows &= outcome.results().codes == 0
            if record.volumes:
                if ask.slots.problem is not None or ask.slots.migrated_problem is not None:
                    return np.zeros_like(rows)
                for lacking in node_volume_limits.missing_drivers(ask).values():
                    rows &= ~lacking
                rows[[row for row in snapshot.problem_pods if row < len(rows)]] = False
        return rows
