"""`tonnage why` without a URL: the replica that leads is found by its Lease and asked."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from tests.cli.liveserver import LiveCluster, live_cluster
from tests.cli.test_why import BOUGHT, answering, decided
from tests.cluster.apiserver import Answer, answer, status
from tonnage.cli.app import program

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
FORWARD = "/api/v1/namespaces/tonnage-system/pods/tonnage-7d9-abcde/portforward"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path) as running:
        yield running


def lead(cluster: LiveCluster, namespace: str, identity: str) -> None:
    cluster.server.put(
        LEASES.format(namespace),
        {
            "metadata": {"name": "cluster-autoscaler", "namespace": namespace},
            "spec": {"holderIdentity": identity},
        },
    )


def forwarding(body: bytes, *, error: bytes = b"") -> Answer:
    """A kubelet that forwards one request to somebody who answers with the body."""

    async def forward(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await socket.prepare(request)
        port = int(request.query["ports"]).to_bytes(2, "little")
        await socket.send_bytes(b"\0" + port)
        await socket.send_bytes(b"\1" + port)
        if error:
            await socket.send_bytes(b"\1" + error)
        asked = await socket.receive_bytes()
        assert asked.startswith(b"\0GET /debug/decisions HTTP/1.0\r\n")
        head = f"HTTP/1.0 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        await socket.send_bytes(b"\0" + head + body[:10])
        await socket.send_bytes(b"\0" + body[10:])
        await socket.close()
        return socket

    return forward


def why(cluster: LiveCluster, *arguments: str) -> Result:
    command = ["why", "shop/db-0", "--kubeconfig", cluster.kubeconfig, *arguments]
    return CliRunner().invoke(program, command)


def test_the_leader_is_asked_by_way_of_the_api_server(cluster: LiveCluster) -> None:
    lead(cluster, "tonnage-system", "tonnage-7d9-abcde_0a1b2c3d")
    cluster.server.script("GET", FORWARD, forwarding(msgspec.json.encode([decided(BOUGHT)])))
    result = why(cluster)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("shop/db-0: bought, the only group")


def test_a_port_that_is_not_forwarded_is_told_with_what_to_do(cluster: LiveCluster) -> None:
    lead(cluster, "tonnage-system", "tonnage-7d9-abcde_0a1b2c3d")
    cluster.server.script("GET", FORWARD, forwarding(b"", error=b"connection refused"))
    result = why(cluster)
    assert result.exit_code == 1
    assert "pod tonnage-system/tonnage-7d9-abcde leads and could not be asked" in result.stderr
    assert "kubectl -n tonnage-system port-forward pod/tonnage-7d9-abcde 8086" in result.stderr


def test_without_the_right_the_leader_is_named_all_the_same(cluster: LiveCluster) -> None:
    lead(cluster, "tonnage-system", "tonnage-7d9-abcde_0a1b2c3d")
    refused = answer(lambda: status(403, "Forbidden", message="no such right"))
    cluster.server.script("GET", FORWARD, refused)
    assert "tonnage-system/tonnage-7d9-abcde leads and could not" in why(cluster).stderr


def test_without_a_lease_it_is_said_where_was_looked(cluster: LiveCluster) -> None:
    result = why(cluster)
    assert result.exit_code == 1
    assert "no Lease 'cluster-autoscaler' in tonnage-system or kube-system" in result.stderr
    assert "--autoscaler-namespace says where" in result.stderr


def test_a_lease_that_nobody_holds_is_said(cluster: LiveCluster) -> None:
    lead(cluster, "kube-system", "")
    assert "nobody leads at the moment" in why(cluster).stderr


def test_a_follower_says_who_leads() -> None:
    told = {"identity": "tonnage-b_2", "leads": False, "leader": "tonnage-a_1"}
    with answering({"/debug/decisions": b"[]", "/debug/leader": json.dumps(told).encode()}) as url:
        result = CliRunner().invoke(program, ["why", "shop/db-0", "--url", url])
    assert "this replica (tonnage-b_2) does not lead" in result.stderr
    assert "tonnage-a_1 leads" in result.stderr
