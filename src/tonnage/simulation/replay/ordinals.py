"""Numbers of StatefulSets' pods in an anonymised trace, read from a label that keeps them.

`db-0` became `xyz-bcd`; the label `apps.kubernetes.io/pod-index` still says 0. A StatefulSet would
not know the pod by its new name, nor the pod its claim.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from tonnage.objects.labels import POD_INDEX_LABEL
from tonnage.traces.reader import TraceEvent, TraceFiles

Tree: TypeAlias = dict[str, Any]


def restored(trace: TraceFiles) -> Iterator[TraceEvent]:
    """The events with the numbers in the names of such pods and their claims."""
    numbers: dict[str, str] = {}
    stems: set[str] = set()
    for event in trace.events():
        if event.kind is None or event.after is None:
            continue
        meta = event.after["metadata"]
        if event.kind.plural == "pods":
            index = (meta.get("labels") or {}).get(POD_INDEX_LABEL)
            if index is not None:
                numbers[meta["name"].rpartition("-")[2]] = index
        elif event.kind.plural == "statefulsets":
            name = meta["name"]
            stems.add(name)
            for template in event.after.get("spec", {}).get("volumeClaimTemplates") or ():
                stems.add(f"{template['metadata'].get('name', '')}-{name}")
    names = _Names(numbers, stems)
    for event in trace.events():
        yield names.restored(event)


class _Names:
    def __init__(self, numbers: dict[str, str], stems: set[str]) -> None:
        self._numbers = numbers
        self._stems = stems

    def restored(self, event: TraceEvent) -> TraceEvent:
        if event.kind is None or event.kind.plural not in _TREES:
            return event
        change = _TREES[event.kind.plural]
        namespace, slash, name = event.name.rpartition("/")
        return msgspec.structs.replace(
            event,
            name=namespace + slash + (name if event.kind.plural == _VOLUMES else self.of(name)),
            before=change(self, event.before) if event.before is not None else None,
            after=change(self, event.after) if event.after is not None else None,
        )

    def of(self, name: str) -> str:
        stem, _, code = name.rpartition("-")
        number = self._numbers.get(code)
        return f"{stem}-{number}" if number is not None and stem in self._stems else name

    def renamed(self, tree: Tree) -> Tree:
        meta = tree["metadata"]
        return {**tree, "metadata": {**meta, "name": self.of(meta["name"])}}

    def pod(self, tree: Tree) -> Tree:
        tree = self.renamed(tree)
        spec = tree.get("spec", {})
        volumes = [self._volume(one) for one in spec.get("volumes") or ()]
        return {**tree, "spec": {**spec, "volumes": volumes}} if volumes else tree

    def _volume(self, volume: Tree) -> Tree:
        claim = volume.get("persistentVolumeClaim")
        if not isinstance(claim, dict) or "claimName" not in claim:
            return volume
        claimed = {**claim, "claimName": self.of(claim["claimName"])}
        return {**volume, "persistentVolumeClaim": claimed}

    def volume(self, tree: Tree) -> Tree:
        spec = tree.get("spec", {})
        claim = spec.get("claimRef")
        if not isinstance(claim, dict) or "name" not in claim:
            return tree
        return {**tree, "spec": {**spec, "claimRef": {**claim, "name": self.of(claim["name"])}}}


_VOLUMES = "persistentvolumes"
_TREES = {
    "pods": _Names.pod,
    "persistentvolumeclaims": _Names.renamed,
    _VOLUMES: _Names.volume,
}
