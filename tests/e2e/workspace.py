"""Where one test works: a namespace, and beside it what has none, all removed at the end."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.e2e import manifests
from tests.e2e.controlplane import NO_KUBELET, ControlPlane, wait_until


class Workspace:
    """Creates what a test needs, and knows what to remove."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._made: list[str] = []

    def name(self, name: str) -> str:
        """A name of this test alone, for what has no namespace.

        Under one that was used before, what controllers still know or have not yet removed of the
        former object would be taken for the new one's.
        """
        return f"{self.namespace}-{name}"

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects. Nodes have lost the taint of the unready when this returns."""
        for manifest in objects:
            meta = manifest["metadata"]
            if "namespace" not in meta:
                self._made.append(f"{manifest['kind'].lower()}/{meta['name']}")
        self.cluster.create(*objects)
        for manifest in objects:
            if manifest["kind"] == "Node":
                self._wait_untainted(manifest["metadata"]["name"])

    def create_with_volume(self, pod: str, *, driver: str, storage_class: str) -> None:
        """A pod with a volume that exists and is bound, so that a node is all it waits for."""
        volume = self.name(pod)
        claim = manifests.claim(pod, storage_class, namespace=self.namespace, volume=volume)
        # The volume first: a claim for one that is not there yet is looked at again much later.
        self.create(manifests.volume(volume, storage_class, driver=driver, claim=claim), claim)
        wait_until(
            lambda: self.get("pvc", pod).get("status", {}).get("phase") == "Bound",
            what=f"claim {pod} is bound",
        )
        self.create(manifests.pod(pod, namespace=self.namespace, claims=[pod]))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self.cluster.get(kind, name, namespace=self.namespace)

    def node_of(self, pod: str) -> str:
        """The node a pod is bound to, empty if it waits."""
        return str(self.get("pod", pod)["spec"].get("nodeName", ""))

    def scheduler_says(self, pod: str) -> str:
        """Why the pod has no node, in its own status; empty if nobody said anything yet."""
        found = self.cluster.kubectl(
            "get", "pod", pod, "-n", self.namespace, "--ignore-not-found", "-o", "json"
        )
        # Not there, if its controller has not made it yet.
        for condition in json.loads(found or '{"status": {}}')["status"].get("conditions", ()):
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
        """Remove what has no namespace; the rest goes with the namespace."""
        if self._made:
            self.cluster.kubectl("delete", *self._made, *NO_KUBELET)

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
