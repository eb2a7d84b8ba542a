"""ProvisioningRequest with the fields and checks that its published API has."""

from typing import Any

from tests.e2e.crds import capacity_buffers, custom_kinds
from tests.e2e.crds.custom_kinds import Schema

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
    return custom_kinds.definition(
        "ProvisioningRequest",
        group=GROUP,
        version="v1",
        short_names=["provreq", "provreqs"],
        schema={"required": ["spec"], "properties": {"spec": spec, "status": status}},
    )
