"""`tonnage sweep` run, and what it printed."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tonnage.cli.app import program

NOW = "--now=2026-01-01T00:00:00Z"


def run(*arguments: str, env: dict[str, str] | None = None, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(program, ["sweep", *arguments], env=env, input=stdin)


def lines(text: str) -> list[dict[str, Any]]:
    """The results in lines, without their head."""
    head, *rest = map(json.loads, text.splitlines())
    assert head["kind"] == "SweepResults"
    return rest


def results(*arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """The results of a sweep in this process, in the order of its variants."""
    ended = run(*arguments, NOW, "-j1", "-o", "jsonl")
    assert ended.exit_code == code, ended.output
    return lines(ended.stdout)


def in_file(path: Path) -> list[dict[str, Any]]:
    return lines(path.read_text())
