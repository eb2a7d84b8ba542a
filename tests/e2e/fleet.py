"""The objects of Cluster API as operators make and change them."""

import json
from collections.abc import Mapping
from typing import Any

from tests.e2e.controlplane import wait_until
from tests.e2e.crds import cluster_api
from tests.e2e.workspace import Workspace
from tonnage.providers.clusterapi.annotations import Keys
from tonnage.providers.kwok_objects import GROUP_LABEL

Json = dict[str, Any]

KEYS = Keys()
KINDS = "machinedeployments,machinesets,machinepools,machines,clusters"


class Fleet:
    """The objects of Cluster API in the namespace of the test."""

    def __init__(self, work: Workspace, arguments: list[str]) -> None:
        self.work = work
        self.cluster = work.cluster
        self.namespace = work.namespace
        self._arguments = arguments

    def create(
        self,
        name: str,
        *,
        kind: str = "MachineDeployment",
        replicas: int = 0,
        sizes: tuple[int, int] | None = (0, 10),
        annotations: Mapping[str, str] | None = None,
        cluster: str = "prod",
        namespace: str = "",
        finalizer: str = "",
    ) -> str:
        """The id of the group that was made."""
        namespace = namespace or self.namespace
        bounds = {}
        if sizes is not None:
            bounds = {KEYS.min_size: str(sizes[0]), KEYS.max_size: str(sizes[1])}
        meta: Json = {
            "name": name,
            "namespace": namespace,
            "annotations": {**bounds, **(annotations or {})},
            "finalizers": [finalizer] if finalizer else [],
        }
        spec = {"clusterName": cluster, "replicas": replicas, "template": {"spec": {}}}
        body = {"apiVersion": f"{cluster_api.GROUP}/v1beta2", "kind": kind, "metadata": meta}
        self.cluster.create({**body, "spec": spec})
        return f"{kind}/{namespace}/{name}"

    def get(self, kind: str, name: str) -> Json:
        return self.cluster.get(kind, name, namespace=self.namespace)

    def replicas(self, name: str, *, kind: str = "machinedeployment") -> int:
        found: int = self.get(kind, name)["spec"]["replicas"]
        return found

    def machines(self) -> set[str]:
        """The machines there are, apart from those on their way out."""
        listed = self.cluster.kubectl("get", "machines", "-n", self.namespace, "-o", "json")
        return {
            str(one["metadata"]["name"])
            for one in json.loads(listed)["items"]
            if "deletionTimestamp" not in one["metadata"]
        }

    def nodes(self) -> set[str]:
        listed = self.cluster.kubectl("get", "nodes", "-o", "name").split()
        return {one.removeprefix("node/") for one in listed}

    def wait_machines(self, count: int) -> set[str]:
        """So many machines that all have their node."""
        found: set[str] = set()

        def all_there() -> bool:
            nonlocal found
            found = self.machines()
            return len(found) == count and found <= self.nodes()

        wait_until(all_there, what=f"{count} machines have a node")
        return found

    def patch(self, kind: str, name: str, change: Json) -> None:
        self.cluster.kubectl(
            "patch", kind, name, "-n", self.namespace, "--type=merge", "-p", json.dumps(change)
        )

    def add_argument(self, argument: str) -> None:
        """Beside those of the shipped Deployment, for autoscalers made from here on."""
        self._arguments.append(argument)

    def remove(self) -> None:
        listed = self.cluster.kubectl("get", KINDS, "-n", self.namespace, "-o", "json")
        for one in json.loads(listed)["items"]:
            if one["metadata"].get("finalizers"):
                self.patch(one["kind"], one["metadata"]["name"], {"metadata": {"finalizers": []}})
        now = ("--wait=false", "--ignore-not-found")
        self.cluster.kubectl("delete", KINDS, "--all", "-n", self.namespace, *now)
        self.cluster.kubectl("delete", "nodes", "-l", GROUP_LABEL, *now)
