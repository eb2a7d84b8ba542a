"""What docs/cli.md shows is what the commands print."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli import live
from tonnage.cli.app import program
from tonnage.cluster import resources

REPOSITORY = Path(__file__).parent.parent.parent
SESSIONS = re.findall(
    r"^```console\n\$ tonnage ([^\n]+)\n(.*?)^```$",
    (REPOSITORY / "docs" / "cli.md").read_text(),
    re.DOTALL | re.MULTILINE,
)


RIGHTS = dict(
    re.findall(
        r"^\| `tonnage ([^|]+?)` \| ([^\n]+) \|$",
        (REPOSITORY / "docs" / "deploying.md").read_text(),
        re.MULTILINE,
    )
)


@pytest.mark.parametrize(("command", "shown"), SESSIONS, ids=[command for command, _ in SESSIONS])
def test_the_output_in_the_documentation_is_real(
    monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert CliRunner().invoke(program, shlex.split(command)).output == shown


@pytest.mark.parametrize(
    ("commands", "plurals"),
    [
        ("explain`, `slots`, `plan", [resources.of(kind).plural for kind in live.NEEDED]),
        ("export", [resources.of(kind).plural for kind in live.WORKLOADS]),
        ("doctor", [kind.plural for kind in live.BESIDE]),
    ],
)
def test_the_rights_in_the_documentation_are_those_that_are_used(
    commands: str, plurals: list[str]
) -> None:
    listed = RIGHTS[commands].partition("list: ")[2].partition(". ")[0]
    without_groups = re.sub(r"\(`[a-z0-9.]+`\)", "", listed)
    told = re.split(r"[,;]", without_groups.replace(" ", ""))
    assert sorted(told) == sorted(plurals)
