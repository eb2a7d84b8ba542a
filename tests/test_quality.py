"""The checks of `make lint` as tests, so that one command says whether a change is good."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PROGRAMS = Path(sys.executable).parent


def check(program: str, *arguments: str) -> None:
    """Fail with everything the checker has to say, unless it is content."""
    command = [str(PROGRAMS / program), *arguments]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if run.returncode != 0:
        pytest.fail(run.stdout + run.stderr, pytrace=False)


def test_ruff_has_no_complaint() -> None:
    check("ruff", "check", "--no-fix", "--output-format=concise")


def test_every_file_is_formatted() -> None:
    check("ruff", "format", "--check", "--output-format=concise")


def test_every_type_holds() -> None:
    check("mypy")


def test_every_import_contract_is_kept() -> None:
    check("lint-imports", "--no-logo")


def test_the_lock_names_no_place_to_install_from() -> None:
    lines = (REPOSITORY / "requirements.lock").read_text().splitlines()
    code = [line.partition("#")[0] for line in lines]
    assert [line for line in code if "://" in line or line.startswith(("-", "/", "."))] == []


def test_the_lock_holds_every_dependency_of_the_project() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    names = {re.split(r"[^A-Za-z0-9._-]", requirement)[0] for requirement in wanted}
    lock = (REPOSITORY / "requirements.lock").read_text()
    assert names - set(re.findall(r"^([a-z0-9._-]+)==", lock, re.MULTILINE)) == set()
