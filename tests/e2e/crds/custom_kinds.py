"""Definitions of namespaced kinds of the project that a control plane of the tests lacks."""

from typing import Any

Schema = dict[str, Any]


def definition(
    kind: str, *, group: str, version: str, short_names: list[str], schema: Schema
) -> dict[str, Any]:
    """With a status of its own."""
    singular = kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{singular}s.{group}",
            # Without it the group, which is the project's, is refused.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": f"{singular}s",
                "singular": singular,
                "shortNames": short_names,
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", **schema}},
                }
            ],
        },
    }
