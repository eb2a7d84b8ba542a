"""What docs/cli.md shows is what the commands print."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli.app import program

REPOSITORY = Path(__file__).parent.parent.parent
SESSIONS = re.findall(
    r"^```console\n\$ tonnage ([^\n]+)\n(.*?)^```$",
    (REPOSITORY / "docs" / "cli.md").read_text(),
    re.DOTALL | re.MULTILINE,
)


@pytest.mark.parametrize(("command", "shown"), SESSIONS, ids=[command for command, _ in SESSIONS])
def test_the_output_in_the_documentation_is_real(
    monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert CliRunner().invoke(program, shlex.split(command)).output == shown
