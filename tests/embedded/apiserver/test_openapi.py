"""The documents that kubectl checks and explains kinds by."""

import json
import re

import pytest

from tests.embedded.apiserver.requests import MERGE, Api, Json
from tonnage.embedded.apiserver.kinds import BUILT_IN, ServedKind

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def version(schema: Json) -> Json:
    return {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}


def define(api: Api, schema: Json) -> None:
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [version(schema)],
    }
    api.good("POST", DEFINITIONS, {"metadata": {"name": "widgets.example.com"}, "spec": spec})


@pytest.fixture
def api() -> Api:
    return Api()


def documented(api: Api, root: str, kind: str) -> Json:
    """The schema of a kind, as `kubectl explain` finds it."""
    schemas = api.get(f"/openapi/v3/{root}")["components"]["schemas"]
    (found,) = [
        one
        for one in schemas.values()
        if any(each["kind"] == kind for each in one.get("x-kubernetes-group-version-kind", ()))
    ]
    return found


def test_openapi_says_of_every_kind_that_the_server_checks_fields(api: Api) -> None:
    paths = api.get("/openapi/v3")["paths"]
    document = api.get(paths["apis/apps/v1"]["serverRelativeURL"].partition("?")[0])
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}"]["patch"]
    assert patch["parameters"][0]["name"] == "fieldValidation"


def test_every_reference_in_openapi_leads_somewhere(api: Api) -> None:
    for root in api.get("/openapi/v3")["paths"]:
        document = api.ask("GET", f"/openapi/v3/{root}").body.decode()
        schemas = json.loads(document)["components"]["schemas"]
        for name in re.findall(r'"\$ref":"#/components/schemas/([^"]+)"', document):
            assert name in schemas


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.full_name)
def test_every_kind_is_documented(api: Api, kind: ServedKind) -> None:
    root = f"apis/{kind.api_version}" if kind.group else "api/v1"
    found = documented(api, root, kind.kind)
    assert found["description"]
    assert {"apiVersion", "kind", "metadata"} <= found["properties"].keys()


def test_documentation_has_the_fields_that_tonnage_reads(api: Api) -> None:
    spec = documented(api, "apis/storage.k8s.io/v1", "CSINode")["properties"]["spec"]
    schemas = api.get("/openapi/v3/apis/storage.k8s.io/v1")["components"]["schemas"]
    name = spec["allOf"][0]["$ref"].rpartition("/")[2]
    drivers = schemas[name]["properties"]["drivers"]
    assert drivers["type"] == "array"
    entry = schemas[drivers["items"]["allOf"][0]["$ref"].rpartition("/")[2]]
    assert {"name", "nodeID", "topologyKeys", "allocatable"} <= entry["properties"].keys()


def test_documentation_of_a_custom_kind_is_what_its_definition_says(api: Api) -> None:
    before = api.get("/openapi/v3")["paths"]
    spec = {"type": "object", "properties": {"size": {"type": "integer", "description": "Width."}}}
    schema = {"type": "object", "description": "A widget.", "properties": {"spec": spec}}
    define(api, schema)
    found = documented(api, "apis/example.com/v1", "Widget")
    assert (found["description"], found["properties"]["spec"]) == ("A widget.", spec)
    assert "apis/example.com/v1" in api.get("/openapi/v3")["paths"].keys() - before.keys()


def test_documents_have_another_address_when_their_content_has_changed(api: Api) -> None:
    define(api, {"type": "object", "description": "A widget."})
    first = api.get("/openapi/v3")["paths"]
    change = {"spec": {"versions": [version({"type": "object", "description": "A wide widget."})]}}
    path = f"{DEFINITIONS}/widgets.example.com"
    api.good("PATCH", path, change, content_type=MERGE)
    second = api.get("/openapi/v3")["paths"]
    changed = {root for root in first if first[root] != second[root]}
    assert changed == {"apis/example.com/v1"}
