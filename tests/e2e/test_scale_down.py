"""Nodes are given back on a real control plane, with the rights that are shipped.

"Before" and "after" are revisions of etcd, which number every write.
"""

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.e2e import deployed, manifests
from tests.e2e.autoscaler import Autoscaler
from tests.e2e.manifests import Manifest
from tests.e2e.scale_up import DRIVER, Stage, group, stateful_set
from tonnage.clock import SystemClock
from tonnage.cluster.client import Client
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world.behaviour import Delay, DriverBehaviour
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import VolumeAttachment
from tonnage.providers.kwok_objects import GROUP_LABEL

pytestmark = pytest.mark.patience(600)

ZONE = "topology.kubernetes.io/zone"
AT_ONCE: dict[str, object] = {
    "scaleDownEnabled": True,
    "scaleDownUnneededTime": 1,
    "scaleDownDelayAfterAdd": 0,
    "scaleDownDelayAfterFailure": 1,
    "nodeDeleteDelayAfterTaint": 0,
    "maxScaleDownParallelism": 20,
    "maxDrainParallelism": 20,
    # It stands for processors here, which are idle.
    "slotsUtilization": False,
}


@pytest.fixture(autouse=True)
def allowed(stage: Stage) -> Iterator[None]:
    with deployed.allowing_scale_down(stage.cluster):
        yield


class Write(NamedTuple):
    revision: int
    what: str


