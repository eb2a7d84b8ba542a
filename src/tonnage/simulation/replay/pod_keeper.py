"""Pods whose controllers nobody plays: made again when the replay evicts or loses them.

Of a controller that is not known here (an operator's, say) a trace shows only the pods. They come
and go as recorded; between the two they are made again, as their controller would.
"""

import asyncio
from typing import Any

from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.objects.pods import FINISHED
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import ScenarioAction

KEPT = "tonnage.dev/replay-keeps"
"""Annotation of pods that are made again."""

_AFTER = 1.0
"""Seconds from the end of a pod to its successor."""
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")


class PodKeeper:
    """Looks on; what the script deletes stays deleted."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self._meant: set[str] = set()
        self._making: set[asyncio.Task[None]] = set()
        ensemble.on_action = self._acted
        ensemble.server.store.observers.append(self._changed)

    def _acted(self, _: float, action: ScenarioAction) -> None:
        for target in action.delete or ():
            if target.kind == "Pod":
                self._meant.add(f"{target.namespace}/{target.name}")
        for tree in action.apply or ():
            if tree["kind"] == "Pod":
                meta = tree["metadata"]
                self._meant.discard(f"{meta.get('namespace', 'default')}/{meta['name']}")

    def _changed(self, collection: Collection, occurrence: Occurrence) -> None:
        if collection.kind.plural != "pods" or occurrence.after is not None:
            return
        gone = occurrence.subject
        if KEPT not in (gone.meta.get("annotations") or {}):
            return
        if gone.tree.get("status", {}).get("phase") in FINISHED:
            return
        if f"{gone.namespace}/{gone.name}" in self._meant:
            return
        making = asyncio.get_running_loop().create_task(self._make(_again(gone.tree)))
        self._making.add(making)
        making.add_done_callback(self._making.discard)

    async def _make(self, tree: dict[str, Any]) -> None:
        await self._ensemble.clock.sleep(_AFTER)
        meta = tree["metadata"]
        if f"{meta['namespace']}/{meta['name']}" not in self._meant:
            self._ensemble.manifests.apply(tree)


def _again(pod: dict[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in pod["metadata"].items() if key not in _SERVER_FIELDS}
    meta.pop("deletionGracePeriodSeconds", None)
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
