"""A removal step by step: marked, drained, detached, deleted; and back where it is not to be."""

import json
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.autoscaler.scaledown.stage import (
    BEGIN,
    WORLD,
    Course,
    ScriptedDecider,
    budget,
    marks,
    nodes,
    play,
    running_pods,
)
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.scaledown.decision import Decider
from tonnage.autoscaler.scaledown.remover import HELD
from tonnage.clock.virtual import START
from tonnage.embedded.apiserver.store import Collection, Occurrence, Stored
from tonnage.embedded.world import Delay, DriverBehaviour
from tonnage.service.moving_pods import NOTE
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Cut, ScenarioAction, Tree


def evictions(course: Course) -> list[str]:
    return [word for word in course.words() if word.startswith("evicted")]


def attachment(volume: str, node: Stored) -> Tree:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": f"csi-{volume}"},
        "spec": {
            "attacher": "nobody.example.com",
            "nodeName": node.name,
            "source": {"persistentVolumeName": volume},
        },
    }


def pod_on(node: Stored) -> Tree:
    """A pod that lands where none should, as one that tolerates everything may."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "late", "namespace": "default"},
        "spec": {"nodeName": node.name, "containers": [{"name": "main"}]},
    }


def test_an_empty_node_is_marked_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, course = play(monkeypatch)
    assert (course.words(), len(nodes(ensemble))) == (["marked", "gone"], 2)


def test_a_node_is_marked_as_upstream_does(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tree] = []
    play(monkeypatch, when_marked=lambda _, node: seen.append(node.tree["spec"]), duration=110)
    taint = seen[0]["taints"][-1]
    assert (taint["key"], taint["effect"]) == ("ToBeDeletedByClusterAutoscaler", "NoSchedule")
    assert BEGIN <= int(taint["value"]) - START.timestamp() <= BEGIN + 10
    assert seen[0]["unschedulable"] is True


def test_a_pod_moves_and_its_volume_is_detached_before_the_node_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ensemble, course = play(monkeypatch, sets=3)
    assert course.words() == [
        "marked", "evicted db-0", "ended db-0", "detached", "ready db-0", "gone",
    ]  # fmt: skip
    assert running_pods(ensemble) == 3


def test_replicas_of_a_set_move_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _, course = play(monkeypatch, sets=6)
    moves = [word for word in course.words() if word.startswith(("evicted", "ready"))]
    assert len(moves) == 4
    assert [word.split()[0] for word in moves] == ["evicted", "ready"] * 2


def test_pods_of_a_deployment_move_together(monkeypatch: pytest.MonkeyPatch) -> None:
    _, course = play(monkeypatch, pods=6)
    assert [word.split()[0] for word in course.words()[:3]] == ["marked", "evicted", "evicted"]


def test_a_budget_that_allows_nothing_keeps_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, course = play(monkeypatch, sets=3, objects=(budget("db", maxUnavailable=0),))
    assert (course.words(), marks(ensemble)) == (["marked", "released"], 0)


def test_an_eviction_is_tried_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = ScenarioAction(at=BEGIN + 30, apply=(budget("db", maxUnavailable=1),))
    ensemble, course = play(
        monkeypatch, sets=3, objects=(budget("db", maxUnavailable=0),), script=(freed,)
    )
    assert (course.words()[-1], len(nodes(ensemble))) == ("gone", 2)


def test_a_pod_that_lands_on_an_empty_node_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, course = play(
        monkeypatch, when_marked=lambda ensemble, node: ensemble.manifests.apply(pod_on(node)),
        duration=110,
    )  # fmt: skip
    words = [word for word in course.words() if "late" not in word]
    assert (words, len(nodes(ensemble)), marks(ensemble)) == (["marked", "released"], 3, 0)


def test_what_speaks_against_it_now_keeps_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    class Objecting(ScriptedDecider):
        objecting = "its pods have no other place any more"

    _, course = play(monkeypatch, sets=3, decider=Objecting, duration=109)
    assert course.words() == ["marked", "released"]


class Slow(Decider):
    """Takes longer than it is from one round to the next, as a thread does in a large cluster."""

    def __init__(self, context: AutoscalingContext, *args: Any, **more: Any) -> None:
        async def slow(work: Callable[[], Any], /) -> Any:
            await context.clock.sleep(15.0)
            return await context.worker(work)

        super().__init__(context._replace(worker=slow), *args, **more)


def test_a_round_and_a_removal_that_is_judged_anew_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """There is one snapshot, and whoever decides changes it while he tries things out."""
    expected = DriverBehaviour(name="ebs.csi.aws.com", limit=5)
    ensemble, course = play(
        monkeypatch,
        pods=3,
        options={"scaleDownUnneededTime": 30, "scaleDownDelayAfterAdd": 0},
        decider=Slow,
        world=msgspec.structs.replace(WORLD, drivers=(*WORLD.drivers, expected)),
    )
    assert (course.words().count("gone"), running_pods(ensemble)) == (2, 3)
    assert [one.message for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_volumes_that_stay_attached_are_waited_for_no_longer_than_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = msgspec.structs.replace(WORLD, detach=Delay(500.0))
    _, course = play(
        monkeypatch,
        sets=3,
        world=world,
        options={"volumeDetachTimeout": 60, "replicaReadyTimeout": 900},
        duration=900,
    )
    waited = course.at("gone") - course.at("ended db-0")
    assert waited >= 60


def test_a_pod_that_lands_while_volumes_are_waited_for_keeps_the_node_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marked: list[tuple[float, Stored]] = []

    def attach(ensemble: Ensemble, node: Stored) -> None:
        marked.append((ensemble.accounts.now, node))
        ensemble.manifests.apply(attachment("left-over", node))

    def listen(ensemble: Ensemble) -> None:
        def land(*_: object) -> None:
            if marked and ensemble.accounts.now > marked[0][0] + 20:
                ensemble.manifests.apply(pod_on(marked.pop()[1]))

        ensemble.accounts.listeners.append(land)

    # Somebody writes something now and then.
    stirs = tuple(
        ScenarioAction(at=BEGIN + 5 * number, apply=(budget(f"b{number}", maxUnavailable=1),))
        for number in range(1, 12)
    )
    _, course = play(
        monkeypatch,
        world=msgspec.structs.replace(WORLD, detach=Delay(500.0)),
        when_marked=attach,
        prepare=listen,
        script=stirs,
        duration=BEGIN + 60,
    )
    assert 20 < course.at("released") - course.at("marked") < 40


def test_killed_in_the_middle_the_drain_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = ScenarioAction(at=BEGIN + 12, restart="autoscaler")
    ensemble, course = play(monkeypatch, sets=6, script=(killed,))
    assert (course.words()[-1], len(nodes(ensemble)), running_pods(ensemble)) == ("gone", 2, 6)
    assert len(evictions(course)) == 2


def test_marks_nobody_knows_of_are_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(ensemble: Ensemble, _: Stored) -> None:
        ensemble.manifests.delete("ConfigMap", "tonnage-state", namespace="kube-system")
        ensemble.restart("autoscaler")

    _, course = play(monkeypatch, when_marked=forget, duration=BEGIN + 30)
    assert course.words()[:2] == ["marked", "released"]


def test_a_node_whose_annotation_forbids_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(ensemble: Ensemble, node: Stored) -> None:
        key = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
        meta = {**node.meta, "annotations": {**node.meta.get("annotations", {}), key: "true"}}
        store = ensemble.server.store
        store.put(store.built_in("nodes"), {**node.tree, "metadata": meta}, node)

    _, course = play(monkeypatch, when_marked=forbid, duration=109)
    assert course.words() == ["marked", "released"]


def test_nothing_goes_on_what_is_not_to_be_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = ScenarioAction(at=0.0, cut=Cut(kinds=("PodDisruptionBudget",), lasts=300.0))
    _, course = play(monkeypatch, sets=3, script=(cut,), duration=200)
    assert course.words() == []


def test_the_pod_that_comes_is_nominated_for_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def listen(ensemble: Ensemble) -> None:
        def note(collection: Collection, occurrence: Occurrence) -> None:
            status = occurrence.after.tree.get("status", {}) if occurrence.after else {}
            if collection.kind.plural == "pods" and status.get("nominatedNodeName"):
                said.append(occurrence.subject.name)

        ensemble.accounts.listeners.append(note)

    # Nobody is in a hurry: the pod has to wait for the only scheduler to come back.
    away = ScenarioAction(at=BEGIN + 7, restart="scheduler")
    play(monkeypatch, sets=3, prepare=listen, script=(away,))
    assert set(said) <= {"db-0"}


def test_that_there_is_no_pod_at_all_is_not_believed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, course = play(monkeypatch, options={"maxNodeProvisionTime": 900}, duration=800)
    assert course.words() == []


def test_pods_that_are_said_to_be_gone_all_at_once_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = ScenarioAction(at=50.0, cut=Cut(kinds=("Pod",), answers="empty", lasts=300.0))
    ensemble, course = play(
        monkeypatch, sets=3, script=(cut,), options={"maxNodeProvisionTime": 900}, duration=300
    )
    assert (course.words(), len(nodes(ensemble))) == ([], 3)


def test_a_node_that_is_drained_says_where_its_pods_are_to_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: list[Any] = []
    play(
        monkeypatch,
        sets=2,
        when_marked=lambda _, node: notes.append(
            json.loads(node.tree["metadata"]["annotations"][NOTE])
        ),
        duration=110,
    )
    (note,) = notes
    places = {one["pod"]["metadata"]["name"]: one["node"] for one in note["pods"]}
    assert set(places) <= {"db-0", "db-1"}
    assert len(set(places.values())) == 1
    assert note["until"] - note["since"] == HELD


def test_a_drain_that_lasts_has_its_note_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def listen(ensemble: Ensemble) -> None:
        def take(collection: Collection, occurrence: Occurrence) -> None:
            after = occurrence.after
            if collection.kind.plural == "nodes" and after is not None:
                told = after.tree["metadata"].get("annotations", {}).get(NOTE)
                if told is not None and json.loads(told)["since"] not in seen:
                    seen.append(json.loads(told)["since"])

        ensemble.accounts.listeners.append(take)

    play(
        monkeypatch,
        pods=1,
        objects=(budget("web", minAvailable=1),),
        options={"maxPodEvictionTime": 900},
        prepare=listen,
        duration=BEGIN + HELD,
    )
    first, second = seen
    assert HELD / 2 < second - first < HELD / 2 + 30


def test_marks_and_note_are_taken_off_a_node_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    class Objecting(ScriptedDecider):
        objecting = "its pods have no other place any more"

    ensemble, _ = play(monkeypatch, sets=2, decider=Objecting, duration=109)
    assert not any(NOTE in node["metadata"].get("annotations", {}) for node in nodes(ensemble))


def large(name: str) -> Tree:
    """A pod that leaves no room on a node for anybody else."""
    requests = {"cpu": "63995m"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
    }


def test_nobody_takes_the_place_of_a_pod_while_it_is_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def crowd(ensemble: Ensemble, _: Stored) -> None:
        for name in ("large-0", "large-1"):
            ensemble.manifests.apply(large(name))

    _, course = play(monkeypatch, sets=1, when_marked=crowd, duration=300)
    placed = [word for word in course.words() if word.startswith("ready")]
    assert sorted(word.split()[1] for word in placed) in (["db-0", "large-0"], ["db-0", "large-1"])
    assert "gone" in course.words()