class Writes:
    """What was written of nodes, pods and attachments, by the number of the write."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._namespace = namespace
        self.mirror = Mirror(client, clock=SystemClock(), rng=random.Random(2))
        self._seen: dict[str, int] = {}
        for kind in (Node, Pod, VolumeAttachment):
            self.mirror.add(kind).subscribe(self._take)

    @property
    def all(self) -> list[Write]:
        return sorted(Write(revision, what) for what, revision in self._seen.items())

    def of(self, *words: str) -> list[Write]:
        return [one for one in self.all if one.what.split()[0] in words]

    def _take(self, change: Change[Any]) -> None:
        obj, gone = change.object, change.type is EventType.DELETED
        name, uid = obj.metadata.name, obj.metadata.uid
        if isinstance(obj, Pod):
            if obj.metadata.namespace != self._namespace:
                return
            if obj.metadata.deletion_timestamp is not None:
                self._note(f"evicted {name} {uid}", obj)
            elif any(one.type == "Ready" and one.status == "True" for one in obj.status.conditions):
                self._note(f"ready {name} {uid}", obj)
        elif gone and isinstance(obj, VolumeAttachment):
            self._note(f"detached {obj.spec.node_name} {uid}", obj)
        elif gone:
            self._note(f"gone {name}", obj)

    def _note(self, what: str, obj: Any) -> None:
        self._seen.setdefault(what, int(obj.metadata.resource_version))


def nodes_of(name: str, size: int, **more: Any) -> Manifest:
    """A group that begins with so many nodes."""
    made = group(name, limit=10, most=size, **more)
    made["spec"]["targetSize"] = size
    return made


def deployment(name: str, replicas: int, *, namespace: str, cpu: str) -> Manifest:
    labels = {"app": name}
    template = manifests.pod("any", namespace=namespace, cpu=cpu, labels=labels)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def with_claims(name: str, replicas: int, claims: int, *, namespace: str) -> Manifest:
    """A StatefulSet whose pods have so many volumes each."""
    made = stateful_set(name, replicas, namespace=namespace)
    (template,) = made["spec"]["volumeClaimTemplates"]
    names = [f"data{number}" for number in range(claims)]
    made["spec"]["volumeClaimTemplates"] = [
        {**template, "metadata": {"name": one}} for one in names
    ]
    made["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": one, "mountPath": f"/{one}"} for one in names
    ]
    return made


def marked(stage: Stage) -> list[str]:
    listed = json.loads(stage.cluster.kubectl("get", "nodes", "-l", GROUP_LABEL, "-o", "json"))
    return [
        one["metadata"]["name"]
        for one in listed["items"]
        if one["spec"].get("unschedulable") or "ToBeDeleted" in json.dumps(one["spec"])
    ]


def begun(stage: Stage, size: int, *groups: Manifest) -> Autoscaler:
    """An autoscaler that gives nothing back so far, and its first nodes, which are ready."""
    stage.groups(*groups)
    autoscaler = stage.autoscaler()
    names = [one["metadata"]["name"] for one in groups]
    stage.wait(lambda: sum(len(stage.ready_nodes(name)) for name in names) == size, f"{size} nodes")
    return autoscaler


def giving_back(stage: Stage, autoscaler: Autoscaler, **settings: object) -> Autoscaler:
    """The same with scale-down on."""
    autoscaler.program.kill()
    stage.forget_leader()
    return stage.autoscaler(stage.settings(**AT_ONCE, **settings))


def test_forty_nodes_at_a_fifth_shrink_to_what_is_needed(stage: Stage) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10))
    autoscaler = begun(stage, 40, nodes_of("web", 40))
    stage.cluster.create(deployment("web", 40, namespace=stage.work.namespace, cpu="3200m"))
    stage.wait_running(40)
    giving_back(stage, autoscaler)
    # Five of the pods fill a node.
    stage.wait(lambda: len(stage.nodes("web")) <= 9, "no more nodes than are needed, and one")
    stage.wait(lambda: len(stage.running()) == 40 and not marked(stage), "all run, none is marked")
    assert len(stage.nodes("web")) >= 8


def test_replicas_move_one_at_a_time_and_volumes_before_nodes_also_if_it_is_killed(
    stage: Stage,
) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10), detach=Delay(0.5), pod_stop=Delay(0.3))
    autoscaler = begun(stage, 3, nodes_of("db", 3))
    stage.storage()
    stage.cluster.create(stateful_set("db", 6, namespace=stage.work.namespace))
    stage.wait_running(6)
    writes = Writes(stage.client, stage.work.namespace)
    stage.background.start(writes.mirror.run())
    stage.wait(lambda: len(writes.of("ready")) == 6, "what is there is known")

    first = giving_back(stage, autoscaler)
    stage.wait(lambda: len(writes.of("evicted")) >= 1, "the first replica is on its way")
    first.program.kill()
    stage.forget_leader()
    stage.replica("tonnage", stage.settings(**AT_ONCE)).start()
    stage.wait(lambda: len(stage.nodes("db")) == 1, "one node is left")
    stage.wait(lambda: len(stage.running()) == 6 and not marked(stage), "all run, none is marked")

    moves = [one.what.split()[0] for one in writes.of("evicted", "ready")[6:]]
    assert moves == ["evicted", "ready"] * (len(moves) // 2)
    assert len(moves) >= 8
    assert len(writes.of("gone")) == 2
    for node in writes.of("gone"):
        name = node.what.split()[1]
        left = [one.revision for one in writes.of("detached") if one.what.split()[1] == name]
        assert left
        assert max(left) < node.revision


def test_volumes_are_put_together_within_limits_as_upstream_does(stage: Stage) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10))
    autoscaler = begun(stage, 3, nodes_of("db", 3))
    stage.storage()
    nodes = stage.nodes("db")
    for place, (name, replicas, claims) in enumerate((("a", 1, 6), ("b", 1, 6), ("c", 2, 4))):
        others = [node for node in nodes if node != nodes[place]]
        stage.cluster.kubectl("cordon", *others)
        stage.cluster.kubectl("uncordon", nodes[place])
        stage.cluster.create(with_claims(name, replicas, claims, namespace=stage.work.namespace))
        stage.wait_running(place + replicas)
    stage.cluster.kubectl("uncordon", *nodes)
    giving_back(stage, autoscaler)

    stage.wait(lambda: stage.nodes("db") == nodes[:2], "the third node is gone")
    stage.wait_running(4)
    places = stage.running()
    assert {places["c-0"], places["c-1"]} == set(nodes[:2])

    stage.cluster.kubectl("delete", "statefulset", "b", "c", "-n", stage.work.namespace)
    stage.wait(lambda: len(stage.nodes("db")) == 1, "one pod with six volumes is left, on one node")
    stage.wait_running(1)


def test_nothing_goes_on_an_empty_cache_and_the_zone_of_a_volume_comes_back(stage: Stage) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=10, topology={ZONE: ZONE}))
    zones = [nodes_of(zone, 1) for zone in ("east", "west")]
    for one in zones:
        template = one["spec"]["template"]
        template["node"]["metadata"]["labels"][ZONE] = one["metadata"]["name"]
        template["csiNode"]["spec"]["drivers"][0]["topologyKeys"] = [ZONE]
    autoscaler = begun(stage, 2, *zones)
    stage.storage()
    stage.cluster.create(
        stateful_set("db", 1, namespace=stage.work.namespace, selector={ZONE: "east"}),
        deployment("web", 1, namespace=stage.work.namespace, cpu="100m"),
    )
    stage.wait_running(2)
    autoscaler.program.kill()
    stage.forget_leader()
    stage.take_right("tonnage", resource="pods", verbs={"list", "watch"})
    blind = stage.replica("tonnage", stage.settings(**AT_ONCE))
    blind.start()
    blind.wait_leading()
    stage.wait(lambda: "Pod objects" in str(blind.tells("held")), "it knows that it is blind")
    assert stage.stays(lambda: not marked(stage) and not blind.requests("delete"), seconds=3)

    blind.program.kill()
    stage.forget_leader()
    stage.give_rights_back()
    stage.autoscaler(stage.settings(**AT_ONCE))
    namespace = stage.work.namespace
    stage.cluster.kubectl("scale", "statefulset", "db", "--replicas=0", "-n", namespace)
    stage.wait(lambda: len(stage.running()) == 1, "nobody uses the volume")
    stage.wait(lambda: len(stage.nodes("east") + stage.nodes("west")) == 1, "a zone is empty")
    stage.cluster.kubectl("scale", "statefulset", "db", "--replicas=1", "-n", namespace)
    stage.wait_running(2)
    assert stage.running()["db-0"] in stage.nodes("east")
