"""`tools/chromium`, with a PATH, a cache and an apt-get of the tests' own."""

import os
import time
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from tests.bare_machine import Machine

TOOL = Path(__file__).resolve().parents[2] / "tools" / "chromium"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root installs a browser")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, TOOL)


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_a_browser_on_the_path_is_found(machine: Machine, name: str) -> None:
    program = machine.has(machine.path / name)
    assert machine.ask("path").stdout == f"{program}\n"


def test_a_browser_that_was_unpacked_in_the_cache_is_found(machine: Machine) -> None:
    program = machine.has(machine.cache / "chromium" / "chrome-linux64" / "chrome")
    assert machine.ask("path").stdout == f"{program}\n"


def test_one_line_says_what_to_install(machine: Machine) -> None:
    answer = machine.ask("path")
    assert answer.returncode == 3
    assert answer.stderr == "chromium: no browser here: install chromium and put it on the PATH\n"


def test_nothing_is_installed_when_no_browser_is_wanted(machine: Machine) -> None:
    machine.has(machine.path / "apt-get", f"echo asked > {machine.path}/asked")
    answer = machine.ask(TONNAGE_NO_BROWSER="1")
    assert answer.returncode == 3
    assert not (machine.path / "asked").exists()


@as_root
def test_what_was_installed_is_found(machine: Machine) -> None:
    machine.has(machine.path / "apt-get", f"[ -e {machine.path}/chromium ] || "
                f"/bin/ln -s /bin/true {machine.path}/chromium")  # fmt: skip
    answer = machine.ask()
    assert (answer.returncode, answer.stdout) == (0, f"{machine.path / 'chromium'}\n")


@as_root
def test_apt_is_asked_without_questions(machine: Machine) -> None:
    machine.has(machine.path / "apt-get", f'echo "$DEBIAN_FRONTEND $@" >> {machine.path}/asked')
    machine.ask()
    asked = (machine.path / "asked").read_text().splitlines()
    assert len(asked) == 3
    assert all(one.startswith("noninteractive --yes ") for one in asked)


@as_root
def test_why_it_cannot_be_installed_is_one_line(machine: Machine) -> None:
    machine.has(machine.path / "apt-get", "echo 'Reading lists'; echo 'E: no network'; exit 100")
    answer = machine.ask()
    assert answer.returncode == 3
    assert answer.stderr.splitlines()[1:] == ["chromium: chromium cannot be installed: no network"]


def test_an_apt_that_hangs_is_given_up(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has(machine.path / "apt-get", "/bin/sleep 60")
    monkeypatch.setenv("PATH", str(machine.path))
    tool = loaded()
    with pytest.raises(tool.NoBrowserError, match="took too long"):
        tool.apt("update", deadline=time.monotonic() + 0.1)


def loaded() -> Any:
    """The tool as a module."""
    spec = spec_from_loader("chromium_tool", SourceFileLoader("chromium_tool", str(TOOL)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
