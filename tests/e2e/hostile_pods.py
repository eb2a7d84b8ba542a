"""Pods that an API server stores and no honest client sends."""

import json
from collections.abc import Iterable
from typing import Any

LEVELS = 9_993
"""As many as the API server takes, and more than most Pythons follow."""


def nested(name: str, *, levels: int = LEVELS) -> str:
    """A pod with somebody's fields nested as deep as that."""
    fields = '{"f:a":' * levels + "{}" + "}" * levels
    managed = (
        f'[{{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1",'
        f'"fieldsV1":{fields}}}]'
    )
    return (
        f'{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","managedFields":{managed}}},'
        f'"spec":{{"containers":[{{"name":"a","image":"x"}}],"nodeSelector":{{"no":"where"}}}}}}'
    )


def absurd(name: str, amount: str) -> str:
    """A pod that asks for an amount that is written like that."""
    return (
        f'{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":'
        f'[{{"name":"a","image":"x","resources":{{"requests":{{"cpu":{amount}}}}}}}]}}}}'
    )


def asking_for(name: str, resources: Iterable[str]) -> str:
    """A pod that asks for one of each of these resources."""
    limits = dict.fromkeys(resources, "1")
    container = {"name": "a", "image": "x", "resources": {"limits": limits}}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container]},
        },
        separators=(",", ":"),
    )


def spread(constraints: int) -> dict[str, Any]:
    """Part of a pod's spec: so many topology spread constraints, each over its own label."""
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": f"example.com/{number}",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": str(number)}},
            }
            for number in range(constraints)
        ]
    }
