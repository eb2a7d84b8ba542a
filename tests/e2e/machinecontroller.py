"""Somebody who plays Cluster API: makes Machines for replicas and Nodes for Machines.

It talks through the official client, so that nothing of what is tested plays the other side too.
"""

import threading
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import kubernetes
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.e2e.crds.cluster_api import GROUP
from tonnage.providers.kwok_objects import GROUP_LABEL

VERSION = "v1beta2"
DELETE = f"{GROUP}/delete-machine"
OFFERED = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}

Json = dict[str, Any]


class MachineController:
    """Runs inside the block. Of too many machines the marked go first, and then the oldest.

    Machines of the groups in `without_nodes` start and no node ever registers for them.
    """

    def __init__(self, kubeconfig: Path) -> None:
        client = kubernetes.config.new_client_from_config(str(kubeconfig))
        self._objects = kubernetes.client.CustomObjectsApi(client)
        self._core = kubernetes.client.CoreV1Api(client)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machine controller")
        self.without_nodes: set[str] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            try:
                self._reconcile()
            except (ApiException, HTTPError):
                # Overtaken, as controllers are, or not answered; the next time it will be right.
                continue

    def _reconcile(self) -> None:
        deployments = self._list("machinedeployments")
        sets, pools = self._list("machinesets"), self._list("machinepools")
        # Machines last: whoever marks one and then asks for fewer is not seen to ask unmarked.
        machines = self._list("machines")
        for one in machines:
            if "nodeRef" not in one.get("status", {}):
                self._begin(one)
        for one in filter(_is_reconciled, deployments):
            self._set_of(one, sets)
        for one in filter(_is_reconciled, sets):
            self._fill(one, _owned(machines, by=one), group=_owner(one) or _name(one))
        for one in filter(_is_reconciled, pools):
            self._fill(one, _owned(machines, by=one), group=_name(one))

    def _set_of(self, deployment: Json, sets: Iterable[Json]) -> None:
        wanted = deployment["spec"]["replicas"]
        for one in _owned(sets, by=deployment):
            if one["spec"]["replicas"] != wanted:
                self._patch("machinesets", one, {"spec": {"replicas": wanted}})
            return
        self._create("MachineSet", f"{_name(deployment)}-1", owner=deployment, replicas=wanted)

    def _fill(self, owner: Json, machines: list[Json], *, group: str) -> None:
        wanted = owner["spec"]["replicas"]
        for _ in range(wanted - len(machines)):
            self._create("Machine", f"{_name(owner)}-", owner=owner, labels={"group": group})
        machines.sort(key=lambda one: (not _is_marked(one), one["metadata"]["creationTimestamp"]))
        for one in machines[: max(0, len(machines) - wanted)]:
            self._delete(one)
        self._patch("", owner, {"status": {"replicas": len(machines)}})

    def _begin(self, machine: Json) -> None:
        name, group = _name(machine), machine["metadata"]["labels"]["group"]
        given = f"cloud:///zone/{name}"
        if "providerID" not in machine["spec"]:
            self._patch("machines", machine, {"spec": {"providerID": given}})
        if group in self.without_nodes:
            return
        meta = {
            "name": name,
            "labels": {GROUP_LABEL: group, "kubernetes.io/hostname": name},
            "annotations": {
                f"{GROUP}/machine": name,
                f"{GROUP}/cluster-namespace": machine["metadata"]["namespace"],
            },
        }
        status = {"capacity": OFFERED, "allocatable": OFFERED}
        node: Any = {"metadata": meta, "spec": {"providerID": given}, "status": status}
        try:
            self._core.create_node(node)
        except ApiException as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        self._patch("", machine, {"status": {"phase": "Running", "nodeRef": {"name": name}}})

    def _delete(self, machine: Json) -> None:
        meta = machine["metadata"]
        place = (GROUP, VERSION, meta["namespace"], "machines", meta["name"])
        self._objects.delete_namespaced_custom_object(*place)
        try:
            self._core.delete_node(meta["name"])
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def _list(self, plural: str) -> list[Json]:
        found: Any = self._objects.list_cluster_custom_object(GROUP, VERSION, plural)
        return list(found["items"])

    def _create(
        self, kind: str, name: str, *, owner: Json, labels: Json | None = None, **spec: object
    ) -> None:
        meta = owner["metadata"]
        generated = {"generateName": name} if name.endswith("-") else {"name": name}
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": kind,
            "metadata": {**generated, "labels": labels or {}, "ownerReferences": [reference]},
            "spec": {"clusterName": owner["spec"].get("clusterName", ""), **spec},
        }
        place = (GROUP, VERSION, meta["namespace"], f"{kind.lower()}s")
        self._objects.create_namespaced_custom_object(*place, body)

    def _patch(self, plural: str, one: Json, change: Json) -> None:
        """Without a plural it is the status that changes."""
        meta = one["metadata"]
        place = (GROUP, VERSION, meta["namespace"], plural or f"{one['kind'].lower()}s")
        if plural:
            self._objects.patch_namespaced_custom_object(*place, meta["name"], change)
        else:
            self._objects.patch_namespaced_custom_object_status(*place, meta["name"], change)


def _name(one: Json) -> str:
    return str(one["metadata"]["name"])


def _owner(one: Json) -> str:
    return next((str(ref["name"]) for ref in one["metadata"].get("ownerReferences", ())), "")


def _owned(all_: Iterable[Json], *, by: Json) -> list[Json]:
    uid = by["metadata"]["uid"]
    return [
        one
        for one in all_
        if "deletionTimestamp" not in one["metadata"]
        and any(ref["uid"] == uid for ref in one["metadata"].get("ownerReferences", ()))
    ]


def _is_reconciled(one: Json) -> bool:
    meta = one["metadata"]
    return "deletionTimestamp" not in meta and f"{GROUP}/paused" not in meta.get("annotations", {})


def _is_marked(one: Json) -> bool:
    return DELETE in one["metadata"].get("annotations", {})
