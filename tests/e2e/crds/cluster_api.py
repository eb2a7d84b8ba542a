"""The kinds of Cluster API in the shapes of upstream's definitions, as far as Tonnage meets them.

Both versions are served, with the fields that moved between them in both places; a real server
would convert, this one keeps everything. Fields nobody here reads are let through unchecked.
"""

from typing import Any

GROUP = "cluster.x-k8s.io"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer", "format": "int32"}
ANY: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definitions(versions: tuple[str, ...] = VERSIONS) -> list[dict[str, Any]]:
    """All of them, to be created before anything else; the first version is the stored one."""
    capacity = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
    listed = {"providerIDList": {"type": "array", "items": TEXT}}
    kinds: dict[str, tuple[Schema, Schema]] = {
        "Cluster": ({"paused": {"type": "boolean"}}, {}),
        "Machine": (_machine(), _machine_status()),
        "MachineSet": (_scalable(), _counted()),
        "MachineDeployment": (_scalable(), _counted()),
        "MachinePool": ({**_scalable(), **listed}, _counted()),
    }
    return [
        *(_definition(kind, *schemas, versions=versions) for kind, schemas in kinds.items()),
        _definition(
            "DockerMachineTemplate",
            {"template": ANY},
            {"capacity": capacity, "nodeInfo": ANY},
            group=INFRASTRUCTURE,
            versions=("v1beta2",),
        ),
    ]


def _definition(
    kind: str,
    spec: Schema,
    status: Schema,
    *,
    versions: tuple[str, ...],
    group: str = GROUP,
) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "subresources": {
                        "status": {},
                        **({"scale": scale} if "replicas" in spec else {}),
                    },
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": _open(spec), "status": _open(status)},
                        }
                    },
                }
                for version in versions
            ],
        },
    }


def _scalable() -> Schema:
    return {
        "clusterName": TEXT,
        "replicas": WHOLE,
        "selector": ANY,
        "template": _open({"metadata": ANY, "spec": _open(_machine())}),
    }


def _counted() -> Schema:
    return {"replicas": WHOLE, "selector": TEXT}


def _machine() -> Schema:
    reference = {"apiVersion": TEXT, "apiGroup": TEXT, "kind": TEXT, "name": TEXT}
    taint = _open({"key": TEXT, "value": TEXT, "effect": TEXT, "propagation": TEXT})
    return {
        "clusterName": TEXT,
        "providerID": TEXT,
        "infrastructureRef": _open(reference),
        "taints": {"type": "array", "items": taint},
    }


def _machine_status() -> Schema:
    return {
        "phase": TEXT,
        "nodeRef": _open({"name": TEXT}),
        "failureReason": TEXT,
        "failureMessage": TEXT,
        "conditions": {"type": "array", "items": ANY},
    }


def _open(properties: Schema) -> Schema:
    return {**ANY, "properties": properties}
