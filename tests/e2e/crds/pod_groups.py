"""PodGroup of coscheduling with the fields that its published API has."""

from typing import Any

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
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{GROUP}",
            # Without it the group, which is the project's, is refused.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "PodGroup",
                "listKind": "PodGroupList",
                "plural": "podgroups",
                "singular": "podgroup",
                "shortNames": ["pg"],
            },
            "versions": [version],
        },
    }
