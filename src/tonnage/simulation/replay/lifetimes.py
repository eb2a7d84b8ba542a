"""How long pods took for a piece of work, from the moment they ran to their success."""

from collections import defaultdict
from collections.abc import Set
from typing import Any

from tonnage.objects import timestamps
from tonnage.traces.reader import TraceEvent

_FOR_EVER = 86_400.0 * 365


class PodLifetimes:
    """Fed with every event of a trace; a pod that failed or was taken away did no piece of work.

    `of_owner` has the times of each owner's pods, in the order in which the pods came.
    """

    def __init__(self, began: float) -> None:
        self._began = began
        self._running: dict[str, float] = {}
        self._order: defaultdict[str, list[str]] = defaultdict(list)
        self.of_pod: dict[str, float] = {}
        """By uid."""

    def feed(self, event: TraceEvent) -> None:
        if event.kind is None or event.kind.plural != "pods" or event.after is None:
            return
        pod, uid = event.after, event.after["metadata"].get("uid", event.name)
        if event.before is None:
            for owner in pod["metadata"].get("ownerReferences") or ():
                if owner.get("controller"):
                    self._order[owner.get("uid", "")].append(uid)
        phase = pod.get("status", {}).get("phase")
        if phase == "Running" and uid not in self._running:
            self._running[uid] = self._since(pod, event.at)
        elif phase == "Succeeded" and uid not in self.of_pod and uid in self._running:
            self.of_pod[uid] = max(event.at - self._running[uid], 0.0)

    def of_owner(self, uid: str, *, without: Set[str] = frozenset()) -> list[float]:
        """What its pods took, but for some of them and those that did not finish."""
        return [
            self.of_pod[pod]
            for pod in self._order.get(uid, ())
            if pod in self.of_pod and pod not in without
        ]

    def unfinished(self, uid: str) -> bool:
        """Whether a pod of the owner was still at it when the trace ended."""
        return any(pod not in self.of_pod for pod in self._order.get(uid, ()))

    def _since(self, pod: dict[str, Any], at: float) -> float:
        """When it began to run; one that ran before the recording says so itself."""
        told = pod.get("status", {}).get("startTime")
        if at > 0 or not told:
            return at
        try:
            return timestamps.parse(told) - self._began
        except ValueError:
            return at


def annotation(times: list[float], *, unfinished: bool) -> str:
    """As `tonnage.dev/runs-for` takes it: a time for each pod, the last one for all further."""
    shown = [f"{seconds:.3f}s" for seconds in times]
    if unfinished:
        shown.append(f"{_FOR_EVER:.0f}s")
    return ",".join(shown)
