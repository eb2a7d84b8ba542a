"""How the command line behaves whatever is asked: errors, colours, times, completion."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from tests.cli.liveserver import LiveCluster, live_cluster
from tests.cluster.apiserver import answer, status
from tonnage.cli.app import COMMANDS, program
from tonnage.objects.pods import Pod
from tonnage.testing import builders as make

EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "two-databases")


def run(*arguments: str, env: dict[str, str] | None = None, color: bool = False) -> Result:
    return CliRunner().invoke(program, list(arguments), env=env, color=color)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path) as running:
        running.add([make.namespace("default"), make.node("n1"), make.pod("p")])
        yield running


def asked(cluster: LiveCluster, *arguments: str) -> Result:
    return run("slots", "--kubeconfig", cluster.kubeconfig, *arguments)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pln"], "No such command 'pln'. Did you mean plan"),
        (["plan", "--expandr", "x"], "Did you mean '--expander'?"),
        (["slots", "-o", "xml"], "Invalid value for '-o' / '--output': 'xml' is not one of"),
        (["doctor", "--preview", "x"], "'--preview': 'x': expected opt-in=DRIVER"),
        (["slots", "-f", "/nonexistent"], "/nonexistent: no such file or directory"),
    ],
)
def test_every_error_is_one_line_in_one_style(arguments: list[str], told: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("tonnage: error: ")
    assert told in result.stderr


def test_who_is_not_logged_in_learns_it(cluster: LiveCluster) -> None:
    refused = answer(lambda: status(401, "Unauthorized", message="Unauthorized"))
    cluster.server.script("GET", "/version", *[refused] * 4)
    result = asked(cluster, "--context", "production")
    assert result.exit_code == 1
    assert f"context production, server {cluster.server.url}: " in result.stderr
    assert "you are not logged in" in result.stderr


@pytest.mark.parametrize(
    "page",
    [
        lambda: web.Response(status=302, headers={"Location": "https://sso.example.com"}),
        lambda: web.Response(status=403, text="<!DOCTYPE html><html><body>Log in</body></html>"),
    ],
    ids=["a redirection", "a page"],
)
def test_a_login_page_is_recognised(cluster: LiveCluster, page: object) -> None:
    cluster.server.script("GET", "/version", answer(page))  # type: ignore[arg-type]
    result = asked(cluster, "--request-timeout", "10s")
    assert "this is a login page or a proxy, not a Kubernetes API" in result.stderr
    assert "<html" not in result.stderr


def test_a_missing_right_is_named_with_the_context(cluster: LiveCluster) -> None:
    cluster.forbid(Pod)
    assert "context production, server https://" in asked(cluster).stderr


def test_a_server_that_says_nothing_is_not_waited_for(cluster: LiveCluster) -> None:
    cluster.server.freeze()
    result = asked(cluster, "--request-timeout", "100ms")
    cluster.server.thaw()
    assert (result.exit_code, "nothing came for 0.1 s" in result.stderr) == (1, True)


@pytest.mark.parametrize("given", ["5s", "5", "0.1m"])
def test_times_are_durations(given: str) -> None:
    assert run("plan", "-f", EXAMPLE, "--time-budget", given).exit_code == 0


def test_a_time_that_is_none_is_refused() -> None:
    assert "expected a duration such as 90s" in run("plan", "--time-budget", "soon").stderr


def test_colours_are_for_terminals() -> None:
    assert "\x1b[" in run("slots", "-f", EXAMPLE, color=True).stdout


@pytest.mark.parametrize(
    ("options", "env"),
    [
        ([], {"NO_COLOR": "1"}),
        ([], {"TERM": "dumb"}),
        (["--color", "never"], {}),
        (["--color=never"], {"FORCE": ""}),
    ],
)
def test_colours_can_be_switched_off(options: list[str], env: dict[str, str]) -> None:
    assert "\x1b[" not in run(*options, "slots", "-f", EXAMPLE, env=env, color=True).stdout


def test_colours_can_be_asked_for() -> None:
    assert "\x1b[" in run("--color", "always", "slots", "-f", EXAMPLE).stdout


def test_the_package_is_a_program() -> None:
    command = [sys.executable, "-m", "tonnage", "limits", "show", "m5.large", "-o", "json"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(told)["kind"] == "LimitList"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_script(shell: str) -> None:
    assert "_TONNAGE_COMPLETE" in run("completion", shell).stdout


def completed(*words: str) -> str:
    line = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    return run(env={"_TONNAGE_COMPLETE": "bash_complete", **line}).stdout


def test_commands_and_options_are_completed() -> None:
    assert "plain,plan" in completed("tonnage", "pl")
    assert "plain,--expander" in completed("tonnage", "plan", "--exp")


def test_file_names_are_left_to_the_shell() -> None:
    assert completed("tonnage", "plan", "-f", "exa").startswith("file,")


def test_every_command_says_how_long_it_may_wait() -> None:
    readers = ("plan", "explain", "slots", "doctor", "export", "rescue", "why")
    for name in readers:
        opts = {opt for param in COMMANDS[name].load().params for opt in param.opts}
        assert "--request-timeout" in opts, name
