"""Simulations that are recorded and replayed, and traces of clusters that nobody simulated."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.simulation.scenarios import example
from tonnage.errors import InputError
from tonnage.report import timeline
from tonnage.report.timeline import Timeline
from tonnage.simulation import recording, runner
from tonnage.simulation.replay import scenario
from tonnage.simulation.replay.scenario import Replay, ReplaySettings
from tonnage.traces.reader import TraceFiles

pytestmark = pytest.mark.xdist_group("replay")  # played once, for all tests

PLAYED = {
    "scale-from-one": 600.0,
    "driver-crash": 900.0,
    "scale-down": 2700.0,
    "local-capacity": 400.0,
}
"""Examples and how much of them."""


@cache
def recorded(name: str, directory: Path) -> tuple[Path, Timeline]:
    path = directory / f"{name}.jsonl.gz"
    return path, recording.recorded(example(name).with_duration(PLAYED[name]), path)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.mark.parametrize("name", sorted(PLAYED))
def test_a_recorded_simulation_replays_to_the_same_bytes(traces: Path, name: str) -> None:
    path, first = recorded(name, traces)
    again = scenario.play(scenario.replayed(TraceFiles([path]), ReplaySettings()))
    assert timeline.encoded(again) == timeline.encoded(first)


def test_recording_changes_nothing(traces: Path) -> None:
    _, first = recorded("scale-from-one", traces)
    plain = runner.simulate(example("scale-from-one").with_duration(PLAYED["scale-from-one"]))
    assert timeline.encoded(plain) == timeline.encoded(first)


def test_the_same_simulation_writes_the_same_trace(traces: Path, tmp_path: Path) -> None:
    path, _ = recorded("scale-from-one", traces)
    again = tmp_path / "again.gz"
    recording.recorded(example("scale-from-one").with_duration(600.0), again)
    assert path.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("name", ["scale-down"])
def test_what_happened_is_counted_from_the_trace_alone(traces: Path, name: str) -> None:
    path, run = recorded(name, traces)
    told, _ = scenario.compared(TraceFiles([path]), ReplaySettings(until=PLAYED[name]))
    for figure in (
        "pods_created",
        "pods_ran",
        "pending_peak",
        "nodes_bought",
        "nodes_deleted",
        "nodes_at_end",
        "evictions",
    ):
        assert getattr(told.summary, figure) == getattr(run.summary, figure), figure
    assert told.summary.pod_hours_pending == pytest.approx(run.summary.pod_hours_pending, abs=0.01)
    assert told.summary.cost == pytest.approx(run.summary.cost, rel=0.05)


def test_other_options_of_the_autoscaler_are_played(traces: Path) -> None:
    path, run = recorded("scale-down", traces)
    settings = ReplaySettings(options={"scaleDownEnabled": False})
    kept = scenario.play(scenario.replayed(TraceFiles([path]), settings))
    assert run.summary.nodes_deleted > 0
    assert kept.summary.nodes_deleted == kept.summary.evictions == 0


def test_a_trace_that_was_cut_off_is_played_up_to_there(traces: Path, tmp_path: Path) -> None:
    path, _ = recorded("scale-down", traces)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(path.read_bytes()[:-2000])
    replay = scenario.replayed(TraceFiles([cut]), ReplaySettings())
    assert replay.simulation.spec.duration < PLAYED["scale-down"]
    assert "cut off" in replay.notes[0]


# Traces of clusters


HEAD = {
    "apiVersion": "tonnage.dev/v1alpha1",
    "kind": "Trace",
    "format": 1,
    "name": "cluster",
    "startedAt": "2026-01-01T00:00:00Z",
    "nodeGroups": [{"metadata": {"name": "g"}, "spec": {"maxSize": 3, "pricePerHour": "1"}}],
}
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def node(name: str, *, group: str = "g", ready: bool = True, **spec: Any) -> dict[str, Any]:
    labels = {"kwok.tonnage.dev/group": group} if group else {}
    told = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name, "labels": labels, "uid": f"node-{name}"},
        "spec": spec,
        "status": {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": told},
    }


def pod(name: str, owner: tuple[str, str] | None = None, **parts: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": name}
    if owner is not None:
        kind, uid = owner
        meta["ownerReferences"] = [
            {"apiVersion": "x/v1", "kind": kind, "name": uid, "uid": uid, "controller": True}
        ]
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    status = parts.pop("status", {})
    return {"metadata": meta | parts.pop("meta", {}), "spec": spec | parts, "status": status}


class Story:
    """A trace, line by line."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def put(self, at: float, kind: str, tree: dict[str, Any]) -> "Story":
        meta = tree["metadata"]
        named = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
        self.lines.append({"at": at, "kind": kind, "name": named, "object": tree})
        return self

    def gone(self, at: float, kind: str, name: str) -> "Story":
        self.lines.append({"at": at, "kind": kind, "name": name, "gone": True})
        return self

    def known(self) -> "Story":
        self.lines.append({"at": 0, "known": True})
        return self

    def replay(self, path: Path, until: float, **settings: Any) -> Replay:
        lines = [HEAD, *self.lines, {"at": until, "end": "duration"}]
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode() + b"\n"))
        return scenario.replayed(TraceFiles([path]), ReplaySettings(**settings))


