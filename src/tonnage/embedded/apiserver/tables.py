"""What `kubectl get` prints: the server chooses the columns and fills the cells."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from tonnage.embedded.apiserver.kinds import ServedKind
from tonnage.embedded.apiserver.refusals import Tree
from tonnage.embedded.apiserver.store import Stored
from tonnage.objects import timestamps
from tonnage.objects.labels import INSTANCE_TYPE, ZONE

Cells: TypeAlias = Callable[["Row"], Sequence[object]]


class Row(msgspec.Struct, frozen=True):
    """An object on its way into a table; what it lacks reads as empty."""

    tree: Tree
    now: datetime

    def read(self, path: str, default: Any = "") -> Any:
        value: Any = self.tree
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None else value

    @property
    def age(self) -> str:
        return self.since(self.read("metadata.creationTimestamp"))

    def since(self, moment: str) -> str:
        at = timestamps.moment(moment)
        return "<unknown>" if at is None else _duration(self.now.timestamp() - at)


def is_wanted(accept: str) -> bool:
    """Whether a client would rather have a table than objects."""
    return any("as=Table" in one and "v=v1;" in f"{one};" for one in accept.split(","))


def table(
    kind: ServedKind,
    objects: Iterable[Stored],
    *,
    metadata: Tree,
    now: datetime,
    include: str = "",
) -> bytes:
    """`include` says how much of each object comes with its row: Metadata, Object or None."""
    columns, cells = _of(kind)
    rows = []
    for obj in objects:
        row: Tree = {"cells": list(cells(Row(obj.tree, now)))}
        if include == "Object":
            row["object"] = obj.tree
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj.meta,
            }
        rows.append(row)
    return msgspec.json.encode(
        {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        }
    )


def _of(kind: ServedKind) -> tuple[list[Tree], Cells]:
    if kind.columns:
        names = [(column.name, column.priority) for column in kind.columns]
        return [_column("Name"), *(_column(*name) for name in names)], _custom(kind)
    headings, cells = _TABLES.get(kind.full_name, _GENERIC)
    return [_column(name.strip("+"), int(name.startswith("+"))) for name in headings], cells


def _column(name: str, priority: int = 0) -> Tree:
    form = "name" if name == "Name" else ""
    return {
        "name": name, "type": "string", "format": form, "description": name, "priority": priority
    }  # fmt: skip


def _custom(kind: ServedKind) -> Cells:
    def cells(row: Row) -> list[object]:
        found: list[object] = [row.read("metadata.name")]
        for column in kind.columns:
            value = row.read(column.json_path.removeprefix("."))
            found.append(row.since(value) if column.type == "date" else value)
        return found

    return cells


def _pod(row: Row) -> list[object]:
    statuses = row.read("status.containerStatuses", [])
    ready = sum(bool(status.get("ready")) for status in statuses)
    containers = len(row.read("spec.containers", []))
    if not statuses and _condition(row, "Ready") == "True":
        ready = containers  # a kubelet that reports no containers one by one
    restarts = sum(status.get("restartCount", 0) for status in statuses)
    shown = row.read("status.reason") or row.read("status.phase", "Unknown")
    for status in statuses:
        # What keeps a container is more than that the pod is Pending: stuck pods are known by it.
        state = status.get("state") or {}
        for part in ("waiting", "terminated"):
            shown = (state.get(part) or {}).get("reason") or shown
    if row.read("metadata.deletionTimestamp"):
        shown = "Terminating"
    elif row.read("spec.schedulingGates"):
        shown = "SchedulingGated"
    return [
        row.read("metadata.name"), f"{ready}/{containers}", shown, str(restarts), row.age,
        row.read("status.podIP", _NONE), row.read("spec.nodeName", _NONE),
        row.read("status.nominatedNodeName", _NONE),
    ]  # fmt: skip


def _node(row: Row) -> list[object]:
    words = {"True": "Ready", "False": "NotReady"}
    shown = words.get(_condition(row, "Ready"), "Unknown")
    if row.read("spec.unschedulable"):
        shown += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels: dict[str, str] = row.read("metadata.labels", {})
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    addresses = {one.get("type"): one.get("address") for one in row.read("status.addresses", [])}
    return [
        row.read("metadata.name"), shown, ",".join(roles) or _NONE, row.age,
        row.read("status.nodeInfo.kubeletVersion"), addresses.get("InternalIP", _NONE),
        labels.get(INSTANCE_TYPE, _NONE),
        labels.get(ZONE, _NONE),
    ]  # fmt: skip


def _csi_node(row: Row) -> list[object]:
    drivers = row.read("spec.drivers", [])
    limits = []
    for driver in drivers:
        count = (driver.get("allocatable") or {}).get("count")
        limits.append(f"{driver['name']}={'unlimited' if count is None else count}")
    return [row.read("metadata.name"), str(len(drivers)), row.age, ",".join(limits) or _NONE]


def _claim(row: Row) -> list[object]:
    phase = "Terminating" if row.read("metadata.deletionTimestamp") else row.read("status.phase")
    return [
        row.read("metadata.name"), phase, row.read("spec.volumeName"),
        row.read("status.capacity.storage"), _modes(row), row.read("spec.storageClassName"),
        row.age, row.read("spec.volumeMode"),
    ]  # fmt: skip


def _volume(row: Row) -> list[object]:
    claim = row.read("spec.claimRef", {})
    bound = f"{claim['namespace']}/{claim['name']}" if claim else ""
    phase = "Terminating" if row.read("metadata.deletionTimestamp") else row.read("status.phase")
    return [
        row.read("metadata.name"), row.read("spec.capacity.storage"), _modes(row),
        row.read("spec.persistentVolumeReclaimPolicy"), phase, bound,
        row.read("spec.storageClassName"), row.read("status.reason"), row.age,
        row.read("spec.csi.driver"),
    ]  # fmt: skip


def _event(row: Row) -> list[object]:
    last = row.read("lastTimestamp") or row.read("eventTime")
    about = f"{row.read('involvedObject.kind').lower()}/{row.read('involvedObject.name')}"
    return [
        row.since(last) if last else row.age, row.read("type"), row.read("reason"), about,
        row.read("message").strip(), row.read("source.component"),
        str(row.read("count", 1)), row.read("metadata.name"),
    ]  # fmt: skip


def _replicas(row: Row) -> list[object]:
    ready, wanted = row.read("status.readyReplicas", 0), row.read("spec.replicas", 1)
    return [row.read("metadata.name"), f"{ready}/{wanted}", row.age]


def _deployment(row: Row) -> list[object]:
    name, ready, age = _replicas(row)
    updated = row.read("status.updatedReplicas", 0)
    return [name, ready, str(updated), str(row.read("status.availableReplicas", 0)), age]


def _budget(row: Row) -> list[object]:
    least, most = row.read("spec.minAvailable", "N/A"), row.read("spec.maxUnavailable", "N/A")
    allowed = row.read("status.disruptionsAllowed", 0)
    return [row.read("metadata.name"), str(least), str(most), str(allowed), row.age]


def _fields(*paths: str) -> Cells:
    """The name, fields that are shown as they are, and the age."""

    def cells(row: Row) -> list[object]:
        found = [_text(row.read(path, _NONE)) for path in paths]
        return [row.read("metadata.name"), *found, row.age]

    return cells


_NONE = "<none>"
_GENERIC: tuple[tuple[str, ...], Cells] = (("Name", "Age"), _fields())
_COUNTS = tuple(
    f"status.{name}"
    for name in ("desiredNumberScheduled", "currentNumberScheduled", "numberReady",
                 "updatedNumberScheduled", "numberAvailable")
)  # fmt: skip
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}

# A column whose name begins with "+" is for `-o wide`.
# fmt: off
_TABLES: dict[str, tuple[tuple[str, ...], Cells]] = {
    "pods": (("Name", "Ready", "Status", "Restarts", "Age", "+IP", "+Node", "+Nominated Node"),
             _pod),
    "nodes": (("Name", "Status", "Roles", "Age", "Version", "+Internal-IP", "+Instance-Type",
               "+Zone"), _node),
    "namespaces": (("Name", "Status", "Age"), _fields("status.phase")),
    "events": (("Last Seen", "Type", "Reason", "Object", "Message", "+Source", "+Count", "+Name"),
               _event),
    "persistentvolumeclaims": (("Name", "Status", "Volume", "Capacity", "Access Modes",
                                "StorageClass", "Age", "+VolumeMode"), _claim),
    "persistentvolumes": (("Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim",
                           "StorageClass", "Reason", "Age", "+Driver"), _volume),
    "services": (("Name", "Type", "Cluster-IP", "Age"), _fields("spec.type", "spec.clusterIP")),
    "deployments.apps": (("Name", "Ready", "Up-to-date", "Available", "Age"), _deployment),
    "statefulsets.apps": (("Name", "Ready", "Age"), _replicas),
    "replicasets.apps": (
        ("Name", "Desired", "Current", "Ready", "Age"),
        _fields("spec.replicas", "status.replicas", "status.readyReplicas"),
    ),
    "daemonsets.apps": (
        ("Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Age"),
        _fields(*_COUNTS),
    ),
    "jobs.batch": (("Name", "Completions", "Succeeded", "Age"),
                   _fields("spec.completions", "status.succeeded")),
    "poddisruptionbudgets.policy": (
        ("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"), _budget),
    "csinodes.storage.k8s.io": (("Name", "Drivers", "Age", "Limits"), _csi_node),
    "csidrivers.storage.k8s.io": (
        ("Name", "AttachRequired", "PodInfoOnMount", "PreventPodSchedulingIfMissing", "Age"),
        _fields("spec.attachRequired", "spec.podInfoOnMount",
                "spec.preventPodSchedulingIfMissing"),
    ),
    "storageclasses.storage.k8s.io": (
        ("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "Age"),
        _fields("provisioner", "reclaimPolicy", "volumeBindingMode"),
    ),
    "csistoragecapacities.storage.k8s.io": (
        ("Name", "StorageClass", "Capacity", "Age"), _fields("storageClassName", "capacity")),
    "volumeattachments.storage.k8s.io": (
        ("Name", "Attacher", "PV", "Node", "Attached", "Age"),
        _fields("spec.attacher", "spec.source.persistentVolumeName", "spec.nodeName",
                "status.attached"),
    ),
    "leases.coordination.k8s.io": (("Name", "Holder", "Age"), _fields("spec.holderIdentity")),
    "priorityclasses.scheduling.k8s.io": (("Name", "Value", "Global-Default", "Age"),
                                          _fields("value", "globalDefault")),
    "nodegroups.tonnage.dev": (("Name", "Min", "Max", "Target", "Age"),
                               _fields("spec.minSize", "spec.maxSize", "spec.targetSize")),
}
# fmt: on


def _condition(row: Row, type_: str) -> str:
    for one in row.read("status.conditions", []):
        if one.get("type") == type_:
            return str(one.get("status", ""))
    return ""


def _modes(row: Row) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in row.read("spec.accessModes", []))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _duration(seconds: float) -> str:
    """An age for people: two units while that is worth it."""
    whole = max(int(seconds), 0)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d"
