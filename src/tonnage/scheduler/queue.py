"""Pods that wait for a node: whose turn it is, who backs off, and who waits for a cure.

A pod that was refused is not tried again before something happens that can cure the refusal, and
not before its backoff is over either. The queue knows no cluster and no clock: it is told both.
"""

import heapq
from collections.abc import Callable, Iterable
from enum import Enum

import msgspec

from tonnage.scheduler.config import SchedulerConfig


class QueuePlace(Enum):
    """Where a pod is in the queue; the values are kube-scheduler's names of its queues."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    TRIED = "tried"
    """Taken out to be scheduled, and not heard of yet."""


class QueuedPod(msgspec.Struct, kw_only=True, eq=False):
    """A pod that waits. `refused_by` are the filters in its way; none means that anything helps."""

    key: str
    uid: str
    priority: int
    arrived: float
    order: int
    place: QueuePlace = QueuePlace.ACTIVE
    attempts: int = 0
    refused_by: frozenset[str] = frozenset()
    since: float = 0.0
    """When it was last refused, or failed."""


class SchedulingQueue:
    """Every pod that waits is in exactly one place; the heaps may hold stale entries besides."""

    def __init__(self) -> None:
        self.config = SchedulerConfig()
        """Of which the backoffs, and how long to wait for a cure, are of interest here."""
        self._pods: dict[str, QueuedPod] = {}
        self._active: list[tuple[int, int, str]] = []
        self._backoff: list[tuple[float, int, str]] = []
        self._refused: dict[str, dict[str, None]] = {}
        """Keys of unschedulable pods by what refused them; the empty name is "anything helps"."""
        self._orders = 0

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, key: str) -> QueuedPod | None:
        return self._pods.get(key)

    def counts(self) -> dict[QueuePlace, int]:
        found = dict.fromkeys(QueuePlace, 0)
        for pod in self._pods.values():
            found[pod.place] += 1
        return found

    def refusals(self) -> dict[str, int]:
        """How many unschedulable pods each filter stands in the way of."""
        return {name: len(keys) for name, keys in self._refused.items() if name and keys}

    def add(self, key: str, *, uid: str, priority: int, now: float, gated: bool = False) -> None:
        """Take in a pod that has not been tried yet; one under the same name is forgotten."""
        self.remove(key)
        pod = QueuedPod(key=key, uid=uid, priority=priority, arrived=now, order=self._next())
        self._pods[key] = pod
        if gated:
            pod.place = QueuePlace.GATED
        else:
            self._activate(pod)

    def remove(self, key: str) -> None:
        pod = self._pods.pop(key, None)
        if pod is not None:
            self._leave(pod)
            self._forget_stale()

    def clear(self) -> None:
        for key in list(self._pods):
            self.remove(key)
        self._active.clear()
        self._backoff.clear()

    def changed(self, key: str, *, gated: bool, now: float) -> None:
        """The pod itself is another now, which may cure anything."""
        pod = self._pods.get(key)
        if pod is None or pod.place is QueuePlace.TRIED:
            return
        if gated:
            self._leave(pod)
            pod.place = QueuePlace.GATED
        elif pod.place in (QueuePlace.UNSCHEDULABLE, QueuePlace.GATED):
            self._let_go(pod, now)

    def pop(self, limit: int, *, now: float) -> list[QueuedPod]:
        """The pods whose turn it is: the most important first, then who has waited longest."""
        self._let_time_pass(now)
        taken: list[QueuedPod] = []
        while self._active and len(taken) < limit:
            _, order, key = heapq.heappop(self._active)
            if not self._is_in(QueuePlace.ACTIVE, order, key):
                continue
            pod = self._pods[key]
            pod.place = QueuePlace.TRIED
            pod.attempts += 1
            taken.append(pod)
        return taken

    def refused(self, key: str, by: Iterable[str], *, now: float) -> None:
        """No node for a pod that was taken out: it waits for a cure."""
        pod = self._pods.get(key)
        if pod is None or pod.place is not QueuePlace.TRIED:
            return
        pod.place, pod.since, pod.order = QueuePlace.UNSCHEDULABLE, now, self._next()
        pod.refused_by = frozenset(by)
        for name in pod.refused_by or ("",):
            self._refused.setdefault(name, {})[key] = None

    def give_back(self, key: str) -> None:
        """A pod that was taken out and not tried after all: it keeps its turn."""
        pod = self._pods.get(key)
        if pod is not None and pod.place is QueuePlace.TRIED:
            pod.attempts -= 1
            self._activate(pod)

    def failed(self, key: str, *, now: float) -> None:
        """Something went wrong with a pod that was taken out: try again after its backoff."""
        pod = self._pods.get(key)
        if pod is not None and pod.place is QueuePlace.TRIED:
            pod.since, pod.order = now, self._next()
            self._back_off(pod)

    def wake(
        self, cured: Iterable[str], worth: Callable[[str, QueuedPod], bool], *, now: float
    ) -> int:
        """Something happened that can cure what these filters refuse; how many wake up.

        `worth` is asked for each pod, with the filter's name, whether it is worth another try.
        """
        woken = 0
        for name in (*cured, ""):
            for key in list(self._refused.get(name, ())):
                pod = self._pods[key]
                if not name or worth(name, pod):
                    self._let_go(pod, now)
                    woken += 1
        return woken

    def next_in(self, now: float) -> float | None:
        """Seconds until a pod can be taken out; `None` if only a change can bring one."""
        while self._active:
            _, order, key = self._active[0]
            if self._is_in(QueuePlace.ACTIVE, order, key):
                return 0.0
            heapq.heappop(self._active)
        moments = [self._backoff[0][0]] if self._backoff else []
        flush = self.config.unschedulable_flush
        moments.extend(pod.since + flush for pod in self._longest_refused())
        return max(min(moments) - now, 0.0) if moments else None

    def _longest_refused(self) -> list[QueuedPod]:
        """Of each filter the pod it refused first: they are held in that order."""
        return [self._pods[next(iter(keys))] for keys in self._refused.values()]

    def _let_time_pass(self, now: float) -> None:
        while self._backoff and self._backoff[0][0] <= now:
            _, order, key = heapq.heappop(self._backoff)
            if self._is_in(QueuePlace.BACKOFF, order, key):
                self._activate(self._pods[key])
        flush = self.config.unschedulable_flush
        while overdue := [p for p in self._longest_refused() if p.since + flush <= now]:
            for pod in overdue:
                if pod.place is QueuePlace.UNSCHEDULABLE:
                    self._let_go(pod, now)

    def _let_go(self, pod: QueuedPod, now: float) -> None:
        """Try the pod again: at once if its backoff is over."""
        self._leave(pod)
        if pod.attempts and self._ends(pod) > now:
            self._back_off(pod)
        else:
            self._activate(pod)

    def _ends(self, pod: QueuedPod) -> float:
        doubled = self.config.pod_initial_backoff * 2.0 ** min(max(pod.attempts - 1, 0), 30)
        return pod.since + min(doubled, self.config.pod_max_backoff)

    def _activate(self, pod: QueuedPod) -> None:
        pod.place = QueuePlace.ACTIVE
        heapq.heappush(self._active, (-pod.priority, pod.order, pod.key))

    def _back_off(self, pod: QueuedPod) -> None:
        pod.place = QueuePlace.BACKOFF
        heapq.heappush(self._backoff, (self._ends(pod), pod.order, pod.key))

    def _leave(self, pod: QueuedPod) -> None:
        if pod.place is not QueuePlace.UNSCHEDULABLE:
            return
        for name in pod.refused_by or ("",):
            keys = self._refused[name]
            keys.pop(pod.key, None)
            if not keys:
                del self._refused[name]

    def _forget_stale(self) -> None:
        """Nobody takes pods out of the queue of a replica that stands by, but they go all the same.

        A heap is gone through when it has doubled at least, so that a pod costs little.
        """
        if len(self._active) > 2 * len(self._pods):
            self._active = [one for one in self._active if self._is_in(QueuePlace.ACTIVE, *one[1:])]
            heapq.heapify(self._active)
        if len(self._backoff) > 2 * len(self._pods):
            self._backoff = [
                one for one in self._backoff if self._is_in(QueuePlace.BACKOFF, *one[1:])
            ]
            heapq.heapify(self._backoff)

    def _is_in(self, place: QueuePlace, order: int, key: str) -> bool:
        """Whether an entry of a heap still holds."""
        pod = self._pods.get(key)
        return pod is not None and pod.place is place and pod.order == order

    def _next(self) -> int:
        self._orders += 1
        return self._orders
