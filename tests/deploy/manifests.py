"""What is in deploy/: manifests as they are, and the rights they grant."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
Manifest = dict[str, Any]


class Right(NamedTuple):
    group: str
    resource: str
    verb: str


def documents(overlay: str) -> list[Manifest]:
    """All manifests an overlay lists, those of its bases too; patches are not among them."""
    directory = DEPLOY / overlay
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    found: list[Manifest] = []
    for name in kustomization["resources"]:
        path = (directory / name).resolve()
        if path.is_dir():
            found += documents(str(path.relative_to(DEPLOY)))
        else:
            found += [one for one in yaml.safe_load_all(path.read_text()) if one]
    return found


def of_kind(kind: str, overlay: str = "base") -> list[Manifest]:
    return [one for one in documents(overlay) if one["kind"] == kind]


def deployment() -> Manifest:
    (found,) = of_kind("Deployment")
    return found


def pod_spec() -> Manifest:
    spec: Manifest = deployment()["spec"]["template"]["spec"]
    return spec


def container() -> Manifest:
    (found,) = pod_spec()["containers"]
    return dict(found)


def rights(overlay: str) -> Iterator[Right]:
    """Everything an overlay and its bases allow."""
    for role in (*of_kind("ClusterRole", overlay), *of_kind("Role", overlay)):
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        yield Right(group, resource, verb)
