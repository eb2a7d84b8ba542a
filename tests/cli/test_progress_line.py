"""A sign of life while something takes long."""

import io
import sys
import time

import pytest

from tonnage.cli import progress_line


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
