"""Dear nodes are replaced by a cheaper one on a real control plane, with the shipped rights.

"Before" and "after" are revisions of etcd, which number every write.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.e2e import deployed
from tests.e2e.manifests import Manifest
from tests.e2e.scale_up import DRIVER, Stage, stateful_set
from tests.e2e.test_scale_down import AT_ONCE, Writes, begun, deployment, marked, nodes_of
from tonnage.cluster.watch_events import Change
from tonnage.embedded.world.behaviour import Delay, DriverBehaviour
from tonnage.objects.conditions import is_ready
from tonnage.objects.nodes import Node

REPLACING: dict[str, object] = {
    **AT_ONCE,
    # What is idle is not to go for that.
    "scaleDownUnneededTime": 3600,
    "consolidation": {
        "enabled": True,
        "interval": 0.5,
        "minAge": 0,
        "settleTime": 0,
        "surgeSingleReplicas": True,
        "budgets": [{"nodes": "100%"}],
    },
}


@pytest.fixture(autouse=True)
def allowed(stage: Stage) -> Iterator[None]:
    with ExitStack() as rights:
        rights.enter_context(deployed.allowing_scale_down(stage.cluster))
        rights.enter_context(deployed.allowing_second_replicas(stage.cluster))
        yield


class WritesAndNodes(Writes):
    """Beside the others, when each node was ready first."""

    def _take(self, change: Change[Any]) -> None:
        super()._take(change)
        if isinstance(change.object, Node) and is_ready(change.object):
            self._note(f"there {change.object.metadata.name}", change.object)


def priced(made: Manifest, price: str) -> Manifest:
    made["spec"]["pricePerHour"] = price
    return made


def budget(name: str, *, namespace: str) -> Manifest:
    """One that asks for the only replica."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
    }


def test_dear_nodes_are_replaced_also_if_it_is_killed_in_the_middle(stage: Stage) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10), detach=Delay(0.3), pod_stop=Delay(0.2))
    cheap = priced(nodes_of("cheap", 0), "0.3")
    cheap["spec"]["maxSize"] = 3
    autoscaler = begun(stage, 2, priced(nodes_of("dear", 2), "2.0"), cheap)
    stage.storage()
    namespace = stage.work.namespace
    stage.cluster.create(
        stateful_set("db", 4, namespace=namespace),
        deployment("web", 1, namespace=namespace, cpu="100m"),
        budget("web", namespace=namespace),
    )
    stage.wait_running(5)
    writes = WritesAndNodes(stage.client, namespace)
    stage.background.start(writes.mirror.run())
    stage.wait(lambda: len(writes.of("ready")) == 5, "what is there is known")

    autoscaler.program.kill()
    stage.forget_leader()
    first = stage.autoscaler(stage.settings(**REPLACING))
    stage.wait(lambda: len(writes.of("evicted")) >= 1, "the first pod is on its way")
    first.program.kill()
    stage.forget_leader()
    stage.replica("tonnage", stage.settings(**REPLACING)).start()
    stage.wait(lambda: not stage.nodes("dear"), "the dear nodes are gone")
    stage.wait(lambda: len(stage.running()) == 5 and not marked(stage), "all run, none is marked")

    (new,) = stage.nodes("cheap")
    assert set(stage.running().values()) == {new}
    moves = writes.of("evicted", "ready")[5:]
    (there,) = (one.revision for one in writes.of("there") if one.what.split()[1] == new)
    assert there < moves[0].revision
    # Replicas of the set are away one at a time, the single one of the Deployment never.
    of_set = [one.what.split()[0] for one in moves if one.what.split()[1].startswith("db-")]
    assert of_set == ["evicted", "ready"] * 4
    of_web = [one.what.split() for one in moves if one.what.split()[1].startswith("web-")]
    assert [what for what, *_ in of_web][:2] == ["ready", "evicted"]
    for node in writes.of("gone"):
        name = node.what.split()[1]
        left = [one.revision for one in writes.of("detached") if one.what.split()[1] == name]
        assert left
        assert max(left) < node.revision
    scale = stage.cluster.get("deployment", "web", namespace=namespace)["spec"]["replicas"]
    assert scale == 1
