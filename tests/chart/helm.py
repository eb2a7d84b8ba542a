"""The chart as Helm renders it, for tests that have one: `tools/go-tools build` makes it."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CHART = REPOSITORY / "deploy" / "chart"
NAMESPACE = "tonnage-system"
EVERYTHING = {
    "autoscaler": {"provider": "kwok", "debugRole": True},
    "scheduler": {"enabled": True},
    "extender": {"enabled": True, "certManager": True},
    "capacityTemplates": {"enabled": True},
    "nodeAgent": {"enabled": True},
    "networkPolicy": {"enabled": True, "hosts": ["10.0.0.0/16"]},
    "metrics": {
        "serviceMonitor": {"enabled": True, "extenderTLSConfig": {"insecureSkipVerify": True}},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
}

Manifest = dict[str, Any]


@cache
def program(name: str) -> str:
    """Where it is, or nothing."""
    tool = REPOSITORY / "tools" / "go-tools"
    found = subprocess.run([sys.executable, tool, "path", name], capture_output=True, text=True)
    return found.stdout.strip()


def required(name: str) -> pytest.MarkDecorator:
    """For a module whose tests need it: without it they are skipped in one line."""
    reason = f"{name} is not built: tools/go-tools build {name} (make e2e does)"
    return pytest.mark.skipif(not program(name), reason=reason)


def helm(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("helm"), *arguments], input=stdin, capture_output=True, text=True, check=False
    )


def render(
    values: Manifest | None = None,
    *,
    release: str = "tonnage",
    namespace: str = NAMESPACE,
    kubernetes: str = "1.37.0",
) -> list[Manifest]:
    """All manifests, or an assertion with what Helm says."""
    told = attempt(values, release=release, namespace=namespace, kubernetes=kubernetes)
    assert told.returncode == 0, told.stderr
    return [one for one in yaml.load_all(told.stdout, yaml.CSafeLoader) if one]


def attempt(
    values: Manifest | None = None,
    *,
    release: str = "tonnage",
    namespace: str = NAMESPACE,
    kubernetes: str = "1.37.0",
) -> subprocess.CompletedProcess[str]:
    return helm(
        "template", release, str(CHART), f"--namespace={namespace}",
        f"--kube-version={kubernetes}", "--values=-", stdin=yaml.safe_dump(values or {}),
    )  # fmt: skip


def only(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    (found,) = [one for one in manifests if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found
