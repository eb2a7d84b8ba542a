"""A sweep as an Indexed Job on a real control plane: its controller makes the pods, the test runs
what they say, as their kubelet would."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from tests.e2e.controlplane import ControlPlane, wait_until
from tests.e2e.workspace import Workspace
from tonnage.cli.app import program

REPOSITORY = Path(__file__).parent.parent.parent
EXAMPLE = str(REPOSITORY / "examples" / "two-databases")
GRID = ("--vary=limit=disk.csi.azure.com:4,8", "--vary=max-size=orders-1:1..3")
NOW = "--now=2026-01-01T00:00:00Z"
PARTS = 3
LABEL = "app.kubernetes.io/instance=tonnage-sweep"


def sweep(*arguments: str, stdin: str = "") -> str:
    ended = CliRunner().invoke(program, ["sweep", *arguments], input=stdin)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def pods(cluster: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    listed = cluster.kubectl("get", "pods", "-l", LABEL, "-o", "json", "-n", namespace)
    found: list[dict[str, Any]] = json.loads(listed)["items"]
    return found


def environment(pod: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
    """What the container finds set; the Job controller has put the index there."""
    found = {}
    for one in container.get("env", []):
        path = one["valueFrom"]["fieldRef"]["fieldPath"]
        field, _, key = path.removesuffix("']").partition("['")
        found[one["name"]] = pod["metadata"][field.removeprefix("metadata.")][key]
    return found


def mounted(cluster: ControlPlane, pod: dict[str, Any], folder: Path) -> None:
    """The pod's ConfigMap as files."""
    (volume,) = (one for one in pod["spec"]["volumes"] if "configMap" in one)
    namespace = pod["metadata"]["namespace"]
    config = cluster.get("configmap", volume["configMap"]["name"], namespace=namespace)
    for name, data in config["binaryData"].items():
        (folder / name).write_bytes(base64.b64decode(data))


def log_of(cluster: ControlPlane, pod: dict[str, Any], folder: Path) -> str:
    """What the container writes when it is run, and its end told to the server."""
    (container,) = pod["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    folder.mkdir()
    mounted(cluster, pod, folder)
    arguments = [one.replace(f"={mount['mountPath']}/", f"={folder}/") for one in container["args"]]
    given = environment(pod, container)
    assert list(given) == ["JOB_COMPLETION_INDEX"]
    run = subprocess.run(
        [Path(sys.executable).with_name("tonnage"), *arguments],
        env={"PATH": os.environ["PATH"], **given},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    terminated = {"terminated": {"exitCode": run.returncode, "reason": "Completed"}}
    status = {
        "phase": "Succeeded",
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": terminated,
            }
        ],
    }
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    patch = json.dumps({"status": status})
    told = ("--subresource=status", "--type=merge", "-p", patch, "-n", namespace)
    cluster.kubectl("patch", "pod", name, *told)
    return run.stdout + run.stderr


def test_every_index_does_its_part_and_the_logs_are_gathered(
    cluster: ControlPlane, work: Workspace, tmp_path: Path
) -> None:
    rendered = sweep(
        "-f", EXAMPLE, *GRID, NOW, "--render-job", f"--parts={PARTS}",
        f"--namespace={work.namespace}", "--image=tonnage",
    )  # fmt: skip
    cluster.create(*yaml.safe_load_all(rendered))
    wait_until(lambda: len(pods(cluster, work.namespace)) == PARTS, what="a pod for each index")
    made = pods(cluster, work.namespace)
    logs = [log_of(cluster, pod, tmp_path / pod["metadata"]["name"]) for pod in made]
    cluster.kubectl(
        "wait", "--for=condition=Complete", "job/tonnage-sweep", "-n", work.namespace,
        "--timeout=60s",
    )  # fmt: skip
    gathered, whole = tmp_path / "gathered.jsonl", tmp_path / "whole.jsonl"
    sweep("--gather=-", f"--results={gathered}", stdin="".join(logs))
    sweep("-f", EXAMPLE, *GRID, NOW, f"--results={whole}", "-j1")
    assert gathered.read_bytes() == whole.read_bytes()
    assert len(whole.read_text().splitlines()) == 1 + 6
