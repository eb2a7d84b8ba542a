"""How long things took in a trace, and what drivers reported: the world that a replay plays in."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from tonnage.embedded.world import Delay, DriverBehaviour, WorldBehaviour
from tonnage.objects import quantities
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.storage import SELECTED_NODE_ANNOTATION
from tonnage.traces.reader import TraceEvent

Tree: TypeAlias = dict[str, Any]

DEFAULTS = {
    "start": Delay(30.0),
    "podStart": Delay(2.0),
    "podStop": Delay(2.0),
    "provision": Delay(2.0),
    "attach": Delay(2.0),
    "detach": Delay(2.0),
    "registersAfter": Delay(5.0),
}
"""What is taken where the trace shows no case."""

_LONGEST = 1800.0
"""Seconds beyond which something was stuck, and is no measure."""


class WorldMeasurements:
    """Fed with every event; `world` afterwards. A delay is what four of five took, the fastest and
    the slowest tenth left out.
    """

    def __init__(self, group_of: Callable[[str, Tree], str]) -> None:
        self._group_of = group_of
        self._taken: defaultdict[str, list[float]] = defaultdict(list)
        self._since: dict[tuple[str, str], float] = {}
        self._ready: dict[str, float] = {}
        self._nodes: dict[str, Tree] = {}
        self._reported: dict[str, defaultdict[str, Counter[int | None]]] = {}
        """Limits by driver and group."""
        self._registrations: set[tuple[str, str]] = set()
        self._topology: dict[str, dict[str, str]] = {}
        self._capacity: dict[str, int] = {}
        self._classes: dict[str, str] = {}
        self._known = False

    def feed(self, event: TraceEvent) -> None:
        self._known = self._known or event.known
        if event.kind is None:
            return
        handler = _HANDLERS.get(event.kind.plural)
        if handler is not None:
            handler(self, event)

    @property
    def assumed(self) -> tuple[str, ...]:
        """Delays that no case in the trace tells."""
        return tuple(name for name in DEFAULTS if not self._taken[name])

    def world(self) -> WorldBehaviour:
        return WorldBehaviour(
            node_label="",
            start=self._delay("start"),
            pod_start=self._delay("podStart"),
            pod_stop=self._delay("podStop"),
            provision=self._delay("provision"),
            attach=self._delay("attach"),
            detach=self._delay("detach"),
            drivers=tuple(self._drivers()),
        )

    def _drivers(self) -> list[DriverBehaviour]:
        found = []
        for driver in sorted(self._reported):
            groups = self._reported[driver]
            capacity = self._capacity.get(driver)
            behaviour = DriverBehaviour(
                name=driver,
                registers_after=self._delay("registersAfter"),
                topology=self._topology.get(driver, {}),
                capacity=None if capacity is None else str(capacity),
                nodes=(),
            )
            for group in sorted(groups):
                limit = groups[group].most_common(1)[0][0]
                # Nodes of no group are not bought; whatever they had, they have in their CSINode.
                nodes = (group,) if group else ()
                found.append(msgspec.structs.replace(behaviour, limit=limit, nodes=nodes))
        return found

    def _delay(self, name: str) -> Delay:
        taken = sorted(self._taken[name])
        if not taken:
            return DEFAULTS[name]
        tenth = len(taken) // 10
        return Delay(round(taken[tenth], 3), round(taken[-1 - tenth], 3))

    def _begin(self, what: str, name: str, at: float) -> None:
        if self._known:
            self._since.setdefault((what, name), at)

    def _end(self, what: str, name: str, at: float) -> None:
        since = self._since.pop((what, name), None)
        if since is not None and at - since <= _LONGEST:
            self._taken[what].append(at - since)

    def _node(self, event: TraceEvent) -> None:
        if event.after is None:
            self._nodes.pop(event.name, None)
            self._ready.pop(event.name, None)
            return
        self._nodes[event.name] = event.after
        if event.before is None:
            self._begin("start", event.name, event.at)
        if _is_true(event.after, "Ready") and event.name not in self._ready:
            self._ready[event.name] = event.at
            self._end("start", event.name, event.at)

    def _csi_node(self, event: TraceEvent) -> None:
        node = self._nodes.get(event.name)
        if event.after is None or node is None:
            return
        for entry in _drivers_of(event.after):
            driver = entry["name"]
            group = self._group_of(event.name, node)
            limits = self._reported.setdefault(driver, defaultdict(Counter))
            limits[group][(entry.get("allocatable") or {}).get("count")] += 1
            labels = node["metadata"].get("labels") or {}
            self._topology[driver] = {
                key: HOSTNAME if labels.get(key) == event.name else key
                for key in entry.get("topologyKeys") or ()
            }
            self._registered(event.name, driver, event.at)

    def _registered(self, node: str, driver: str, at: float) -> None:
        """The first time on a node that came; a driver that comes back was there before."""
        if (node, driver) in self._registrations:
            return
        self._registrations.add((node, driver))
        ready = self._ready.get(node)
        if self._known and ready and at - ready <= _LONGEST:
            self._taken["registersAfter"].append(at - ready)

    def _pod(self, event: TraceEvent) -> None:
        pod = event.after
        if pod is None:
            self._end("podStop", event.name, event.at)
            self._since.pop(("podStart", event.name), None)
            return
        if pod["metadata"].get("deletionTimestamp"):
            self._begin("podStop", event.name, event.at)
            return
        volumes = pod.get("spec", {}).get("volumes") or ()
        if any("persistentVolumeClaim" in one or "ephemeral" in one for one in volumes):
            return  # what its volumes took is counted with them
        if pod.get("spec", {}).get("nodeName"):
            if pod.get("status", {}).get("phase") in ("Running", "Succeeded"):
                self._end("podStart", event.name, event.at)
            elif event.before is None or not event.before.get("spec", {}).get("nodeName"):
                self._begin("podStart", event.name, event.at)

    def _claim(self, event: TraceEvent) -> None:
        claim = event.after
        if claim is None:
            return
        if claim.get("spec", {}).get("volumeName"):
            self._end("provision", event.name, event.at)
        elif SELECTED_NODE_ANNOTATION in (claim["metadata"].get("annotations") or {}):
            self._begin("provision", event.name, event.at)

    def _attachment(self, event: TraceEvent) -> None:
        if event.after is None:
            self._end("detach", event.name, event.at)
            return
        if event.before is None:
            self._begin("attach", event.name, event.at)
        if event.after["metadata"].get("deletionTimestamp"):
            self._begin("detach", event.name, event.at)
        elif event.after.get("status", {}).get("attached"):
            self._end("attach", event.name, event.at)

    def _class(self, event: TraceEvent) -> None:
        if event.after is not None:
            self._classes[event.name] = event.after.get("provisioner", "")

    def _published(self, event: TraceEvent) -> None:
        """The most that was ever left: what an empty node has."""
        if event.after is None:
            return
        driver = self._classes.get(event.after.get("storageClassName", ""), "")
        try:
            left = int(quantities.value(event.after.get("capacity", "0")))
        except quantities.QuantityError:
            return
        if driver:
            self._capacity[driver] = max(self._capacity.get(driver, 0), left)


def _drivers_of(csi_node: Tree | None) -> list[Tree]:
    return (csi_node or {}).get("spec", {}).get("drivers") or []


def _is_true(tree: Tree, condition: str) -> bool:
    conditions = tree.get("status", {}).get("conditions") or ()
    return any(one["type"] == condition and one.get("status") == "True" for one in conditions)


_HANDLERS: dict[str, Callable[[WorldMeasurements, TraceEvent], None]] = {
    "nodes": WorldMeasurements._node,
    "csinodes": WorldMeasurements._csi_node,
    "pods": WorldMeasurements._pod,
    "persistentvolumeclaims": WorldMeasurements._claim,
    "volumeattachments": WorldMeasurements._attachment,
    "storageclasses": WorldMeasurements._class,
    "csistoragecapacities": WorldMeasurements._published,
}
