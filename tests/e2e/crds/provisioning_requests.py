"""ProvisioningRequest with the fields and checks that its published API has."""

from typing import Any

from tests.e2e.crds import capacity_buffers
from tests.e2e.crds.capacity_buffers import Schema

GROUP = "autoscaling.x-k8s.io"
NAME = f"provisioningrequests.{GROUP}"

_NAME: Schema = {
    "type": "string",
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
_FIXED = {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]}


def definition() -> dict[str, Any]:
    """To be created before anything else."""
    pod_set: Schema = {
        "type": "object",
        "required": ["count", "podTemplateRef"],
        "properties": {
            "count": {"type": "integer", "format": "int32", "minimum": 1},
            "podTemplateRef": {"type": "object", "properties": {"name": _NAME}},
        },
    }
    spec: Schema = {
        "type": "object",
        "required": ["podSets", "provisioningClassName"],
        "properties": {
            "parameters": {
                "type": "object",
                "maxProperties": 100,
                "additionalProperties": {"type": "string", "maxLength": 255},
                **_FIXED,
            },
            "podSets": {
                "type": "array",
                "minItems": 1,
                "maxItems": 32,
                "items": pod_set,
                **_FIXED,
            },
            "provisioningClassName": {**_NAME, **_FIXED},
        },
    }
    status: Schema = {
        "type": "object",
        "properties": {
            "conditions": capacity_buffers.conditions(),
            "provisioningClassDetails": {
                "type": "object",
                "maxProperties": 64,
                "additionalProperties": {"type": "string", "maxLength": 32768},
            },
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {"spec": spec, "status": status},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": NAME,
            # Without it the group, which is the project's, is refused.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "ProvisioningRequest",
                "listKind": "ProvisioningRequestList",
                "plural": "provisioningrequests",
                "singular": "provisioningrequest",
                "shortNames": ["provreq", "provreqs"],
            },
            "versions": [version],
        },
    }
