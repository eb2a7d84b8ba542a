"""`tools/tsc`, with a PATH, a cache and an npm of the tests' own."""

from pathlib import Path

import pytest

from tests.bare_machine import Machine
from tests.board.test_types import TSC

FETCHED = """
test "$1" = ci || exit 1
grep -q '"integrity": "sha512-' package-lock.json || exit 1
/bin/mkdir -p node_modules/.bin && echo > node_modules/.bin/tsc
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, TSC)


def test_a_compiler_on_the_path_is_found(machine: Machine) -> None:
    assert machine.ask("path").stdout == "" == machine.ask("path", TONNAGE_NO_TSC="1").stdout
    compiler = machine.has(machine.path / "tsc")
    assert machine.ask("path", PATH=str(compiler.parent)).stdout.endswith("bin/tsc\n")


def test_one_is_fetched_into_the_cache_by_its_hash_and_found_again(machine: Machine) -> None:
    machine.has(machine.path / "node")
    machine.has(machine.path / "npm", FETCHED)
    fetched = machine.ask().stdout
    assert fetched.startswith(f"{machine.cache}/typescript/")
    machine.has(machine.path / "npm", "exit 1")
    assert machine.ask().stdout == machine.ask("path").stdout == fetched


def test_one_line_says_why_there_is_none(machine: Machine) -> None:
    assert machine.ask().stderr == "tsc: no TypeScript compiler here: put tsc on the PATH\n"
    machine.has(machine.path / "node")
    machine.has(machine.path / "npm", "echo 'npm error code EINTEGRITY' >&2; exit 1")
    refused = machine.ask()
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.endswith("cannot be fetched: npm error code EINTEGRITY\n")
    assert list(machine.cache.rglob("tsc")) == []
