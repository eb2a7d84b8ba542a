"""Requests to a server in the same process, and what its answers say."""

import json
import random
from datetime import UTC, datetime
from typing import Any

from tonnage.clock.virtual import VirtualClock
from tonnage.cluster.transport import HttpRequest, Response
from tonnage.embedded.apiserver import ApiServer

Json = dict[str, Any]

CORE = "/api/v1"
CONFIG_MAPS = f"{CORE}/namespaces/default/configmaps"
PODS = f"{CORE}/namespaces/default/pods"
NODES = f"{CORE}/nodes"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Api:
    """A server, and verbs that give the decoded answer."""

    def __init__(self, clock: VirtualClock | None = None, *, seed: int = 1, **more: Any) -> None:
        self.clock = clock or VirtualClock(start=datetime(2030, 1, 1, tzinfo=UTC))
        self.server = ApiServer(clock=self.clock, rng=random.Random(seed), **more)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.server.answer(
            HttpRequest(
                method=method,
                path=path,
                query=tuple(query.items()),
                headers=(("Content-Type", content_type), ("Accept", accept)),
                body=None if body is None else data,
            )
        )

    def good(self, method: str, path: str, body: object = None, **how: Any) -> Json:
        """The answer to a request that is not refused."""
        response = self.ask(method, path, body, **how)
        assert response.status < 300, response.body
        found: Json = json.loads(response.body)
        return found

    def refused(self, method: str, path: str, body: object = None, **how: Any) -> tuple[int, str]:
        """Code and reason of a refusal."""
        response = self.ask(method, path, body, **how)
        status = json.loads(response.body)
        assert status["kind"] == "Status"
        assert status["code"] == response.status
        return response.status, status["reason"]

    def create(self, path: str, name: str, **parts: Any) -> Json:
        meta = {"name": name, **parts.pop("metadata", {})}
        return self.good("POST", path, {"metadata": meta, **parts})

    def pod(self, name: str, *, ready: bool = False, **parts: Any) -> Json:
        spec = {"containers": [{"name": "main"}], **parts.pop("spec", {})}
        made = self.create(PODS, name, spec=spec, **parts)
        if not ready:
            return made
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return self.good("PATCH", f"{PODS}/{name}/status", {"status": status}, content_type=MERGE)

    def stateful_set(self, name: str, *, replicas: int) -> Json:
        labels = {"app": name}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a"}]}},
        }
        return self.create(SETS, name, spec=spec)

    def get(self, path: str) -> Json:
        return self.good("GET", path)

    def exists(self, path: str) -> bool:
        return self.ask("GET", path).status == 200

    def names(self, path: str, **query: str) -> list[str]:
        return [one["metadata"]["name"] for one in self.good("GET", path, **query)["items"]]

    def table(self, path: str) -> tuple[list[str], list[list[str]]]:
        """Headings, and the cells of every row."""
        found = self.good("GET", path, accept=TABLE)
        headings = [one["name"] for one in found["columnDefinitions"]]
        return headings, [row["cells"] for row in found["rows"]]


def owner(obj: Json, **more: Any) -> Json:
    """A reference to an object as the owner of another."""
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"],
        "uid": meta["uid"], **more,
    }  # fmt: skip
