"""What people send over HTTP: types of fields, and fields that nobody knows."""

import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.embeddedserver import EmbeddedCluster, embedded_cluster
from tonnage.embedded.apiserver import field_types
from tonnage.embedded.apiserver.refusals import ApiRefusal


class Answer(NamedTuple):
    status: int
    told: str


def sent(cluster: EmbeddedCluster, path: str, tree: dict[str, Any]) -> Answer:
    """What the server says to a POST that comes over HTTP."""
    connection = HTTPConnection(cluster.address)
    try:
        connection.request("POST", path, json.dumps(tree), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Answer(response.status, json.loads(response.read()).get("message", ""))
    finally:
        connection.close()


def check(tree: dict[str, Any], *, strict: bool = False) -> None:
    field_types.check(json.dumps(tree).encode(), strict=strict)


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (
            {"kind": "Node", "status": {"nodeInfo": {"kernelVersion": 6.1}}},
            "number into field status.nodeInfo.kernelVersion of type string",
        ),
        ({"kind": "ConfigMap", "data": {"a": 1}}, "number into field data.a of type string"),
        ({"kind": "Pod", "spec": {"hostNetwork": "yes"}}, "field spec.hostNetwork of type bool"),
        (
            {"kind": "Pod", "spec": {"containers": [{"ports": [{"containerPort": "80"}]}]}},
            "field spec.containers[0].ports[0].containerPort of type int",
        ),
        ({"kind": "Pod", "spec": {"containers": {}}}, "field spec.containers of type array"),
        ({"kind": "Pod", "metadata": {"labels": {"a": True}}}, "bool into field metadata.labels.a"),
        ({"kind": "Pod", "spec": []}, "array into field spec of type object"),
    ],
)
def test_a_field_of_another_type_is_refused(tree: dict[str, Any], told: str) -> None:
    with pytest.raises(ApiRefusal, match=r"cannot be handled as a") as refusal:
        check(tree)
    assert told in str(refusal.value)


@pytest.mark.parametrize(
    "tree",
    [
        {"kind": "Pod", "spec": {"containers": [{"resources": {"requests": {"cpu": 1}}}]}},
        {"kind": "Service", "spec": {"ports": [{"port": 80, "targetPort": "http"}]}},
        {"kind": "Service", "spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
        {"kind": "Pod", "spec": {"nodeName": None}},
        {"kind": "SomethingElse", "spec": {"a": [1]}},
    ],
)
def test_what_a_server_takes_is_taken(tree: dict[str, Any]) -> None:
    check(tree, strict=True)


def test_an_unknown_field_is_refused_under_strict_validation_only() -> None:
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"contaners": []}}
    check(tree)
    with pytest.raises(ApiRefusal, match=r'unknown field "spec.contaners"'):
        check(tree, strict=True)


def test_every_pod_has_a_security_context_and_policies_are_kept(tmp_path: Path) -> None:
    with embedded_cluster(tmp_path) as cluster:
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        cluster.create("/api/v1/namespaces/default/pods", pod)
        collection = cluster.server.store.collections["", "v1", "pods"]
        stored = collection.get("default", "p")
        assert stored is not None
        assert stored.tree["spec"]["securityContext"] == {}
        cluster.create(
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            {"metadata": {"name": "x"}, "spec": {"validations": [{"expression": "true"}]}},
        )


@pytest.mark.parametrize("query", ["", "?fieldValidation=Strict", "?fieldValidation=Warn"])
def test_types_of_what_is_sent_over_http_are_checked(query: str, tmp_path: Path) -> None:
    with embedded_cluster(tmp_path) as cluster:
        wrong = {"metadata": {"name": "n"}, "status": {"nodeInfo": {"kernelVersion": 6.1}}}
        answer = sent(cluster, f"/api/v1/nodes{query}", {"kind": "Node", **wrong})
    assert (answer.status, "status.nodeInfo.kernelVersion" in answer.told) == (400, True)


def test_unknown_fields_sent_over_http_are_refused_where_kubectl_asks_for_it(
    tmp_path: Path,
) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [], "contaners": []}}
    path = "/api/v1/namespaces/default/pods"
    with embedded_cluster(tmp_path) as cluster:
        strict = sent(cluster, f"{path}?fieldValidation=Strict", pod)
        assert (strict.status, 'unknown field "spec.contaners"' in strict.told) == (400, True)
        assert "unknown field" not in sent(cluster, path, pod).told
