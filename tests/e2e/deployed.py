"""What `deploy/` ships, on the control plane: the account of the autoscaler and its rights.

What runs is not applied: there is nobody here to run containers, and their pods would wait for
nodes. Nor is what operators write: every test has its own configuration and node groups.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import yaml

from tests.e2e.controlplane import REPOSITORY, ControlPlane, wait_until

NAMESPACE = "tonnage-system"
ACCOUNT = "tonnage"
NODE_GROUPS = "tonnage-node-groups"
OVERLAY = REPOSITORY / "deploy" / "kwok"

_NOT_APPLIED = ("Deployment", "PodDisruptionBudget", "ConfigMap")

Manifest = dict[str, Any]


class Right(NamedTuple):
    """To do something to a kind of objects in all namespaces, or in one."""

    verb: str
    group: str
    resource: str
    namespace: str = ""


def manifests(cluster: ControlPlane) -> list[Manifest]:
    """The overlay as kustomize makes it."""
    rendered = cluster.kubectl("kustomize", str(OVERLAY))
    return [one for one in yaml.safe_load_all(rendered) if one]


def apply(cluster: ControlPlane) -> None:
    """Namespace, account and rights, as shipped and in force; mends rights that were changed."""
    install(cluster, [one for one in manifests(cluster) if one["kind"] not in _NOT_APPLIED])


def install(
    cluster: ControlPlane,
    shipped: Iterable[Manifest],
    *,
    account: str = ACCOUNT,
    namespace: str = NAMESPACE,
) -> None:
    """Apply it; the account has all rights that roles give it then, of which servers hear late."""
    objects = list(shipped)
    told = cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    if all(line.endswith(" unchanged") for line in told.splitlines()):
        return
    wait_for_rights(cluster, objects, account=account, namespace=namespace)


def wait_for_rights(
    cluster: ControlPlane, roles: Iterable[Manifest], *, account: str, namespace: str
) -> None:
    """Servers hear of roles late: until the account may do what these allow."""
    rights = [right for one in roles for right in _rights(one)]
    user = _user(account, namespace)
    wait_until(lambda: all(_allowed(cluster, user, rights)), what=f"{user} has its rights")


@contextmanager
def allowing_to_untaint(cluster: ControlPlane) -> Iterator[None]:
    """With the component that those add who turn `removeStartupTaints` on."""
    with _component(cluster, "startup-taints"):
        yield


@contextmanager
def allowing_scale_down(cluster: ControlPlane) -> Iterator[None]:
    """With the component that those add who turn `scaleDownEnabled` on."""
    with _component(cluster, "scale-down"):
        yield


@contextmanager
def allowing_second_replicas(cluster: ControlPlane) -> Iterator[None]:
    """With the component that those add who turn `surgeSingleReplicas` on."""
    with _component(cluster, "surge"):
        yield


@contextmanager
def allowing_headroom(cluster: ControlPlane) -> Iterator[None]:
    """With the component that those add who turn `capacityBuffers` on."""
    with _component(cluster, "headroom"):
        yield


@contextmanager
def allowing_provisioning_requests(cluster: ControlPlane) -> Iterator[None]:
    """With the component that those add who turn `provisioningRequests` on."""
    with _component(cluster, "provisioning-requests"):
        yield


@contextmanager
def _component(cluster: ControlPlane, name: str) -> Iterator[None]:
    component = cluster.kubectl("kustomize", str(OVERLAY.parent / name))
    install(cluster, yaml.safe_load_all(component))
    try:
        yield
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=component)


def arguments(cluster: ControlPlane) -> list[str]:
    """What the Deployment calls the program with."""
    (deployment,) = (one for one in manifests(cluster) if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return [str(argument) for argument in container["args"]]


def take_right(cluster: ControlPlane, role: str, *, resource: str, verbs: set[str]) -> None:
    """Write a ClusterRole anew, as shipped but without some verbs on a resource.

    The account does not have them any more when this returns.
    """
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
    taken = [one for one in _rights(found) if one.resource == resource and one.verb in verbs]
    user = _user(ACCOUNT, NAMESPACE)
    wait_until(lambda: not any(_allowed(cluster, user, taken)), what="the rights are taken")


def _user(account: str, namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"


def _rights(role: Manifest) -> Iterator[Right]:
    """All that a role allows, apart from what it says of single objects."""
    if role["kind"] not in ("ClusterRole", "Role"):
        return
    for rule in role["rules"]:
        if "resourceNames" in rule:
            continue
        for group in rule.get("apiGroups", ()):
            for resource in rule.get("resources", ()):
                for verb in rule["verbs"]:
                    yield Right(verb, group, resource, role["metadata"].get("namespace", ""))


def _allowed(cluster: ControlPlane, user: str, rights: list[Right]) -> list[bool]:
    """What the server answers when it is asked whether somebody may."""
    asked = [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user,
                "resourceAttributes": {
                    "verb": right.verb,
                    "group": right.group,
                    "resource": right.resource.partition("/")[0],
                    "subresource": right.resource.partition("/")[2],
                    "namespace": right.namespace,
                },
            },
        }
        for right in rights
    ]
    told = cluster.kubectl(
        "create", "-f", "-", "-o", r'jsonpath={.status.allowed}{"\n"}',
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": asked}),
    )  # fmt: skip
    return [line == "true" for line in told.split()]