def deeds(replay: Replay) -> list[tuple[float, str]]:
    return [(action.at, action.deed) for action in replay.simulation.spec.script]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl.gz"


def test_replicas_that_were_changed_are_given_and_the_pods_are_not(path: Path) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}

    def workload(replicas: int) -> dict[str, Any]:
        return {
            "metadata": {"name": "web", "namespace": "default", "uid": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"a": "b"}},
                "template": template,
            },
        }

    story = Story().put(0, "nodes", node("n1")).put(0, "replicasets.apps", workload(1)).known()
    story.put(60, "replicasets.apps", workload(4)).put(
        61, "pods", pod("web-x", ("ReplicaSet", "web"))
    )
    replay = story.replay(path, 300)
    assert deeds(replay) == [(60, "scale")]
    assert scenario.play(replay).summary.pods_ran == 4


def test_pods_of_a_job_run_as_long_as_they_did(path: Path) -> None:
    job = {
        "metadata": {"name": "work", "namespace": "default", "uid": "work"},
        "spec": {
            "parallelism": 1,
            "completions": 2,
            "template": {"spec": pod("x", restartPolicy="Never")["spec"]},
        },
    }
    story = Story().put(0, "nodes", node("n1")).known().put(10, "jobs.batch", job)
    at = 11.0
    for name, seconds in (("work-a", 30.0), ("work-b", 90.0)):
        of = ("Job", "work")
        story.put(at, "pods", pod(name, of, status={"phase": "Running"}))
        at += seconds
        story.put(at, "pods", pod(name, of, status={"phase": "Succeeded"}))
    replay = story.replay(path, 600)
    (action,) = replay.simulation.spec.script
    (tree,) = action.apply or ()
    annotations = tree["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"tonnage.dev/runs-for": "30.000s,90.000s"}
    ended = runner.played(replay.simulation, start=replay.start)
    statuses = [one.tree["status"] for one in ended.server.store.built_in("pods").within()]
    assert [one["phase"] for one in statuses] == ["Succeeded", "Succeeded"]


def test_a_pod_of_a_controller_that_nobody_plays_comes_and_goes_as_it_did(path: Path) -> None:
    story = Story().put(0, "nodes", node("n1")).known()
    story.put(30, "pods", pod("kafka-0", ("Kafka", "k"))).gone(90, "pods", "default/kafka-0")
    replay = story.replay(path, 200)
    assert deeds(replay) == [(30, "apply"), (90, "delete")]
    run = scenario.play(replay)
    assert (run.summary.pods_created, run.samples[-1].pods.running) == (1, 0)


def test_an_evicted_pod_of_such_a_controller_and_its_successor_are_one(path: Path) -> None:
    taken = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    story = Story().put(0, "nodes", node("n1")).known()
    story.put(30, "pods", pod("kafka-0", ("Kafka", "k")))
    story.put(60, "pods", pod("kafka-0", ("Kafka", "k"), status={"conditions": taken}))
    story.gone(61, "pods", "default/kafka-0").put(62, "pods", pod("kafka-0", ("Kafka", "k")))
    assert deeds(story.replay(path, 200)) == [(30, "apply")]


def test_such_a_pod_is_made_again_when_the_replay_loses_its_node(path: Path) -> None:
    story = Story().put(0, "nodes", node("n1")).put(0, "nodes", node("n2")).known()
    story.put(10, "pods", pod("kafka-0", ("Kafka", "k"))).gone(60, "nodes", "n1")
    story.gone(61, "nodes", "n2")
    replay = story.replay(path, 400)
    assert deeds(replay) == [(10, "apply"), (60, "lose"), (61, "lose")]
    assert scenario.play(replay).samples[-1].pods.running == 1


def test_nodes_that_an_autoscaler_took_away_are_not_given(path: Path) -> None:
    leaving = [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]
    story = Story().put(0, "nodes", node("n1")).known()
    story.put(50, "nodes", node("n1", taints=leaving)).gone(60, "nodes", "n1")
    assert deeds(story.replay(path, 100)) == []


def test_a_node_that_was_not_ready_is_not_ready_again_for_as_long(path: Path) -> None:
    story = Story().put(0, "nodes", node("n1")).known()
    story.put(50, "nodes", node("n1", ready=False)).put(80, "nodes", node("n1"))
    (action,) = story.replay(path, 100).simulation.spec.script
    assert action.not_ready is not None
    assert (action.at, action.not_ready.lasts, action.not_ready.nodes) == (50, 30, ("n1",))


def test_nodes_of_no_group_come_and_go_as_they_did(path: Path) -> None:
    story = Story().put(0, "nodes", node("n1")).known()
    story.put(50, "nodes", node("extra", group="")).gone(90, "nodes", "extra")
    assert deeds(story.replay(path, 100)) == [(50, "apply"), (90, "delete")]


def test_nodes_that_were_bought_are_decided_anew_and_their_delays_are_measured(path: Path) -> None:
    story = Story().put(0, "nodes", node("n1")).known()
    story.put(50, "nodes", node("g-2", ready=False)).put(95, "nodes", node("g-2"))
    replay = story.replay(path, 100)
    assert deeds(replay) == []
    assert replay.simulation.spec.world.start.least == 45.0


def test_other_groups_take_the_place_of_the_recorded_ones(path: Path) -> None:
    from tonnage.objects.scenarios import NodeGroup

    group = msgspec.convert(
        {"metadata": {"name": "g"}, "spec": {"maxSize": 9, "pricePerHour": "2"}}, NodeGroup
    )
    story = Story().put(0, "nodes", node("n1")).known()
    replay = story.replay(path, 3600, node_groups=(group,))
    assert scenario.play(replay).summary.cost == pytest.approx(2.0, rel=0.01)


def test_a_wrong_option_is_an_error(path: Path) -> None:
    with pytest.raises(InputError, match="expandr"):
        Story().put(0, "nodes", node("n1")).known().replay(path, 9, options={"expandr": "price"})


def namespace(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"namespace-{name}", **meta}}


