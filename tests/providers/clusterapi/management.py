"""A management cluster in this process, and somebody to put Cluster API's objects into it."""

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.e2e.crds import cluster_api
from tonnage.clock import Clock
from tonnage.cluster.calls import CallPatience
from tonnage.cluster.client import Client
from tonnage.cluster.errors import ConnectionFailed
from tonnage.cluster.transport import HttpRequest, Response, Stream
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node, NodeSpec
from tonnage.providers.clusterapi import ClusterApiProvider
from tonnage.providers.clusterapi.annotations import CPU, MEMORY, Keys

Json = dict[str, Any]

KEYS = Keys()
NAMESPACE = "fleet"
FROM_ZERO = {CPU: "8", MEMORY: "32Gi"}
PLURALS = {
    kind: f"{kind.lower()}s"
    for kind in ("Cluster", "Machine", "MachineSet", "MachineDeployment", "MachinePool")
}


class Wire(InProcessTransport):
    """Counts what is asked, and lets a test stand between."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.asked: Counter[str] = Counter()
        self.before: Callable[[HttpRequest], None] = lambda _: None
        """Called with every request before the server gets it."""
        self.lost: Callable[[HttpRequest], bool] = lambda _: False
        """Whether the answer to a request gets lost, after it was carried out."""
        self.forbidden = ""
        """The end of a path that may not be read."""

    async def send(self, request: HttpRequest) -> Response:
        self.asked[request.method] += 1
        self.before(request)
        answer = await super().send(request)
        if self.lost(request):
            raise ConnectionFailed(f"{request.method} {request.path}: cut")
        return answer

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[Stream]:
        self.asked["WATCH"] += 1
        if self.forbidden and request.path.endswith(self.forbidden):
            yield Stream(status=403, chunks=_nothing())
            return
        async with super().stream(request) as stream:
            yield stream


async def _nothing() -> AsyncIterator[bytes]:
    yield b"{}"


class ManagementCluster:
    """`nodes` are those of the workload cluster."""

    def __init__(
        self, clock: Clock, *, version: str = "v1beta2", kinds: Sequence[str] | None = None
    ) -> None:
        """`kinds` are those served, all if not given."""
        self.clock = clock
        self._version = version
        self._server = ApiServer(clock=clock, rng=random.Random(1))
        self.wire = Wire(self._server)
        self.nodes: dict[str, Node] = {}
        for one in cluster_api.definitions((version,)):
            if kinds is not None and one["spec"]["names"]["kind"] not in kinds:
                continue
            self._send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", one)
        self.namespace(NAMESPACE)

    def namespace(self, name: str) -> None:
        self._send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    def provider(self, **more: Any) -> ClusterApiProvider:
        rng = random.Random(2)
        client = Client(
            self.wire, clock=self.clock, rng=rng, patience=CallPatience(attempts=2, first_wait=0.01)
        )
        return ClusterApiProvider(
            client, nodes=lambda: self.nodes.values(), clock=self.clock, rng=rng, **more
        )

    # Objects

    def group(
        self,
        name: str,
        *,
        kind: str = "MachineDeployment",
        replicas: int = 0,
        sizes: tuple[object, object] | None = (0, 10),
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        cluster: str = "prod",
        namespace: str = NAMESPACE,
        template: Json | None = None,
        owner: tuple[str, str] | None = None,
        **spec: object,
    ) -> str:
        """The id of the group; a MachineDeployment has a MachineSet of the same name."""
        bounds = {}
        if sizes is not None:
            bounds = {KEYS.min_size: str(sizes[0]), KEYS.max_size: str(sizes[1])}
        self.put(
            kind,
            name,
            namespace=namespace,
            annotations={**bounds, **(annotations or {})},
            labels=labels,
            owner=owner,
            spec={
                "clusterName": cluster,
                "replicas": replicas,
                "template": {"spec": {}, **(template or {})},
                **spec,
            },
        )
        if kind == "MachineDeployment":
            self.machine_set(name, deployment=name, replicas=replicas, namespace=namespace)
        return f"{kind}/{namespace}/{name}"

    def machine_set(
        self,
        name: str,
        *,
        deployment: str,
        replicas: int,
        revision: int = 1,
        namespace: str = NAMESPACE,
    ) -> None:
        self.put(
            "MachineSet",
            name,
            namespace=namespace,
            annotations={"machinedeployment.clusters.x-k8s.io/revision": str(revision)},
            owner=("MachineDeployment", deployment),
            spec={"clusterName": "prod", "replicas": replicas, "template": {"spec": {}}},
        )

    def machine(
        self,
        name: str,
        *,
        owner: str,
        kind: str = "MachineSet",
        provider_id: str | None = None,
        node: bool = True,
        status: Json | None = None,
        annotations: Mapping[str, str] | None = None,
        namespace: str = NAMESPACE,
    ) -> None:
        """A machine that runs and whose node, of the same name, has registered, if not said."""
        given = f"cloud:///zone/{name}" if provider_id is None else provider_id
        self.put(
            "Machine",
            name,
            namespace=namespace,
            owner=(kind, owner),
            annotations=annotations,
            spec={"clusterName": "prod", **({"providerID": given} if given else {})},
            status=status or ({"phase": "Running", "nodeRef": {"name": name}} if node else {}),
        )
        if node:
            self.node(name, provider_id=given)

    def node(self, name: str, *, provider_id: str = "", **meta: Any) -> None:
        self.nodes[name] = Node(
            metadata=ObjectMeta(name=name, **meta), spec=NodeSpec(provider_id=provider_id)
        )

    def put(
        self,
        kind: str,
        name: str,
        *,
        namespace: str = NAMESPACE,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        owner: tuple[str, str] | None = None,
        spec: Json | None = None,
        status: Json | None = None,
    ) -> None:
        meta: Json = {"name": name, "namespace": namespace}
        meta |= {"annotations": dict(annotations or {}), "labels": dict(labels or {})}
        if owner is not None:
            above = self.get(*owner, namespace=namespace)
            reference = {"kind": owner[0], "name": owner[1], "uid": above["metadata"]["uid"]}
            version = f"{cluster_api.GROUP}/{self._version}"
            meta["ownerReferences"] = [{"apiVersion": version, "controller": True, **reference}]
        body = {"kind": kind, "metadata": meta, "spec": spec or {}}
        self._send("POST", self.path(kind, namespace=namespace), body)
        if status:
            self.change(kind, name, {"status": status}, namespace=namespace, part="/status")

    # Looking and changing behind the provider's back

    def path(self, kind: str, name: str = "", *, namespace: str = NAMESPACE) -> str:
        root = f"/apis/{cluster_api.GROUP}/{self._version}/namespaces/{namespace}/{PLURALS[kind]}"
        return f"{root}/{name}" if name else root

    def get(self, kind: str, name: str, *, namespace: str = NAMESPACE) -> Json:
        return self._send("GET", self.path(kind, name, namespace=namespace))

    def change(
        self, kind: str, name: str, patch: Json, *, namespace: str = NAMESPACE, part: str = ""
    ) -> None:
        self._send("PATCH", self.path(kind, name, namespace=namespace) + part, patch)

    def remove(self, kind: str, name: str) -> None:
        """What has a finalizer stays, and is being deleted."""
        self._send("DELETE", self.path(kind, name))

    def replicas(self, name: str, *, kind: str = "MachineDeployment") -> int:
        found: int = self.get(kind, name)["spec"]["replicas"]
        return found

    def marked(self) -> set[str]:
        """The machines chosen for deletion."""
        found = self._send("GET", self.path("Machine"))["items"]
        return {
            one["metadata"]["name"]
            for one in found
            if KEYS.delete_machine in one["metadata"].get("annotations", {})
        }

    def infrastructure(self, name: str, status: Json) -> None:
        """A template of the infrastructure with what it says of its machines."""
        path = f"/apis/{cluster_api.INFRASTRUCTURE}/v1beta2/namespaces/{NAMESPACE}"
        path += "/dockermachinetemplates"
        self._send("POST", path, {"metadata": {"name": name}})
        self._send("PATCH", f"{path}/{name}/status", {"status": status})

    def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        kind = "merge-patch+json" if method == "PATCH" else "json"
        answer = self._server.answer(
            HttpRequest(
                method=method,
                path=path,
                headers=(("Content-Type", f"application/{kind}"),),
                body=None if body is None else msgspec.json.encode(body),
            )
        )
        assert answer.status < 300, answer.body
        decoded: Json = msgspec.json.decode(answer.body)
        return decoded
