"""Which pod goes where: filters, then scores, pods of a kind together.

Pure deciding: pods are looked at in the order given, each decision is assumed before the next is
made, and nothing waits in between.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np

from tonnage.objects.storage import SELECTED_NODE_ANNOTATION, PersistentVolumeClaim
from tonnage.rules import pipeline, registry, volume_binding
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Code, Rejection
from tonnage.rules.pipeline import Verdicts
from tonnage.rules.volume_matching import Matching
from tonnage.scaleup import pod_groups
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.scheduler import node_scores
from tonnage.scheduler.config import Weights
from tonnage.scheduler.scheduler_cache import NOTHING_TO_BIND, SchedulerCache, VolumeChoice
from tonnage.service.booked_room import BookedRoom
from tonnage.snapshot.imagined import Footprint
from tonnage.snapshot.open_volumes import size_wanted
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.snapshot import PodRecord, Snapshot
from tonnage.snapshot.storage_ledger import size_of

_ZONAL_ROUNDS = 8
"""A burst that is spread over zones too is shared out in so many rounds: within one, only nodes
fill up."""

DEVICES = "resource claims (DynamicResources) are not supported by this scheduler"


class PlacedPod(NamedTuple):
    """A pod that has a node from now on."""

    record: PodRecord
    node: str
    volumes: VolumeChoice


class RefusedPod(NamedTuple):
    """A pod no node is there for, `by` these filters. An `error` is nobody's fault but ours.

    `codes` say for every row how it was refused, `alive` which rows are nodes.
    """

    record: PodRecord
    text: str
    by: frozenset[str]
    error: bool
    codes: Ints
    alive: Bools


class Placer:
    """Decides for one state of the cluster after the other, all in one snapshot."""

    def __init__(
        self,
        world: SchedulerCache,
        features: Features,
        weights: Weights,
        *,
        rng: np.random.Generator,
        booked: BookedRoom | None = None,
        together: bool = True,
    ) -> None:
        self._world = world
        self._booked = booked
        self._features = features
        self._weights = weights
        self._rng = rng
        self._together = together

    @property
    def _snapshot(self) -> Snapshot:
        return self._world.snapshot

    def decide(self, records: Iterable[PodRecord]) -> Iterator[PlacedPod | RefusedPod]:
        """For each of the pods, in the order given as far as their priorities go."""
        for _, alike in groupby(records, key=lambda record: record.pod_class.priority):
            for group in self._groups(list(alike)):
                yield from self._place(group)

    def _groups(self, records: list[PodRecord]) -> list[PodGroup]:
        if self._together and len(records) > 1:
            own = [record for record in records if _has_own_node(record)]
            others = [record for record in records if not _has_own_node(record)]
            counted = tuple(self._snapshot.storage_ledger.class_names)
            # Pods that take booked room are not like others, though no rule tells them apart.
            parts = {} if self._booked is None else self._booked.consumers
            groups = pod_groups.group(self._snapshot, others, ledger=counted, parts=parts)
            return [*map(_alone, own), *groups]
        return [_alone(record) for record in records]

    def _place(self, group: PodGroup) -> Iterator[PlacedPod | RefusedPod]:
        if group.sample.pod_class.wants_devices:
            yield from (self._refuse_devices(record) for record in group.members)
        elif (
            group.size == 1
            or group.tracked
            or group.interacting
            or self._shares_storage(group)
            or _follows_by_name(self._snapshot, group.sample)
        ):
            yield from self._one_by_one(group)
        else:
            yield from self._many(group)

    def _shares_storage(self, group: PodGroup) -> bool:
        """Whether a pod takes of what other nodes have too, so that these have to be asked anew."""
        return self._snapshot.storage_ledger.shares(group.footprint.storage)

    def _one_by_one(self, group: PodGroup) -> Iterator[PlacedPod | RefusedPod]:
        for number, record in enumerate(group.members):
            verdicts = self._evaluate(record)
            rows = np.flatnonzero(verdicts.fits)
            if not len(rows):
                # Nothing has changed for the others, who are the same to every filter.
                yield from self._refuse(verdicts, group.members[number:])
                return
            yield self._assume(record, self._best(record, rows))

    def _many(self, group: PodGroup) -> Iterator[PlacedPod | RefusedPod]:
        left = deque(group.members)
        step = 0
        while left:
            sample = left[0]
            verdicts = self._evaluate(sample)
            rows = np.flatnonzero(verdicts.fits)
            if not len(rows):
                yield from self._refuse(verdicts, left)
                return
            scores = self._scores(sample, rows)
            step = step or (-(-len(left) // _ZONAL_ROUNDS) if scores.zonal else len(left))
            room = np.maximum(
                registry.room(self._snapshot, group.footprint, rows, self._features), 1
            )
            room[self._promised(rows)] = 1
            counts = node_scores.share_out(scores, room, min(step, len(left)), self._rng)
            for row in np.repeat(rows, counts).tolist():
                yield self._assume(left.popleft(), row)

    def _evaluate(self, record: PodRecord) -> Verdicts:
        if self._booked is not None:
            return self._booked.evaluate(record, self._features)
        return pipeline.evaluate(self._snapshot, record, self._features)

    def _best(self, record: PodRecord, rows: Ints) -> int:
        nominated = self._snapshot.nodes.get(record.nominated)
        if nominated is not None and nominated.row in rows:
            return nominated.row
        if len(rows) == 1:
            return int(rows[0])
        one = np.ones(len(rows), dtype=np.int64)
        counts = node_scores.share_out(self._scores(record, rows), one, 1, self._rng)
        return int(rows[counts.argmax()])

    def _scores(self, record: PodRecord, rows: Ints) -> node_scores.Scores:
        pod = self._world.pod(record.key)
        wishes = node_scores.spread_wishes(record.pod_class, pod) if pod is not None else ()
        ask = Ask(self._snapshot, record, self._features)
        return node_scores.Scores(ask, wishes, self._weights, rows=rows)

    def _promised(self, rows: Ints) -> Bools:
        """Rows with room set aside for others: there the filters must be asked pod by pod."""
        nodes = self._snapshot.nodes
        names = set(self._snapshot.nominated_pods)
        if self._booked is not None:
            names |= self._booked.nodes()
        promised = [nodes[name].row for name in names if name in nodes]
        return np.isin(rows, promised)

    def _assume(self, record: PodRecord, row: int) -> PlacedPod:
        choice = _volumes_for(self._snapshot, record, row, self._features)
        node = self._snapshot.name_of(row)
        self._world.assume(record, node, choice)
        if self._booked is not None:
            self._booked.taken_by(record)
        ledger, one = self._snapshot.storage_ledger, np.ones(1, dtype=np.int64)
        for claim in choice.provision:
            ledger.take(np.array([row]), one, {claim.class_name: size_of(claim)})
        return PlacedPod(record, node, choice)

    def _refuse(self, verdicts: Verdicts, records: Iterable[PodRecord]) -> Iterator[RefusedPod]:
        alive = self._snapshot.table.alive.data[: len(verdicts.codes)].copy()
        codes = verdicts.codes.astype(np.int64)
        text = verdicts.summary()
        error = bool((codes[alive] == Code.ERROR).any())
        if verdicts.rejection is not None:
            by = frozenset((verdicts.rejection[1],))
        else:
            by = frozenset(refusal.plugin for refusal in verdicts.refusals() if refusal.plugin)
        for record in records:
            yield RefusedPod(record, text, by, error, codes, alive)

    def _refuse_devices(self, record: PodRecord) -> RefusedPod:
        nodes = len(self._snapshot.nodes)
        size = self._snapshot.table.size
        return RefusedPod(
            record,
            f"0/{nodes} nodes are available: {DEVICES}.",
            frozenset(("DynamicResources",)),
            False,
            np.full(size, Code.UNRESOLVABLE, dtype=np.int64),
            self._snapshot.table.alive.data[:size].copy(),
        )


def _has_own_node(record: PodRecord) -> bool:
    """Whether the pod is for one node, or is promised one, which its likes are not."""
    return record.pin is not None or bool(record.nominated)


def _alone(record: PodRecord) -> PodGroup:
    return PodGroup([record], Footprint(record.pod_class, {}), tracked=True)


def _volumes_for(
    snapshot: Snapshot, record: PodRecord, row: int, features: Features
) -> VolumeChoice:
    """Volumes for the claims that wait for their pod to have a node, which is the one on the row.

    The filters have said that it can serve them, and the same matching says with which volumes. A
    claim without a volume to take gets a new one.
    """
    if not record.volumes:
        return NOTHING_TO_BIND
    ask = Ask(snapshot, record, features)
    waiting = _waiting(ask)
    if not waiting:
        return NOTHING_TO_BIND
    provision = [one for one in waiting if SELECTED_NODE_ANNOTATION in one.metadata.annotations]
    searching = [one for one in waiting if one not in provision]
    matching = Matching(ask)
    prebind = []
    # In the filter's order, or a volume might go to another claim than it thought.
    for claim in sorted(searching, key=size_wanted):
        matching.unserved(claim)
        volume = matching.volume_for(claim, row)
        if volume is None:
            provision.append(claim)
        else:
            prebind.append((volume, claim))
    return VolumeChoice(tuple(prebind), tuple(provision))


def _follows_by_name(snapshot: Snapshot, record: PodRecord) -> bool:
    """Whether volumes that exist may be taken, so that each pod changes what the next finds."""
    return any(
        snapshot.storage.open_volumes(claim.class_name).none
        or snapshot.storage.reserved_for(claim.metadata.namespace, claim.metadata.name)
        for claim in _claims(snapshot, record)
        if not claim.spec.volume_name
    )


def _waiting(ask: Ask) -> list[PersistentVolumeClaim]:
    sorted_out = volume_binding.sort_out(ask, _claims(ask.snapshot, ask.pod))
    return [] if isinstance(sorted_out, Rejection) else sorted_out.waiting


def _claims(snapshot: Snapshot, record: PodRecord) -> list[PersistentVolumeClaim]:
    names = dict.fromkeys(volume.claim for volume in record.volumes if volume.claim)
    found = (snapshot.storage.claim(record.meta.namespace, name) for name in names)
    return [claim for claim in found if claim is not None]
