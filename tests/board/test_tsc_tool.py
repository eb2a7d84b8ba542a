"""`tools/tsc`, with a PATH, a cache and an npm of the tests' own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.board.test_types import TSC

FETCHED = """
test "$1" = ci || exit 1
grep -q '"integrity": "sha512-' package-lock.json || exit 1
/bin/mkdir -p node_modules/.bin && echo > node_modules/.bin/tsc
"""


class Machine:
    """A machine with nothing on it but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bin"
        self.cache = folder / "cache"
        self.path.mkdir()

    def has(self, name: str, script: str = "exit 0") -> Path:
        program = self.path / name
        program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        program.chmod(0o755)
        return program

    def ask(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, TSC, *arguments],
            env={"PATH": str(self.path), "TONNAGE_CACHE": str(self.cache), **environment},
            capture_output=True,
            text=True,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_compiler_on_the_path_is_found(machine: Machine) -> None:
    assert machine.ask("path").stdout == "" == machine.ask("path", TONNAGE_NO_TSC="1").stdout
    assert machine.ask("path", PATH=str(machine.has("tsc").parent)).stdout.endswith("bin/tsc\n")


def test_one_is_fetched_into_the_cache_by_its_hash_and_found_again(machine: Machine) -> None:
    machine.has("node")
    machine.has("npm", FETCHED)
    fetched = machine.ask().stdout
    assert fetched.startswith(f"{machine.cache}/typescript/")
    machine.has("npm", "exit 1")
    assert machine.ask().stdout == machine.ask("path").stdout == fetched


def test_one_line_says_why_there_is_none(machine: Machine) -> None:
    assert machine.ask().stderr == "tsc: no TypeScript compiler here: put tsc on the PATH\n"
    machine.has("node")
    machine.has("npm", "echo 'npm error code EINTEGRITY' >&2; exit 1")
    refused = machine.ask()
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.endswith("cannot be fetched: npm error code EINTEGRITY\n")
    assert list(machine.cache.rglob("tsc")) == []
