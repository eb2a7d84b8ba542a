"""What `deploy/` ships, on the control plane: the account of the autoscaler and its rights.

What runs is not applied: there is nobody here to run containers, and their pods would wait for
nodes. Nor is what operators write: every test has its own configuration and node groups.
"""

from typing import Any

import yaml

from tests.e2e.controlplane import REPOSITORY, ControlPlane

NAMESPACE = "tonnage-system"
ACCOUNT = "tonnage"
NODE_GROUPS = "tonnage-node-groups"
OVERLAY = REPOSITORY / "deploy" / "kwok"

_NOT_APPLIED = ("Deployment", "PodDisruptionBudget", "ConfigMap")

Manifest = dict[str, Any]


def manifests(cluster: ControlPlane) -> list[Manifest]:
    """The overlay as kustomize makes it."""
    rendered = cluster.kubectl("kustomize", str(OVERLAY))
    return [one for one in yaml.safe_load_all(rendered) if one]


def apply(cluster: ControlPlane) -> None:
    """Namespace, account and rights, as shipped; also mends rights that were changed."""
    shipped = [one for one in manifests(cluster) if one["kind"] not in _NOT_APPLIED]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(shipped))


def arguments(cluster: ControlPlane) -> list[str]:
    """What the Deployment calls the program with."""
    (deployment,) = (one for one in manifests(cluster) if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return [str(argument) for argument in container["args"]]


def take_right(cluster: ControlPlane, role: str, *, resource: str, verbs: set[str]) -> None:
    """Write a ClusterRole anew, as shipped but without some verbs on a resource."""
    (found,) = (
        one
        for one in manifests(cluster)
        if one["kind"] == "ClusterRole" and one["metadata"]["name"] == role
    )
    rules = []
    for rule in found["rules"]:
        others = [one for one in rule["resources"] if one != resource]
        if resource not in rule["resources"]:
            rules.append(rule)
            continue
        left = [verb for verb in rule["verbs"] if verb not in verbs]
        if others:
            rules.append({**rule, "resources": others})
        if left:
            rules.append({**rule, "resources": [resource], "verbs": left})
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump({**found, "rules": rules}))
