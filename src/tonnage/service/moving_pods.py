"""Places of pods that scale-down moves, for everybody who puts pods on nodes.

A node that is drained carries a note of its pods: what each takes, and which node the pod that
comes in its stead is to have. The note is written with the mark, before the first eviction, and it
goes with the node. Whoever reads it holds each place from then on, by an entry of the reservations
and a pod in the snapshot that stands for the one to come and is nominated for the node: until that
one is there, until the drain is called off, or until the time of the note is over.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from tonnage.clock import Clock
from tonnage.cluster.watch_events import Change, EventType
from tonnage.objects import timestamps
from tonnage.objects.meta import ObjectMeta, Record
from tonnage.objects.nodes import Node
from tonnage.objects.pods import FINISHED, Pod, PodSpec
from tonnage.service.live_cluster import LiveCluster
from tonnage.snapshot.records import PodRecord
from tonnage.snapshot.reservations import Reservation, Reservations, Source

NOTE = "tonnage.dev/moving-pods"

COMES_WITHIN = 120.0
"""Seconds after the end of a pod in which the next one should be there, and get its place."""

_LONGEST = 3600.0
"""Seconds that a note is believed, whatever it says."""

_MOST_BYTES = 128 << 10
"""Of a note; a node has 256 KiB for all annotations. Places beyond it are held when pods come."""

_SKEW = 60.0
"""Seconds by which the clocks of two machines may differ."""

_SUCCESSOR = ":next"
"""What the pod to come is known by until it has a name of its own; no pod is called so."""

_log = logging.getLogger(__name__)


class _NotedPod(Record, frozen=True, kw_only=True):
    node: str
    """Where the next one is to go."""
    pod: Pod


class _Note(Record, frozen=True, kw_only=True):
    since: float
    until: float
    pods: tuple[_NotedPod, ...] = ()


def note(moves: Iterable[tuple[Pod, str]], *, now: float, until: float) -> str:
    """The note of a node whose pods move to other nodes; empty if nobody comes in their stead."""
    parts = [
        _NotedPod(node=node, pod=_reduced(pod))
        for pod, node in moves
        if pod.metadata.controller is not None
    ]
    size = 0
    kept = []
    for part in parts:
        size += len(msgspec.json.encode(part)) + 1
        if size <= _MOST_BYTES:
            kept.append(part)
    if not kept:
        return ""
    return msgspec.json.encode(_Note(since=now, until=until, pods=tuple(kept))).decode()


def successor(pod: Pod) -> Pod:
    """One that stands for the pod that is to come in the stead of this one."""
    meta = msgspec.structs.replace(
        pod.metadata,
        name=f"{pod.metadata.name}{_SUCCESSOR}",
        uid=f"{pod.metadata.uid}{_SUCCESSOR}",
        deletion_timestamp=None,
    )
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return msgspec.structs.replace(pod, metadata=meta, spec=spec)


def _reduced(pod: Pod) -> Pod:
    """What others have to know of a pod to leave it its place, and whose it is."""
    meta, spec = pod.metadata, pod.spec
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            labels=meta.labels,
            owner_references=tuple(one for one in meta.owner_references if one.controller),
        ),
        spec=PodSpec(
            containers=spec.containers,
            init_containers=spec.init_containers,
            volumes=spec.volumes,
            affinity=spec.affinity,
            resources=spec.resources,
            overhead=spec.overhead,
            priority=spec.priority,
            host_network=spec.host_network,
        ),
    )


class _Move(NamedTuple):
    """A pod that moves: `pod` is the one that leaves, `at` the node it leaves, `to` its place."""

    pod: Pod
    at: str
    to: str
    since: float
    """By the clock of the cluster."""
    until: float

    @property
    def controller(self) -> tuple[str, str]:
        return _controller(self.pod)

    @property
    def name(self) -> str:
        """Of the pod that will come, if it is known."""
        controller = self.pod.metadata.controller
        is_set = controller is not None and controller.kind == "StatefulSet"
        return self.pod.metadata.name if is_set else ""


class MovingPods:
    """Every entry of the source `MOVING` is made and ended here.

    Its holder is the pod to come: by a name of our own until it is there, then by its own, and it
    counts as nominated for its place.
    """

    def __init__(
        self,
        live: LiveCluster,
        reservations: Reservations,
        *,
        clock: Clock,
        freed: Callable[[PodRecord], None] = lambda _: None,
    ) -> None:
        """`freed` is told of places that nobody came for."""
        self._live = live
        self._reservations = reservations
        self._clock = clock
        self.freed = freed
        self._notes: dict[str, str] = {}
        """As they were last read, by node."""
        self._moves: dict[str, _Move] = {}
        """By the uid of the pod that leaves."""
        self._by_controller: dict[tuple[str, str], list[str]] = {}
        self._behind = True
        """Whether notes were not read yet: who is gone is known once all pods are."""
        self._come: set[str] = set()
        """The uids of pods that were there before we heard of the moves they end."""
        live.cache(Node).subscribe(self._take_node)
        live.cache(Pod).subscribe(self._take_pod)

    def __len__(self) -> int:
        """How many places are held for pods that are not there yet."""
        return len(self._moves)

    def place_of(self, key: str, uid: str) -> str:
        """The node that is kept for a pod that has come; empty if none is."""
        entry = self._reservations.get(key, Source.MOVING)
        return entry.node if entry is not None and entry.uid == uid else ""

    def counted(self, pod: Pod) -> Pod:
        """The pod as it counts: nominated for its place, unless the server says something else."""
        if pod.spec.node_name or pod.status.nominated_node_name:
            return pod
        place = self.place_of(pod.metadata.key, pod.metadata.uid)
        return _nominated(pod, place) if place else pod

    def expire(self) -> None:
        """Let go the places whose time is over; to be asked before anybody is placed."""
        if self._behind and self._known:
            self.start_over()
        now = self._clock.monotonic()
        for uid, move in list(self._moves.items()):
            if move.until <= now:
                self._forget(uid, freed=True)
        for entry in list(self._reservations.of(Source.MOVING)):
            if entry.until is not None and entry.until <= now:
                self._reservations.release(entry.holder, Source.MOVING)
                record = self._live.snapshot.pods.get(entry.holder)
                self._recount(entry.holder)
                if record is not None:
                    self.freed(record)

    def start_over(self) -> None:
        """Hold what the cluster says now, in a snapshot that was built anew."""
        for uid in list(self._moves):
            self._forget(uid)
        for entry in list(self._reservations.of(Source.MOVING)):
            self._reservations.release(entry.holder, Source.MOVING)
        self._notes.clear()
        self._come.clear()
        self._behind = not self._known
        for node in self._live.cache(Node):
            self._take_node(Change(EventType.MODIFIED, node))

    @property
    def _known(self) -> bool:
        return self._live.cache(Node).synced and self._live.cache(Pod).synced

    # Notes.

    def _take_node(self, change: Change[Node]) -> None:
        if self._behind:
            return
        node = change.object
        name = node.metadata.name
        gone = change.type is EventType.DELETED
        told = "" if gone else node.metadata.annotations.get(NOTE, "")
        if self._notes.get(name, "") == told:
            return
        if told:
            self._notes[name] = told
        else:
            self._notes.pop(name, None)
            if not self._notes:
                self._come.clear()
        noted = {one.metadata.uid: (one, to, since, until) for one, to, since, until in _read(node)}
        for uid, move in list(self._moves.items()):
            if move.at == name and (gone or uid not in noted):
                # The drain is called off, or over; who is on the way still has a place for a while.
                self._end(uid) if self._is_leaving(move) else self._forget(uid, freed=True)
        if told and not gone:
            for pod, to, since, until in noted.values():
                self._expect(_Move(pod, name, to, since, until))

    def _expect(self, move: _Move) -> None:
        uid = move.pod.metadata.uid
        left = min(move.until - self._clock.now().timestamp(), _LONGEST)
        until = self._clock.monotonic() + left
        known = self._moves.get(uid)
        if left <= 0:
            return
        move = move._replace(until=until)
        if known is None and self._is_leaving(move):
            if self._has_come(move):
                return
            if self._old(move) is None:
                move = move._replace(until=min(until, self._clock.monotonic() + COMES_WITHIN))
        elif known is not None:
            if known.to == move.to:
                if self._old(known) is not None:
                    self._moves[uid] = known._replace(until=until)
                return
            self._forget(uid)
        self._hold(uid, move)

    def _hold(self, uid: str, move: _Move) -> None:
        self._moves[uid] = move
        self._by_controller.setdefault(move.controller, []).append(uid)
        pod = _nominated(successor(move.pod), move.to)
        try:
            self._live.snapshot.put_pod(pod)
        except Exception as error:
            _log.warning(
                "place of a moving pod not held",
                extra={"pod": move.pod.metadata.key, "error": str(error)},
            )
            return
        meta, now = pod.metadata, self._clock.monotonic()
        self._reservations.hold(
            Reservation(meta.key, Source.MOVING, now, move.until, node=move.to, uid=meta.uid)
        )

    def _forget(self, uid: str, *, freed: bool = False) -> None:
        move = self._moves.pop(uid, None)
        if move is None:
            return
        others = self._by_controller[move.controller]
        others.remove(uid)
        if not others:
            del self._by_controller[move.controller]
        meta = successor(move.pod).metadata
        self._reservations.release(meta.key, Source.MOVING)
        record = self._live.snapshot.pods.get(meta.key)
        if record is not None:
            self._live.snapshot.drop_pod(meta.namespace, meta.name)
            if freed:
                self.freed(record)

    def _end(self, uid: str) -> None:
        """The next pod should be there soon."""
        move = self._moves[uid]
        end = min(move.until, self._clock.monotonic() + COMES_WITHIN)
        self._moves[uid] = move._replace(until=end)

    # Pods.

    def _take_pod(self, change: Change[Pod]) -> None:
        if not self._moves:
            return
        pod = change.object
        gone = change.type is EventType.DELETED or pod.status.phase in FINISHED
        uid = pod.metadata.uid
        if uid in self._moves:
            if gone:
                self._end(uid)
        elif change.type is EventType.ADDED and not gone:
            uids = self._by_controller.get(_controller(pod), ())
            for old in list(uids):
                if self._suits(pod, self._moves[old]) and self._is_leaving(self._moves[old]):
                    self._arrived(pod, old)
                    return

    def _arrived(self, pod: Pod, old: str) -> None:
        """The pod takes the place that was held for it."""
        move = self._moves[old]
        self._forget(old)
        if pod.spec.node_name:
            return
        now = self._clock.monotonic()
        meta = pod.metadata
        self._reservations.hold(
            Reservation(
                meta.key, Source.MOVING, now, now + COMES_WITHIN, node=move.to, uid=meta.uid
            )
        )
        self._recount(meta.key)

    def _recount(self, key: str) -> None:
        pod = self._live.pod(key)
        if pod is not None:
            self._live.recount(pod)

    def _suits(self, pod: Pod, move: _Move) -> bool:
        return move.name in ("", pod.metadata.name)

    def _old(self, move: _Move) -> Pod | None:
        """The pod that moves, as long as it is there."""
        pod = self._live.pod(move.pod.metadata.key)
        same = pod is not None and pod.metadata.uid == move.pod.metadata.uid
        return pod if same and pod is not None and pod.status.phase not in FINISHED else None

    def _is_leaving(self, move: _Move) -> bool:
        old = self._old(move)
        return old is None or old.metadata.deletion_timestamp is not None

    def _has_come(self, move: _Move) -> bool:
        """Whether the next pod was there before we heard of the move.

        So it is after a restart of ours: it has a node, or takes its place now.
        """
        for pod in self._live.cache(Pod):
            if (
                _controller(pod) == move.controller
                and pod.metadata.uid not in (move.pod.metadata.uid, *self._come)
                and self._suits(pod, move)
                and (timestamps.moment(pod.metadata.creation_timestamp) or 0.0)
                >= move.since - _SKEW
            ):
                self._come.add(pod.metadata.uid)
                if not pod.spec.node_name:
                    uid = move.pod.metadata.uid
                    self._hold(uid, move)
                    self._arrived(pod, uid)
                return True
        return False


def _read(node: Node) -> Iterator[tuple[Pod, str, float, float]]:
    told = node.metadata.annotations.get(NOTE, "")
    if not told:
        return
    try:
        found = msgspec.json.decode(told, type=_Note)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        _log.warning(
            "note of moving pods not read",
            extra={"node": node.metadata.name, "error": str(error)},
        )
        return
    for one in found.pods:
        if one.pod.metadata.controller is not None and one.pod.metadata.uid:
            yield one.pod, one.node, found.since, found.until


def _controller(pod: Pod) -> tuple[str, str]:
    controller = pod.metadata.controller
    return (pod.metadata.namespace, controller.uid if controller is not None else "")


def _nominated(pod: Pod, node: str) -> Pod:
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, status=status)
