"""How the command starts and how it ends, whatever the command."""

import gzip
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner

from tonnage.cli.app import COMMANDS, Program, program
from tonnage.cli.lazy import LazyCommand
from tonnage.errors import ClusterError, InputError

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-databases"
HEAVY = ("numpy", "msgspec", "rich", "yaml")


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


class Ending(NamedTuple):
    exit_code: int
    stderr: str


@pytest.fixture
def ending_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], Ending]:
    """How the program ends when its command raises what it is given."""

    def end(error: BaseException) -> Ending:
        @click.command()
        def fail() -> None:
            raise error

        module = ModuleType("made_up")
        monkeypatch.setattr(module, "fail", fail, raising=False)
        monkeypatch.setitem(sys.modules, "made_up", module)
        group = Program("tonnage", lazy={"fail": LazyCommand("made_up:fail", "Fail.")})
        result = CliRunner().invoke(group, ["fail"])
        return Ending(result.exit_code, result.stderr)

    return end


@pytest.mark.parametrize("package", HEAVY)
def test_help_does_not_import(package: str) -> None:
    code = f"""
import sys
from tonnage.cli.app import program
program(["--help"], standalone_mode=False)
sys.exit({package!r} in sys.modules)
"""
    assert run_python(code).returncode == 0


def test_a_plan_loads_nothing_that_it_does_not_use() -> None:
    unused = (
        "tonnage.optimise.solver",
        "tonnage.scaleup.whatif",
        "tonnage.report",
        "tonnage.nodeagent",
        "hashlib",
        "html",
        "importlib.resources",
        "numpy.ma",
        "numpy.random",
        "statistics",
        "zoneinfo",
    )
    code = f"""
import sys
from tonnage.cli.app import program
program(["plan", "-f", {str(EXAMPLE)!r}, "-o", "json"], standalone_mode=False)
sys.exit(" ".join(name for name in {unused!r} if name in sys.modules) or 0)
"""
    ran = run_python(code)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(("command", "lasts"), [("plan", False), ("run", True)])
def test_only_a_program_that_lasts_looks_for_cycles_as_often_as_python(
    command: str, *, lasts: bool
) -> None:
    code = f"""
import atexit, gc, os, sys
usual = gc.get_threshold()
atexit.register(lambda: print(gc.get_threshold() == usual, os.environ["OPENBLAS_NUM_THREADS"]))
sys.argv = ["tonnage", {command!r}, "--help"]
from tonnage.cli import main
main()
"""
    ran = run_python(code)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, f"{lasts} 1")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_registered_command_can_be_loaded(name: str) -> None:
    assert COMMANDS[name].load().name == name


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_the_program_names_the_command_and_its_summary(name: str) -> None:
    lines = CliRunner().invoke(program, ["--help"]).stdout.splitlines()
    assert [name, COMMANDS[name].summary] in [line.strip().split(maxsplit=1) for line in lines]


def test_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(program, ["--version"], prog_name="tonnage")
    assert result.stdout.split()[0] == "tonnage"
    assert result.stdout.split()[1][0].isdigit()


def test_an_unknown_command_is_wrong_usage() -> None:
    result = CliRunner().invoke(program, ["nonsense"])
    assert (result.exit_code, "No such command 'nonsense'" in result.stderr) == (2, True)


def test_an_attribute_that_is_no_command_is_refused() -> None:
    with pytest.raises(TypeError, match="not a click command"):
        LazyCommand("tonnage.cli.app:COMMANDS", "").load()


def test_wrong_input_is_one_line_and_code_2(
    ending_with: Callable[[BaseException], Ending],
) -> None:
    assert ending_with(InputError("pods.yaml: no\nkind")) == (
        2,
        "tonnage: error: pods.yaml: no kind\n",
    )


def test_another_failure_is_one_line_and_code_1(
    ending_with: Callable[[BaseException], Ending],
) -> None:
    assert ending_with(ClusterError("no answer")) == (1, "tonnage: error: no answer\n")


def test_an_interrupt_is_code_130_and_says_nothing(
    ending_with: Callable[[BaseException], Ending],
) -> None:
    assert ending_with(KeyboardInterrupt()) == (130, "")


def test_input_that_was_cut_off_is_wrong_input(
    ending_with: Callable[[BaseException], Ending],
) -> None:
    with pytest.raises(EOFError) as raised:
        gzip.decompress(gzip.compress(b"scenario" * 100)[:-10])
    code, message = ending_with(raised.value)
    assert (code, message.startswith("tonnage: error: Compressed file ended")) == (2, True)


def test_a_reader_that_stops_reading_ends_the_program_quietly() -> None:
    code = """
import click, sys, types
from tonnage.cli.app import Program
from tonnage.cli.lazy import LazyCommand
@click.command()
def talk():
    for _ in range(100_000):
        print("more than a pipe can hold")
sys.modules["made_up"] = types.ModuleType("made_up")
sys.modules["made_up"].talk = talk
group = Program("tonnage", lazy={"talk": LazyCommand("made_up:talk", "Talk.")})
group(["talk"])
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE
