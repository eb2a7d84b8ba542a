"""The boards that are looked at: of the embedded cluster, of 5,000 nodes, of names that bite."""

import random
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from tests.browser import served_board
from tests.browser.served_board import ServedBoard
from tests.scaleup.groups import group, owned_by
from tonnage import files
from tonnage.api import Cluster
from tonnage.autoscaler.consolidation.report import ConsolidationDocument
from tonnage.board import sources
from tonnage.board.feed import Feed
from tonnage.board.page_state import StateReader
from tonnage.board.sources import FollowedAutoscaler
from tonnage.consolidation.plan import (
    ConsolidatedNode,
    ConsolidationPlan,
    CostOfNodes,
    MissedSaving,
    NodePurchase,
    PodMove,
)
from tonnage.files import scenario_writer
from tonnage.objects.kinds import KubeObject
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.report.timeline import Sample
from tonnage.scaledown.plan import Action
from tonnage.simulation import demo_story, runner
from tonnage.simulation.ensemble import Ensemble
from tonnage.testing import builders as make

DRIVER = "ebs.csi.aws.com"
NODES = 5_000

HOSTILE = (
    "<script>throw 'x'</script>",
    '"><img src=x onerror=alert(1)>',
    "red\x1b[31m",
    "‮txet-desrever",
    "עברית",
    "n" * 250,
)


def of_5000() -> list[KubeObject]:
    """Many nodes in three groups, of which some are full, and pods that wait."""
    chance = random.Random(5)
    objects: list[KubeObject] = [make.storage_class("gp3", provisioner=DRIVER)]
    names: dict[str, list[str]] = {"db": [], "web": [], "batch": []}
    for number in range(NODES):
        pool = ("db", "web", "batch")[number % 3]
        name = f"ip-10-{number // 256}-{number % 256}.{pool}.internal"
        names[pool].append(name)
        labels = {
            INSTANCE_TYPE: {"db": "m5.2xlarge", "web": "m5.large", "batch": "c5.4xlarge"}[pool]
        }
        objects += [
            make.node(name, cpu="8", memory="32Gi", zone=f"eu-1{'abc'[number % 3]}", labels=labels),
            make.csinode(name, {DRIVER: 25}),
        ]
        owner = owned_by("ReplicaSet", f"{pool}-{number % 40}")
        for replica in range(chance.randrange(1, 4)):
            objects.append(
                make.pod(
                    f"{pool}-{number}-{replica}", cpu="1500m", memory="4Gi", on=name, owner=owner
                )
            )
    for number in range(40):
        objects += [
            make.pvc(f"data-new-{number}", storage_class="gp3"),
            make.pod(f"new-{number}", pvcs=[f"data-new-{number}"], cpu="30"),
        ]
    groups = (group(pool, nodes=held, most=NODES, price="0.4") for pool, held in names.items())
    return [*objects, *groups]


def of_hostile_names() -> list[KubeObject]:
    """Every name is one that a page could trip over; the cluster would never have let them in."""
    objects: list[KubeObject] = [make.storage_class("fast", provisioner=HOSTILE[0])]
    for number, name in enumerate(HOSTILE):
        objects += [
            make.node(name, zone=name, labels={INSTANCE_TYPE: name}),
            make.csinode(name, {HOSTILE[number - 1]: 3}),
            make.pod(f"on-{name}", on=name, cpu="1", owner=owned_by("ReplicaSet", name)),
            make.pod(name, namespace="ns", cpu="99"),
        ]
    return [*objects, group(HOSTILE[1], nodes=HOSTILE, price="0.5")]


def embedded() -> AbstractContextManager[ServedBoard]:
    """The demo's first act, played in virtual time: all moments of a real autoscaler."""
    act = demo_story.endless(demo_story.acts()[0])
    spec = msgspec.structs.replace(act.simulation.spec, duration=60.0)
    simulation = msgspec.structs.replace(act.simulation, spec=spec)
    feed = Feed(StateReader(title="demo", mode="demo", decides=True))
    playing: list[Ensemble] = []

    def look(_: Sample) -> None:
        program = playing[0].autoscaler
        if program is not None and program.autoscaler.report is not None:
            followed = FollowedAutoscaler(feed, lambda: program, clock=playing[0].clock)
            feed.publish(followed.moment(program))

    ended = runner.played(simulation, watch=look, prepare=playing.append)
    program = ended.autoscaler
    assert program is not None
    return served_board.of_feed(feed, program.world.objects)


def large() -> AbstractContextManager[ServedBoard]:
    """From a file, as `tonnage board -f` reads it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "5000-nodes.json")
        items = b",".join(map(scenario_writer.manifest, of_5000()))
        file.write_bytes(b'{"apiVersion":"v1","kind":"List","items":[' + items + b"]}")
        objects = files.load([file]).objects
    return served_board.of_objects(objects, title="5,000 nodes")


def hostile() -> AbstractContextManager[ServedBoard]:
    """With a consolidation, whose nodes, pods and reasons are no better."""
    objects = of_hostile_names()
    moment = sources.moment_of(Cluster(objects), now=time.time())
    assert moment.scale_down is not None
    plan = ConsolidationPlan(
        buys=(NodePurchase(group=HOSTILE[1], nodes=("new",)),),
        moves=tuple(
            PodMove(pod=f"ns/on-{name}", source=name, to="new", wave=1, detach=(name,))
            for name in HOSTILE
        ),
        nodes=tuple(
            ConsolidatedNode(node=name, group=HOSTILE[1], action=Action.DRAIN, wave=1, saves="0.5")
            for name in HOSTILE
        ),
        missed=(MissedSaving(reason=HOSTILE[0], nodes=HOSTILE, saves_per_hour="0.1"),),
        cost=CostOfNodes(before="3", after="0.5", bound="0.5"),
        saves_per_hour="2.5",
    )
    told = ConsolidationDocument(enabled=True, held=HOSTILE[2], plan=plan)
    scale_down = msgspec.structs.replace(moment.scale_down, consolidation=told)
    feed = Feed(StateReader(title=HOSTILE[0], mode="file", decides=False))
    feed.publish(moment._replace(scale_down=scale_down))
    return served_board.of_feed(feed, lambda: objects)


BOARDS: dict[str, Callable[[], AbstractContextManager[ServedBoard]]] = {
    "embedded": embedded,
    "5000-nodes": large,
    "hostile-names": hostile,
}
