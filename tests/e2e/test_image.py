"""The images, built without a container engine, run as the user they name."""

import subprocess
import sys
from pathlib import Path

from tests.chart.helm import REPOSITORY

GONE = "gone from the mirror"
"""What the tool says of a locked package that the next point release of Debian has replaced."""


def test_what_is_built_runs_as_its_user(tmp_path: Path) -> None:
    built = _image("build", tmp_path)
    if built.returncode != 0 and GONE in built.stderr:
        built = _image("build", tmp_path, "--newest")
    assert built.returncode == 0, built.stderr

    checked = _image("check", tmp_path)

    assert checked.returncode == 0, checked.stderr
    assert "tonnage: runs for" in checked.stdout
    assert "tonnage-node-agent: runs for" in checked.stdout


def _image(verb: str, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/image", verb, str(directory), *options]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
