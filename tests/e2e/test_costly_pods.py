"""A tenant's pods with thousands of rules: others get their nodes, and nobody waits for health."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.e2e import hostile_pods, manifests
from tests.e2e.scale_up import Stage, group

pytestmark = pytest.mark.patience(600)

Tell = Callable[[str], None]

MANY = 1_600
HEALTHY_WITHIN = 2.0
"""Seconds; a probe of the shipped manifests gives up later."""


def affinity(kind: str, key: str, terms: list[dict[str, Any]] | dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {key: terms}}}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_terms() -> dict[str, Any]:
    terms = [
        {"matchExpressions": [{"key": f"example.com/{n}", "operator": "In", "values": ["x"]}]}
        for n in range(MANY)
    ]
    return affinity("nodeAffinity", REQUIRED, {"nodeSelectorTerms": terms})


def near() -> dict[str, Any]:
    terms = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": str(n)}},
            "namespaceSelector": {"matchLabels": {"team": str(n)}},
        }
        for n in range(MANY)
    ]
    return affinity("podAffinity", REQUIRED, terms)


def tolerations() -> dict[str, Any]:
    # It would fit a node, were it not so large.
    return {"tolerations": [{"key": f"example.com/{n}", "operator": "Exists"} for n in range(MANY)]}


HOSTILE: dict[str, Callable[[], dict[str, Any]]] = {
    "spread": partial(hostile_pods.spread, MANY),
    "node-terms": node_terms,
    "near": near,
    "tolerations": tolerations,
}


def test_pods_with_thousands_of_rules_stop_nobody(stage: Stage, figure: Tell) -> None:
    stage.play()
    stage.groups(group("web"))
    autoscaler = stage.autoscaler()
    for name, spec in HOSTILE.items():
        pod = manifests.pod(name, namespace=stage.work.namespace, cpu="1", **spec())
        stage.cluster.create(pod)
    stored = stage.work.get("pod", "spread")["spec"]["topologySpreadConstraints"]
    assert len(stored) == MANY, "the API server stores all of them"
    # The one that would fit may have got a node of its own by the time it is looked at.
    stage.wait(
        lambda: all(
            stage.work.scheduler_says(name) or stage.work.node_of(name) for name in HOSTILE
        ),
        "the scheduler has looked at the hostile pods",
    )

    stage.cluster.create(manifests.pod("honest", namespace=stage.work.namespace))
    longest = 0.0

    def runs() -> bool:
        nonlocal longest
        asked = time.monotonic()
        autoscaler.ask("/healthz")
        longest = max(longest, time.monotonic() - asked)
        return "honest" in stage.running()

    stage.wait(runs, "the honest pod runs")
    assert longest < HEALTHY_WITHIN
    assert autoscaler.says("leadership lost") == 0
    stage.wait(lambda: bool(stage.work.events("spread", reason="SetApart")), "the tenant is told")
    figure(f"4 pods of {MANY:,} rules: longest wait for /healthz {longest * 1000:.0f} ms")
