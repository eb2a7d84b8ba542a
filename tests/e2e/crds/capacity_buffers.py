"""CapacityBuffer with the fields, defaults and checks that its published API has."""

from typing import Any

from tests.e2e.crds import custom_kinds
from tests.e2e.crds.custom_kinds import Schema

GROUP = "autoscaling.x-k8s.io"
NAME = f"capacitybuffers.{GROUP}"

_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1}
_COUNT: Schema = {"type": "integer", "format": "int32", "minimum": 0}
_REFERENCE: Schema = {"type": "object", "required": ["name"], "properties": {"name": _NAME}}


def definition() -> dict[str, Any]:
    """To be created before anything else."""
    return custom_kinds.definition(
        "CapacityBuffer",
        group=GROUP,
        version="v1beta1",
        short_names=["cb"],
        schema={"required": ["spec"], "properties": {"spec": _spec(), "status": _status()}},
    )


def _spec() -> Schema:
    quantity = {"anyOf": [{"type": "integer"}, _TEXT], "x-kubernetes-int-or-string": True}
    return {
        "type": "object",
        "properties": {
            "provisioningStrategy": {**_TEXT, "default": "buffer.x-k8s.io/active-capacity"},
            "podTemplateRef": _REFERENCE,
            "scalableRef": {
                "type": "object",
                "required": ["kind", "name"],
                "properties": {"apiGroup": _TEXT, "kind": _NAME, "name": _NAME},
            },
            "replicas": _COUNT,
            "percentage": _COUNT,
            "limits": {"type": "object", "additionalProperties": quantity},
        },
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
                "message": "a PodTemplate needs replicas or limits",
            },
            {
                "rule": "!(has(self.podTemplateRef) && has(self.scalableRef))",
                "message": "podTemplateRef or scalableRef, not both",
            },
        ],
    }


def conditions() -> Schema:
    """As every kind with conditions has them."""
    condition = {
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        },
    }
    return {
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }


def _status() -> Schema:
    return {
        "type": "object",
        "properties": {
            "podTemplateRef": _REFERENCE,
            "podTemplateGeneration": {"type": "integer", "format": "int64"},
            "replicas": {"type": "integer", "format": "int32"},
            "provisioningStrategy": _TEXT,
            "conditions": conditions(),
        },
    }