def test_a_namespace_on_its_way_out_is_there_until_it_is_gone(path: Path) -> None:
    leaving = namespace("old", deletionTimestamp="2026-01-01T00:00:00Z")
    story = Story().put(0, "nodes", node("n1")).put(0, "namespaces", leaving)
    story.put(0, "pods", pod("a", meta={"namespace": "old"})).known()
    replay = story.gone(20, "pods", "old/a").gone(30, "namespaces", "old").replay(path, 300)
    assert scenario.play(replay).summary.pods_created == 1


def test_a_pod_that_is_shown_before_its_namespace_is_played_in_it(path: Path) -> None:
    story = Story().put(0, "nodes", node("n1")).known()
    story.put(60, "pods", pod("a", meta={"namespace": "new"}))
    replay = story.put(60.1, "namespaces", namespace("new")).replay(path, 300)
    assert [at for at, _ in deeds(replay)] == [60]
    assert scenario.play(replay).summary.pods_ran == 1


def test_namespaces_that_a_trace_does_not_have_are_assumed(path: Path) -> None:
    story = Story().put(0, "nodes", node("n1"))
    story.put(0, "pods", pod("a", meta={"namespace": "one"})).known()
    replay = story.put(60, "pods", pod("b", meta={"namespace": "two"})).replay(path, 300)
    assert scenario.play(replay).summary.pods_ran == 2
