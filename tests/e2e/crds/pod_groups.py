"""PodGroup of coscheduling with the fields that its published API has."""

from typing import Any

from tests.e2e.crds import custom_kinds

GROUP = "scheduling.x-k8s.io"


def definition() -> dict[str, Any]:
    """To be created before anything else."""
    count = {"type": "integer", "format": "int32", "minimum": 1}
    spec = {
        "type": "object",
        "properties": {
            "minMember": count,
            "minResources": {
                "type": "object",
                "additionalProperties": {
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "x-kubernetes-int-or-string": True,
                },
            },
            "scheduleTimeoutSeconds": {"type": "integer", "format": "int32"},
        },
    }
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return custom_kinds.definition(
        "PodGroup",
        group=GROUP,
        version="v1alpha1",
        short_names=["pg"],
        schema={"properties": {"spec": spec, "status": status}},
    )
