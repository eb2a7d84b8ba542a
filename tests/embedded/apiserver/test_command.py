"""`tonnage embedded`, as a program of its own."""

import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli.app import program
from tonnage.clock import SystemClock
from tonnage.cluster import config
from tonnage.cluster.client import Client
from tonnage.cluster.http import HttpTransport
from tonnage.cluster.records import ConfigMap
from tonnage.objects.meta import ObjectMeta


@contextmanager
def started(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The running program, after it said where it listens; it ends well when it is interrupted."""
    command = [str(Path(sys.executable).with_name("tonnage")), "embedded", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stderr is not None
        assert re.search(r"listens on http://127\.0\.0\.1:\d+(/\*{3})?;", running.stderr.readline())
        try:
            yield running
        finally:
            running.send_signal(signal.SIGINT)
            assert running.wait(timeout=20) == 0


async def names(kubeconfig: Path, *, create: str = "") -> list[str]:
    clock = SystemClock()
    transport = HttpTransport(config.from_files([kubeconfig]), clock=clock, environ={})
    try:
        client = Client(transport, clock=clock, rng=random.Random(1))
        if create:
            meta = ObjectMeta(name=create, namespace="default")
            await client.create(ConfigMap, ConfigMap(metadata=meta))
        return [one.metadata.name for one in (await client.list(ConfigMap)).items]
    finally:
        await transport.close()


async def test_what_was_made_is_there_after_a_restart(tmp_path: Path) -> None:
    kubeconfig, data = tmp_path / "kubeconfig", tmp_path / "cluster.jsonl"
    options = ("--kubeconfig", str(kubeconfig), "--data", str(data))
    with started(*options) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("Try: kubectl --kubeconfig")
        await names(kubeconfig, create="kept")
    with started(*options) as running:
        assert running.stderr is not None
        running.stderr.readline()
        assert await names(kubeconfig) == ["kept"]


def test_without_a_file_the_kubeconfig_is_printed(tmp_path: Path) -> None:
    with started() as running:
        running.send_signal(signal.SIGINT)
        assert running.stdout is not None
        printed = tmp_path / "printed"
        printed.write_text(running.stdout.read())
    access = config.from_files([printed])
    assert access.endpoint.server.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--port", "99999"], "--port"),
        (["--data", "/nowhere/cluster.jsonl"], "/nowhere/cluster.jsonl: No such file"),
        (["--kubeconfig", "/nowhere/kubeconfig"], "/nowhere/kubeconfig: No such file"),
        (["--event-ttl", "soon"], "--event-ttl 'soon': expected a duration such as 1h or 10m"),
        (["--event-ttl", "0s"], "--event-ttl '0s': expected a duration"),
    ],
)
def test_a_wrong_option_is_one_line_and_code_2(arguments: list[str], complaint: str) -> None:
    ended = CliRunner().invoke(program, ["embedded", *arguments])
    assert ended.exit_code == 2
    assert complaint in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_that_is_taken_is_named_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = CliRunner().invoke(program, ["embedded", "--port", str(port)])
    told = f"tonnage: error: address 127.0.0.1:{port}: Address already in use\n"
    assert (ended.exit_code, ended.stderr) == (2, told)


def test_nobody_is_told_that_it_listens_before_the_kubeconfig_is_written() -> None:
    ended = CliRunner().invoke(program, ["embedded", "--kubeconfig", "/nowhere/kubeconfig"])
    assert "listens" not in ended.stderr
