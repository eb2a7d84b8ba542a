"""Pods that name responders are moved by them, and evicted where nobody does."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.autoscaler.scaledown.stage import BEGIN, play
from tonnage.cluster.client import Client
from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.objects.evictions import EvictionRequest
from tonnage.objects.pods import Pod
from tonnage.simulation import random_scenarios
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Tree

Answer = Callable[[Ensemble, str], Coroutine[Any, Any, None]]
MOVED_AFTER = 50.0


def operated(**spec: Any) -> Tree:
    """Two pods of an operator, which is asked before they are evicted."""
    tree = random_scenarios.workload("op", {})
    template = tree["spec"]["template"]
    responders = [{"name": "operator.example.com/mover", "priority": 1000}]
    pods = {**template["spec"], "evictionResponders": responders, **spec}
    return {
        **tree,
        "spec": {**tree["spec"], "replicas": 2, "template": {**template, "spec": pods}},
    }


class Responders:
    """Stands for the controller of the server, and for the operator behind it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._tasks: list[asyncio.Task[None]] = []
        self.asked: list[Tree] = []
        self.open: set[str] = set()

    def listen(self, ensemble: Ensemble) -> None:
        def changed(collection: Collection, occurrence: Occurrence) -> None:
            if collection.kind.plural != "evictionrequests":
                return
            if occurrence.after is None:
                self.open.discard(occurrence.subject.name)
            elif occurrence.before is None:
                self.open.add(occurrence.subject.name)
                self.asked.append(occurrence.after.tree)
                name = occurrence.subject.name
                self._tasks.append(asyncio.ensure_future(self._answer(ensemble, name)))

        ensemble.accounts.listeners.append(changed)


async def told(client: Client, name: str, **status: Any) -> None:
    await client.patch(
        EvictionRequest, name, {"status": status}, namespace="default", subresource="status"
    )


async def moves(ensemble: Ensemble, name: str) -> None:
    """The operator looks at once, and takes its time."""
    await told(ensemble.client, name, observedGeneration=1)
    request = await ensemble.client.get(EvictionRequest, name, namespace="default")
    assert request.spec.target.pod is not None
    await ensemble.clock.sleep(MOVED_AFTER)
    await ensemble.client.delete(Pod, request.spec.target.pod.name, namespace="default")


async def fails(ensemble: Ensemble, name: str) -> None:
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": "NoResponder",
        "message": "no responder managed",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await told(ensemble.client, name, observedGeneration=1, conditions=[failed])


async def looks_only(ensemble: Ensemble, name: str) -> None:
    await told(ensemble.client, name, observedGeneration=1)


async def nobody(_: Ensemble, __: str) -> None:
    return None


def removed_after(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, **options: Any
) -> tuple[Responders, float]:
    """How long after its mark the first pod of the node was leaving."""
    responders = Responders(answer)
    _, course = play(monkeypatch, objects=(operated(),), prepare=responders.listen, options=options)
    assert "gone" in course.words()
    leaving = next(at for at, word in course.events if at >= BEGIN and word.startswith("evicted"))
    return responders, leaving - course.at("marked")


def test_the_operator_is_asked_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    responders, after = removed_after(monkeypatch, moves)
    assert after >= MOVED_AFTER
    asked = responders.asked[0]["spec"]
    assert (asked["requester"], asked["intent"]) == ("tonnage.dev/scale-down", "Eviction")
    assert asked["target"]["pod"]["name"].startswith("op-")


def test_a_request_is_taken_back_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    responders, _ = removed_after(monkeypatch, moves)
    assert responders.open == set()


def test_where_it_fails_the_pod_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    responders, after = removed_after(monkeypatch, fails)
    assert after < 15
    assert responders.open == set()


def test_where_nobody_looks_the_pod_is_evicted_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    responders, after = removed_after(monkeypatch, nobody)
    assert 30 <= after < 50
    assert responders.open == set()


def test_an_operator_has_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    _, after = removed_after(monkeypatch, looks_only, evictionRequestTimeout=90)
    assert 90 <= after < 110


def test_nobody_is_asked_where_that_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    responders, after = removed_after(monkeypatch, moves, evictionRequestTimeout=0)
    assert after < 15
    assert responders.asked == []


def test_a_server_without_the_kind_has_its_pods_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_kind(ensemble: Ensemble) -> None:
        del ensemble.server.store.collections["lifecycle.k8s.io", "v1alpha1", "evictionrequests"]

    _, course = play(monkeypatch, objects=(operated(),), prepare=without_the_kind)
    assert "gone" in course.words()
    leaving = next(at for at, word in course.events if at >= BEGIN and word.startswith("evicted"))
    assert leaving - course.at("marked") < 15
