"""Bodies in protobuf, as kubectl sends them."""

import base64
import json

import pytest

from tests.embedded.apiserver.requests import Api
from tonnage.embedded.apiserver import protobuf

CORE = "/api/v1"
PODS = f"{CORE}/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"

# What kubectl 1.37 sent for each command.
DEPLOYMENT = base64.b64decode(
    "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErgBCh8KA3dlYhIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEoYBCAASDAoKCgNhcHAS"
    "A3dlYhpsChwKABIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEkwSLgoFbmdpbngSBW5naW54KgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCI"
    "AQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA="
)
"""create deployment web --image nginx --replicas 0 --port 80"""
BUDGET = base64.b64decode(
    "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSNgoRCgFiEgAaACIAKgAyADgAQgASFQoJCAEQABoDMzAlEggKBgoB"
    "YRIBYhoKCAAYACAAKAAwABoAIgA="
)
"""create pdb b --selector a=b --min-available 30%"""
QUOTA = base64.b64decode(
    "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRIwChEKAXESABoAIgAqADIAOABCABIZCgoKA2NwdRIDCgExCgsKBHBvZHMSAwoBMhoAGgAi"
    "AA=="
)
"""create quota q --hard cpu=1,pods=2"""


@pytest.fixture
def api() -> Api:
    return Api()


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def sent(kind: str, *fields: bytes) -> bytes:
    """An object of the core group as Go clients send it."""
    head = field(1, b"v1") + field(2, kind.encode())
    return b"k8s\x00" + field(1, head) + field(2, b"".join(fields))


NAMESPACE = sent("Namespace", field(1, field(1, b"inner")))


def test_a_namespace_is_made_from_protobuf(api: Api) -> None:
    api.good("POST", f"{CORE}/namespaces", NAMESPACE, content_type=protobuf.MEDIA_TYPE)
    assert api.exists(f"{CORE}/namespaces/inner")


def test_a_deployment_is_made_from_protobuf(api: Api) -> None:
    api.good("POST", DEPLOYMENTS, DEPLOYMENT, content_type=protobuf.MEDIA_TYPE)
    spec = api.get(f"{DEPLOYMENTS}/web")["spec"]
    assert spec["selector"] == {"matchLabels": {"app": "web"}}
    assert spec["template"]["spec"]["containers"] == [
        {"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}]}
    ]


def test_a_zero_that_was_meant_is_kept() -> None:
    assert protobuf.decode(DEPLOYMENT)["spec"]["replicas"] == 0


def test_what_was_never_set_is_left_out() -> None:
    assert protobuf.decode(DEPLOYMENT)["metadata"] == {"name": "web", "labels": {"app": "web"}}


def test_a_number_or_a_text_is_what_it_was() -> None:
    assert protobuf.decode(BUDGET)["spec"]["minAvailable"] == "30%"


def test_quantities_in_a_map_are_texts() -> None:
    assert protobuf.decode(QUOTA)["spec"]["hard"] == {"cpu": "1", "pods": "2"}


def test_a_message_inside_another_s_json_stands_among_its_fields() -> None:
    empty_dir = field(2, field(2, b""))
    pod = sent("Pod", field(2, field(1, field(1, b"scratch") + empty_dir)))
    assert protobuf.decode(pod)["spec"]["volumes"] == [{"name": "scratch", "emptyDir": {}}]


def test_protobuf_of_other_kinds_is_refused_with_what_is_understood(api: Api) -> None:
    response = api.ask("POST", PODS, sent("Endpoints"), content_type=protobuf.MEDIA_TYPE)
    assert response.status == 415
    assert "application/json" in json.loads(response.body)["message"]


@pytest.mark.parametrize("cut", range(1, 24))
def test_protobuf_that_was_cut_is_refused(api: Api, cut: int) -> None:
    body = NAMESPACE[:-cut]
    answer = api.ask("POST", f"{CORE}/namespaces", body, content_type=protobuf.MEDIA_TYPE)
    assert 400 <= answer.status < 500


def test_a_number_where_a_text_is_expected_is_refused(api: Api) -> None:
    body = sent("Namespace", field(1, b"\x08\x05"))
    answer = api.ask("POST", f"{CORE}/namespaces", body, content_type=protobuf.MEDIA_TYPE)
    assert answer.status == 400
