"""A sweep as an Indexed Job of Kubernetes, for those who have a cluster and nothing else.

Each index takes its part of the variants. Results come back as lines in the logs of its pods, or as
files on a volume, where a pod that is started again goes on where the one before it stopped.
"""

import base64
import hashlib
import re
from typing import Any, NamedTuple

from tonnage.errors import InputError

LARGEST = 1_000_000
"""Bytes of a bundle that a ConfigMap has room for: the API server lets it have 1 MiB."""

BUNDLE = "bundle.json.gz"
_FOLDER = "/sweep"
_RESULTS = "/results"
_TRIES = 3
_WRONG_INPUT = 2  # no try again can help

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class JobSettings(NamedTuple):
    """How the Job runs. Without a `claim` results are in its logs."""

    name: str
    namespace: str
    image: str
    parts: int
    parallelism: int
    claim: str = ""
    cpu: str = "1"
    memory: str = "1Gi"


def manifests(settings: JobSettings, packed: bytes) -> list[dict[str, Any]]:
    """The ConfigMap with the sweep, if it fits into one, and the Job."""
    _check(settings)
    fits = len(packed) <= LARGEST
    if not fits and not settings.claim:
        raise InputError(
            f"the sweep has {len(packed):,} bytes, packed, and a ConfigMap takes {LARGEST:,}: put"
            f" it on a volume as {BUNDLE} (--write-bundle), and give its --claim"
        )
    config = [_config_map(settings, packed)] if fits else []
    return [*config, _job(settings, config[0]["metadata"]["name"] if fits else "")]


def _check(settings: JobSettings) -> None:
    if not _NAME.fullmatch(settings.name) or len(settings.name) > 52:
        raise InputError(
            f"--job-name {settings.name!r}: expected at most 52 small letters, digits and dashes"
        )


def _labels(settings: JobSettings) -> dict[str, str]:
    return {"app.kubernetes.io/name": "tonnage-sweep", "app.kubernetes.io/instance": settings.name}


def _metadata(settings: JobSettings, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": settings.namespace, "labels": _labels(settings)}


def _config_map(settings: JobSettings, packed: bytes) -> dict[str, Any]:
    # Its content is in the name: a pod of an older sweep never reads a newer one's.
    name = f"{settings.name}-{hashlib.sha256(packed).hexdigest()[:10]}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(settings, name),
        "immutable": True,
        "binaryData": {BUNDLE: base64.b64encode(packed).decode()},
    }


def _job(settings: JobSettings, config_map: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(settings, settings.name),
        "spec": {
            "completionMode": "Indexed",
            "completions": settings.parts,
            "parallelism": min(settings.parallelism, settings.parts),
            # An index that fails for good takes no other with it.
            "backoffLimitPerIndex": _TRIES,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "Ignore",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    },
                    {
                        "action": "FailIndex",
                        "onExitCodes": {
                            "containerName": "sweep",
                            "operator": "In",
                            "values": [_WRONG_INPUT],
                        },
                    },
                ]
            },
            "template": {
                "metadata": {"labels": _labels(settings)},
                "spec": _pod(settings, config_map),
            },
        },
    }


def _pod(settings: JobSettings, config_map: str) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    if config_map:
        volumes.append({"name": "sweep", "configMap": {"name": config_map}})
        mounts.append({"name": "sweep", "mountPath": _FOLDER, "readOnly": True})
    if settings.claim:
        claim = {"claimName": settings.claim}
        volumes.append({"name": "results", "persistentVolumeClaim": claim})
        mounts.append({"name": "results", "mountPath": _RESULTS})
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "sweep",
                "image": settings.image,
                "args": _arguments(settings, _FOLDER if config_map else _RESULTS),
                "resources": {
                    "requests": {"cpu": settings.cpu, "memory": settings.memory},
                    "limits": {"memory": settings.memory},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }


def _arguments(settings: JobSettings, folder: str) -> list[str]:
    """The index comes as JOB_COMPLETION_INDEX, which the Job controller sets."""
    arguments = ["sweep", f"--bundle={folder}/{BUNDLE}", f"--parts={settings.parts}", "--jobs=1"]
    if settings.claim:
        part = f"{_RESULTS}/{settings.name}-part-$(JOB_COMPLETION_INDEX).jsonl"
        return [*arguments, f"--results={part}", "--resume", "--output=none"]
    return [*arguments, "--output=jsonl"]


def part_of(count: int, part: int, parts: int) -> range:
    """The variants of one part: beside each other, because neighbours share work."""
    return range(count * part // parts, count * (part + 1) // parts)
