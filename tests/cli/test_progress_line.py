"""A sign of life while something takes long."""

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from tests.docs.blocks import REPOSITORY
from tonnage.cli import progress_line
from tonnage.cli.app import program


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_work_shows_a_line_on_a_terminal_and_takes_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_line.shown("deciding", patience=0.001):
        deadline = time.monotonic() + 5
        while "deciding" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.001)
    assert terminal.getvalue() == f"\rdeciding, 0 s\r{' ' * 13}\r"


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress_line.shown("deciding"):
        pass
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with progress_line.shown("deciding", patience=0.0):
        time.sleep(0.01)
    assert file.getvalue() == ""


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("explain -o json", ["reading", "explaining"]),
        ("slots", ["reading"]),
        ("plan", ["reading", "deciding"]),
        ("plan --scale-down", ["reading", "deciding"]),
        ("plan --consolidate", ["reading", "deciding"]),
        ("advise", ["reading", "deciding"]),
        ("doctor", ["reading", "inspecting"]),
        ("export -", ["reading", "writing"]),
    ],
)
def test_commands_say_what_they_are_at(
    command: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    @contextmanager
    def shown(text: str | Callable[[], str]) -> Iterator[None]:
        seen.append((text if isinstance(text, str) else text()).partition(":")[0])
        yield

    monkeypatch.setattr(progress_line, "shown", shown)
    folder = str(REPOSITORY / "examples" / "two-databases")
    CliRunner().invoke(program, [*command.split(), "-f", folder])
    assert seen == told
