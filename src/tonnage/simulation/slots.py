"""Attach slots, counted plainly and apart from the code that decides, so that it can be judged by.

A volume takes a slot of a node once, as long as a pod of the node uses it or it is still attached
there. Volumes are known by their claims, which they have before they exist.
"""

from collections import Counter, defaultdict
from typing import NamedTuple

from tonnage.embedded.apiserver.store import ObjectStore, Stored
from tonnage.report.timeline import SlotSample


class Volume(NamedTuple):
    """A volume that can be attached."""

    driver: str
    identity: str


class SlotCounter:
    """Which volumes take slots where, and what CSINodes say of limits (`None`: no limit)."""

    def __init__(self, store: ObjectStore) -> None:
        self._claims = store.built_in("persistentvolumeclaims")
        self._volumes = store.built_in("persistentvolumes")
        self._classes = store.collections["storage.k8s.io", "v1", "storageclasses"]
        self._drivers = store.collections["storage.k8s.io", "v1", "csidrivers"]
        self._taken: defaultdict[str, defaultdict[str, Counter[str]]] = defaultdict(
            lambda: defaultdict(Counter)
        )
        self._attached: dict[str, tuple[str, Volume]] = {}
        self.limits: dict[str, dict[str, int | None]] = {}
        self._totals: list[SlotSample] | None = None
        """Unless something has changed since they were counted."""

    def used(self, node: str, driver: str) -> int:
        return len(self._taken[node][driver]) if node in self._taken else 0

    def holds(self, node: str, volume: Volume) -> bool:
        """Whether the volume has its slot on the node already."""
        return node in self._taken and volume.identity in self._taken[node][volume.driver]

    def by_node(self) -> list[tuple[str, str, int, int | None]]:
        """Node, driver, what is taken and the limit, wherever there is either."""
        pairs = {(node, driver) for node, drivers in self.limits.items() for driver in drivers}
        pairs |= {(node, driver) for node, taken in self._taken.items() for driver in taken}
        found = [
            (node, driver, self.used(node, driver), self.limits.get(node, {}).get(driver))
            for node, driver in sorted(pairs)
        ]
        return [one for one in found if one[3] is not None or self._attaches(one[1])]

    def totals(self) -> tuple[SlotSample, ...]:
        """Each driver over all nodes."""
        if self._totals is None:
            self._totals = self._counted()
        return tuple(
            one for one in self._totals if one.limit or (one.used and self._attaches(one.driver))
        )

    def _counted(self) -> list[SlotSample]:
        used: Counter[str] = Counter()
        limit: Counter[str] = Counter()
        free: Counter[str] = Counter()
        for node, drivers in self.limits.items():
            for driver, count in drivers.items():
                taken = self.used(node, driver)
                limit[driver] += count or 0
                free[driver] += max(count - taken, 0) if count is not None else 0
        for taken_here in self._taken.values():
            for driver, volumes in taken_here.items():
                used[driver] += len(volumes)
        return [
            SlotSample(driver=name, used=used[name], free=free[name], limit=limit[name])
            for name in sorted({*used, *limit})
        ]

    def volumes_of(self, pod: Stored) -> tuple[Volume, ...]:
        """What a pod attaches; a claim that nobody knows the driver of counts for nothing."""
        found = []
        for volume in pod.tree["spec"].get("volumes") or ():
            source = volume.get("persistentVolumeClaim")
            if source is not None:
                name = source["claimName"]
            elif "ephemeral" in volume:
                name = f"{pod.name}-{volume['name']}"
            else:
                continue
            driver = self._driver_of(pod.namespace, name)
            if driver:
                found.append(Volume(driver, f"{pod.namespace}/{name}"))
        return tuple(dict.fromkeys(found))

    def take(self, node: str, volume: Volume) -> None:
        self._totals = None
        self._taken[node][volume.driver][volume.identity] += 1

    def release(self, node: str, volume: Volume) -> None:
        self._totals = None
        held = self._taken[node][volume.driver]
        held[volume.identity] -= 1
        if held[volume.identity] <= 0:
            del held[volume.identity]

    def attachment_changed(self, before: Stored | None, after: Stored | None) -> None:
        if after is not None and before is None:
            spec = after.tree["spec"]
            volume = self.attached_volume(spec)
            self._attached[after.name] = (spec["nodeName"], volume)
            self.take(spec["nodeName"], volume)
        elif after is None and before is not None and before.name in self._attached:
            self.release(*self._attached.pop(before.name))

    def csi_node_changed(self, name: str, after: Stored | None) -> None:
        self._totals = None
        if after is None:
            self.limits.pop(name, None)
            return
        self.limits[name] = {
            entry["name"]: (entry.get("allocatable") or {}).get("count")
            for entry in (after.tree.get("spec") or {}).get("drivers") or ()
        }

    def _attaches(self, driver: str) -> bool:
        """Whether the driver's volumes need a slot at all, if it gives no limit."""
        found = self._drivers.get("", driver)
        return found is None or found.tree.get("spec", {}).get("attachRequired") is not False

    def _driver_of(self, namespace: str, name: str) -> str:
        claim = self._claims.get(namespace, name)
        if claim is None:
            return ""
        spec = claim.tree["spec"]
        volume = self._volumes.get("", spec.get("volumeName") or "")
        if volume is not None:
            return str((volume.tree["spec"].get("csi") or {}).get("driver", ""))
        found = self._classes.get("", spec.get("storageClassName") or "")
        return str(found.tree.get("provisioner", "")) if found is not None else ""

    def attached_volume(self, spec: dict[str, dict[str, str]]) -> Volume:
        """What the spec of a VolumeAttachment is about."""
        name = spec["source"].get("persistentVolumeName", "")
        volume = self._volumes.get("", name)
        claim = (volume.tree["spec"].get("claimRef") or {}) if volume is not None else {}
        known = f"{claim['namespace']}/{claim['name']}" if claim.get("name") else f"pv {name}"
        return Volume(str(spec["attacher"]), known)
