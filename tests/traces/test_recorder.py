"""A live cluster, recorded: over the embedded API in virtual time, and over HTTP as people do."""

import asyncio
import gzip
import json
import random
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.embeddedserver import EmbeddedCluster, embedded_cluster
from tonnage.cli.app import program
from tonnage.clock import virtual
from tonnage.clock.virtual import VirtualClock
from tonnage.cluster.client import Client
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.simulation.manifests import Manifests
from tonnage.traces import recorder
from tonnage.traces.log import TraceLog
from tonnage.traces.reader import TraceEvent, TraceFiles
from tonnage.traces.recorder import ClusterRecorder
from tonnage.traces.records import TraceHead
from tonnage.traces.writer import TraceWriter

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "secret-host", "labels": {"team": "payments"}},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "env": [{"name": "PASSWORD", "value": "hunter2"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container]},
    }


def recorded(path: Path, *, anonymise: bool = False, rotate: int | None = None) -> list[TraceEvent]:
    """A node at the beginning; a pod comes after 5 s and goes after 25; the end is at 40."""
    clock = VirtualClock()
    server = ApiServer(clock=clock, rng=random.Random(1))
    manifests = Manifests(server)
    paths: list[Path] = []

    async def main() -> None:
        manifests.apply(NODE)
        following = ClusterRecorder(
            Client(InProcessTransport(server), clock=clock, rng=random.Random(2)),
            clock=clock,
            rng=random.Random(3),
            start=lambda head: TraceLog(TraceWriter(path, head, rotate_after=rotate)),
            head=TraceHead(name="test", started_at=""),
            anonymise=anonymise,
        )
        running = asyncio.ensure_future(following.run(40.0))
        await clock.sleep(5.0)
        manifests.apply(pod("later"))
        await clock.sleep(20.0)
        manifests.delete("Pod", "later", namespace="default")
        await running
        assert following.log is not None
        paths.extend(following.log.writer.paths)

    virtual.run(main, clock=clock)
    return list(TraceFiles(paths).events())


def test_objects_of_the_beginning_and_every_change_are_in_it(tmp_path: Path) -> None:
    events = recorded(tmp_path / "t.gz")
    known = next(at for at, event in enumerate(events) if event.known)
    first = {(event.kind.plural, event.name) for event in events[:known] if event.kind}
    assert ("nodes", "secret-host") in first
    later = [event for event in events[known:] if event.kind and event.kind.plural == "pods"]
    assert [(round(event.at), event.after is None) for event in later] == [(5, False), (25, True)]
    assert (events[-1].end, round(events[-1].at)) == ("duration", 40)


def test_neither_secrets_nor_messages_are_in_it(tmp_path: Path) -> None:
    recorded(tmp_path / "t.gz")
    text = gzip.decompress((tmp_path / "t.gz").read_bytes())
    assert b"hunter2" not in text
    assert b"image" not in text


def test_an_anonymised_trace_has_no_name_in_it_also_of_what_came_later(tmp_path: Path) -> None:
    events = recorded(tmp_path / "t.gz", anonymise=True)
    text = gzip.decompress((tmp_path / "t.gz").read_bytes())
    for word in (b"secret", b"host", b"payments", b"later"):
        assert word not in text
    pods = [event for event in events if event.kind and event.kind.plural == "pods"]
    assert len({event.name for event in pods}) == 1
    assert len(pods) == 2


def test_a_recording_goes_on_in_another_file(tmp_path: Path) -> None:
    whole = recorded(tmp_path / "whole.gz")
    parts = recorded(tmp_path / "parts.gz", rotate=300)
    assert len(list(tmp_path.glob("parts*.gz"))) > 1
    assert [(one.at, one.name) for one in parts if one.kind] == [
        (one.at, one.name) for one in whole if one.kind
    ]


# As people do


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with embedded_cluster(tmp_path) as running:
        running.create("/api/v1/nodes", NODE)
        yield running


def record(cluster: EmbeddedCluster, *arguments: str) -> Result:
    return CliRunner().invoke(program, ["record", *arguments, "--kubeconfig", cluster.kubeconfig])


