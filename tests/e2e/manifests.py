"""Manifests as an API server takes them, with defaults that do not get in the way.

The builders of `tonnage.testing` make our typed records, which hold only the fields we read; a
server wants the rest too.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Manifest = dict[str, Any]


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> Manifest:
    """A node that says it is ready."""
    offered = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints)},
        "status": {"capacity": offered, "allocatable": offered, "conditions": [ready]},
    }


def csinode(name: str, drivers: Mapping[str, int | None] | None = None) -> Manifest:
    """What is registered on a node: the limit of each driver, `None` for no limit."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {
            "drivers": [
                {
                    "name": driver,
                    "nodeID": name,
                    "topologyKeys": [],
                    **({"allocatable": {"count": count}} if count is not None else {}),
                }
                for driver, count in (drivers or {}).items()
            ]
        },
    }


def csidriver(name: str, *, opt_in: bool | None = None) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {} if opt_in is None else {"preventPodSchedulingIfMissing": opt_in},
    }


def storage_class(name: str, driver: str) -> Manifest:
    """A class whose volumes wait for the first consumer."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": driver,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str, storage_class: str, *, namespace: str, volume: str = "") -> Manifest:
    """A claim, for the volume named if one is."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": storage_class,
            **({"volumeName": volume} if volume else {}),
        },
    }


def volume(name: str, storage_class: str, *, driver: str, claim: Manifest) -> Manifest:
    """A volume for one claim, as an external provisioner makes it."""
    meta = claim["metadata"]
    reference = {key: meta[key] for key in ("namespace", "name", "uid") if key in meta}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": storage_class,
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
            "csi": {"driver": driver, "volumeHandle": name},
        },
    }


def pod(
    name: str,
    *,
    namespace: str,
    cpu: str = "100m",
    claims: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    **spec: object,
) -> Manifest:
    """A pod with one container; `spec` has further fields, as they stand in a manifest."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {
            "containers": [
                {"name": "main", "image": "example", "resources": {"requests": {"cpu": cpu}}}
            ],
            "volumes": [
                {"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims
            ],
            **spec,
        },
    }
