"""Where one test works: a namespace, and beside it what has none, all removed at the end."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.e2e.controlplane import ControlPlane, wait_until

NO_KUBELET = ("--wait=false", "--ignore-not-found", "--grace-period=0", "--force")
"""Nobody confirms that a pod has ended."""


class Workspace:
    """Creates what a test needs, and knows what to remove."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._made: list[str] = []

    def create(self, *manifests: Mapping[str, Any]) -> None:
        """Create objects. Nodes have lost the taint of the unready when this returns."""
        for manifest in manifests:
            meta = manifest["metadata"]
            if "namespace" not in meta:
                self._made.append(f"{manifest['kind'].lower()}/{meta['name']}")
        self.cluster.create(*manifests)
        for manifest in manifests:
            if manifest["kind"] == "Node":
                self._wait_untainted(manifest["metadata"]["name"])

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self.cluster.get(kind, name, namespace=self.namespace)

    def node_of(self, pod: str) -> str:
        """The node a pod is bound to, empty if it waits."""
        return str(self.get("pod", pod)["spec"].get("nodeName", ""))

    def scheduler_says(self, pod: str) -> str:
        """Why the pod has no node, in its own status; empty if nobody said anything yet."""
        for condition in self.get("pod", pod)["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition.get("message", ""))
        return ""

    def events(self, pod: str, *, reason: str) -> list[str]:
        """The messages of a pod's events."""
        chosen = f"involvedObject.name={pod},reason={reason}"
        listed = self.cluster.kubectl(
            "get", "events", "-n", self.namespace, "--field-selector", chosen, "-o", "json"
        )
        return [str(event["message"]) for event in json.loads(listed)["items"]]

    def remove(self) -> None:
        kubectl = self.cluster.kubectl
        kubectl("delete", "pods", "--all", "-n", self.namespace, *NO_KUBELET)
        if self._made:
            kubectl("delete", *self._made, *NO_KUBELET)

    def _wait_untainted(self, node: str) -> None:
        def untainted() -> bool:
            taints = self.cluster.get("node", node)["spec"].get("taints", ())
            return all(taint["key"] != "node.kubernetes.io/not-ready" for taint in taints)

        wait_until(untainted, what=f"node {node} is taken for ready")


@contextmanager
def workspace(cluster: ControlPlane, name: str) -> Iterator[Workspace]:
    with cluster.namespace(name) as namespace:
        work = Workspace(cluster, namespace)
        try:
            yield work
        finally:
            work.remove()
