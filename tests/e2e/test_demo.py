"""`tonnage demo` from beginning to end, as a stranger runs it, and kubectl on what it leaves."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.controlplane import programs


@pytest.mark.patience(600)
def test_the_demo_tells_its_story_and_stays_for_kubectl(
    tmp_path: Path,
) -> None:
    program = Path(sys.executable).parent / "tonnage"
    demo = subprocess.Popen(
        [str(program), "demo", "--keep", "--html", str(tmp_path / "demo.html")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert demo.stdout is not None
    try:
        said = ""
        for line in demo.stdout:
            said += line
            if "tonnage why node/" in line:
                break
        found = re.search(r"export KUBECONFIG=(\S+)", said)
        assert found is not None, said
        names = subprocess.run(
            [str(programs() / "kubectl"), "--kubeconfig", found[1], "get", "csidrivers", "-oname"],
            # What kubectl has kept of another server on the same port is not to be found.
            env={"PATH": os.defpath, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "disks.example.com" in names.stdout
        answers = []
        for line in re.findall(r"^ +tonnage (plan .*|why .*)$", said, re.MULTILINE):
            told = subprocess.run(
                [str(program), *line.split()],
                env={"PATH": os.defpath, "HOME": str(tmp_path), "KUBECONFIG": found[1]},
                capture_output=True,
                text=True,
                check=False,
            )
            assert told.returncode == 0, told.stderr
            answers.append(told.stdout)
    finally:
        demo.send_signal(signal.SIGINT)
        ended = demo.wait(90)
        demo.stdout.close()
    assert ended == 0
    assert re.search(r"pods running +30 +\d+\n", said)
    charts = (tmp_path / "demo.html").read_text()
    assert "<svg" in charts
    assert re.search(r"Made by Tonnage \S+ on \S+ \S+ UTC with: tonnage demo --keep", charts)
    _, removal, pod, node = answers
    # The groups file knows its nodes: they stay because they are in use.
    assert "None of 8 nodes can go" in removal
    assert "node-without-group" not in removal
    assert "in-use" in removal
    assert pod.startswith("default/db-0: ")
    assert re.search(r"^group +db$", node, re.MULTILINE)
