"""`tonnage board`, `tonnage top` and the board of `tonnage run` as commands."""

import io
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli.app import program

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "two-databases"


def test_the_board_says_where_it_is_and_ends_when_told() -> None:
    command = [sys.executable, "-m", "tonnage", "board", "-f", str(EXAMPLE)]
    with subprocess.Popen(
        [*command, "--address", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        url = line.removeprefix("The board is at ").split()[0]
        with urllib.request.urlopen(f"{url}api/state") as answer:
            assert answer.status == 200
        os.kill(running.pid, signal.SIGINT)
        assert running.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["board", "--demo", "-f", "x.yaml"], "--demo has a cluster of its own"),
        (["board", "-f", str(EXAMPLE), "--address", ":8087"], "expected a certificate"),
        (["board", "--tls-cert-file", "a"], "--tls-private-key-file together"),
        (["board", "--address", "nowhere"], "expected HOST:PORT"),
        (["run", "--board-address", "0.0.0.0:1"], "--board-address 0.0.0.0:1: whoever reaches it"),
        (["run", "--board-address", "127.0.0.1:1", "--once"], "not --once"),
        (["run", "--board-client-ca-file", "a"], "expected --board-tls-cert-file beside it"),
    ],
)
def test_what_cannot_be_served_is_one_line_and_code_2(arguments: list[str], error: str) -> None:
    result = CliRunner().invoke(program, arguments)
    assert result.exit_code == 2
    assert error in result.stderr


def test_top_prints_the_rows_of_the_board_the_fullest_first() -> None:
    result = CliRunner().invoke(program, ["top", "-f", str(EXAMPLE)])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["NODE", "FULLEST", "CPU"]
    assert lines[1].startswith("aks-orders-1  100 % disk.csi.azure.com")
    assert lines[-1] == "3 pods wait for a node."


def test_the_picture_of_top_has_a_bar_for_every_lane() -> None:
    from rich.console import Console

    from tonnage import api
    from tonnage.cli import top

    console = Console(width=160, record=True, file=io.StringIO())
    console.print(top._picture(api.load(EXAMPLE), "name"))
    text = console.export_text()
    assert "██████████ 4 / 4" in text
    assert "4 nodes, 3 pods waiting" in text