def test_a_cluster_is_recorded_over_http_and_replayed(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "BEAT", 0.05)
    target = tmp_path / "t.jsonl.gz"

    def make_a_pod_and_end() -> None:
        while not target.exists():
            time.sleep(0.01)
        post(cluster, "/api/v1/namespaces/default/pods", pod("later"))
        while "default/later" not in {event.name for event in TraceFiles([target]).events()}:
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)

    beside = threading.Thread(target=make_a_pod_and_end, daemon=True)
    beside.start()
    result = record(cluster, str(target))
    beside.join()
    assert result.exit_code == 0, result.output
    assert f"{target}: " in result.stderr
    played = CliRunner().invoke(program, ["replay", str(target), "-o", "json"])
    assert played.exit_code == 0, played.output
    first, second = json.loads(played.stdout)["runs"]
    assert (first["label"], first["summary"]["podsCreated"]) == ("recorded", 1)
    assert (second["label"], second["summary"]["podsCreated"]) == ("replayed", 1)


def post(cluster: EmbeddedCluster, path: str, tree: dict[str, Any]) -> None:
    """Over HTTP, so that the server hears of it in its own thread."""
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    server = config["clusters"][0]["cluster"]["server"]
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(server + path, json.dumps(tree).encode(), headers)
    urllib.request.urlopen(request, timeout=10).close()


def test_an_interrupt_ends_a_recording_cleanly(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    target = tmp_path / "t.gz"

    def interrupt() -> None:
        while not target.exists():
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    waiting = threading.Thread(target=interrupt, daemon=True)
    waiting.start()
    result = record(cluster, str(target))
    assert result.exit_code == 0, result.output
    trace = TraceFiles([target])
    assert [event.end for event in trace.events()][-1] == "interrupted"
    assert not trace.cut


def test_a_kind_that_may_not_be_read_is_named(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    cluster.server.kept_back = {"resourcequotas"}
    result = record(cluster, str(tmp_path / "t.gz"), "--for", "1s")
    assert result.exit_code == 0
    assert "without ResourceQuota objects" in result.stderr


def test_without_pods_there_is_no_trace(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    cluster.server.kept_back = {"pods"}
    result = record(cluster, str(tmp_path / "t.gz"), "--for", "1s")
    assert result.exit_code != 0
    assert "without them there is no trace" in result.stderr
    assert not (tmp_path / "t.gz").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["no/such/folder/t.gz"], "no such folder"),
        (["t.gz", "--rotate", "many"], "expected a size"),
        (["t.gz", "--for", "never"], "expected a duration"),
        (["t.gz", "--node-groups", "missing.yaml"], "no such file"),
    ],
)
def test_what_is_wrong_with_a_recording_is_one_line(
    cluster: EmbeddedCluster, arguments: list[str], problem: str
) -> None:
    result = record(cluster, *arguments)
    assert (result.exit_code, problem in result.stderr) == (2, True), result.stderr


def test_a_trace_is_never_overwritten(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    (tmp_path / "t.gz").write_text("precious")
    result = record(cluster, str(tmp_path / "t.gz"))
    assert (result.exit_code, "already" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["missing.gz"], "cannot be read"),
        (["{trace}", "--set", "nothing"], "expected NAME=VALUE"),
        (["{trace}", "--set", "expandr=price"], "expandr"),
        (["{trace}", "--world", "{trace}"], "--world"),
        (["{trace}", "--html", "no/such/folder/x.html"], "no such folder"),
    ],
)
def test_what_is_wrong_with_a_replay_is_one_line(
    tmp_path: Path, arguments: list[str], problem: str
) -> None:
    trace = tmp_path / "t.gz"
    recorded(trace)
    filled = [one.format(trace=trace) for one in arguments]
    result = CliRunner().invoke(program, ["replay", *filled])
    assert (result.exit_code, problem in result.stderr) == (2, True), result.stderr


def test_a_world_of_ones_own_takes_the_place_of_what_was_measured(tmp_path: Path) -> None:
    recorded(tmp_path / "t.gz")
    world = tmp_path / "world.yaml"
    world.write_text("world: {start: [10s, 1m]}\ncloud: {start: 2m}\n")
    arguments = ["replay", str(tmp_path / "t.gz"), "--world", str(world), "--alone"]
    assert CliRunner().invoke(program, arguments).exit_code == 0
    world.write_text("cloud: {begin: 2m}\n")
    result = CliRunner().invoke(program, arguments)
    assert (result.exit_code, "begin" in result.stderr) == (2, True)
