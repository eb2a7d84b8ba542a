"""A real cluster recorded with the shipped role and no other right, and replayed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import yaml
from click.testing import CliRunner

from tests.deploy.manifests import documents
from tests.e2e import manifests
from tests.e2e.controlplane import wait_until
from tests.e2e.workspace import Workspace
from tonnage.cli.app import program
from tonnage.errors import InputError
from tonnage.traces.reader import TraceFiles

USER = "recorder"
MAIN = "from tonnage.cli import main; main()"


def names(trace: Path) -> set[str]:
    """What is in a trace so far; nothing before its beginning is written."""
    try:
        return {event.name for event in TraceFiles([trace]).events()}
    except InputError:
        return set()


def test_what_happens_is_recorded_with_the_rights_of_the_shipped_role(
    work: Workspace, tmp_path: Path
) -> None:
    (role,) = documents("record")
    work.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(role))
    work.cluster.kubectl(
        "create", "clusterrolebinding", work.name("record"),
        "--clusterrole=tonnage-record", f"--user={USER}",
    )  # fmt: skip
    trace = tmp_path / "trace.jsonl.gz"
    recording = subprocess.Popen(
        [
            sys.executable, "-c", MAIN, "record", str(trace),
            "--kubeconfig", str(work.cluster.kubeconfig(USER)),
        ],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until(trace.exists, what="the recording has begun", within=60)
        work.create(manifests.pod("later", namespace=work.namespace))
        key = f"{work.namespace}/later"
        wait_until(lambda: key in names(trace), what="the pod is in the trace", within=60)
    finally:
        recording.send_signal(signal.SIGINT)
        _, told = recording.communicate(timeout=30)
    assert recording.returncode == 0, told
    assert "without" not in told
    played = CliRunner().invoke(program, ["replay", str(trace), "-o", "json"])
    assert played.exit_code == 0, played.output
    happened, replayed = json.loads(played.stdout)["runs"]
    assert happened["summary"]["podsCreated"] == replayed["summary"]["podsCreated"] > 0
