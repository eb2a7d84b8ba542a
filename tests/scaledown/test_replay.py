"""Whatever the cluster, carrying out a plan breaks no rule at any moment."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scaledown import replay
from tests.scaledown.clusters import DB, DRIVER, WEB, budget, db, volume, web
from tests.seeds import seeds
from tonnage.api import Cluster
from tonnage.groups.scale_down_options import AT_ONCE
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.scenarios import NodeGroup, NodeGroupSpec
from tonnage.scaledown import decision
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make

ZONES = ("z1", "z2", "z3")


def cluster(seed: int) -> list[KubeObject]:
    """Nodes of several zones, with pods that keep together or apart, volumes and budgets."""
    rng = random.Random(seed)
    objects: list[KubeObject] = [WEB, DB, make.storage_class("disk", DRIVER)]
    names = [f"n{number}" for number in range(rng.randint(2, 7))]
    zone_of = {name: rng.choice(ZONES) for name in names}
    for name in names:
        objects.append(make.node(name, cpu=rng.choice("248"), zone=zone_of[name]))
        objects.append(make.csinode(name, {DRIVER: rng.randint(1, 4)}))
    split = rng.randint(0, len(names))
    for number, members in enumerate((names[:split], names[split:])):
        spec = NodeGroupSpec(min_size=rng.randint(0, 1), max_size=10, nodes=tuple(members))
        objects.append(NodeGroup(metadata=ObjectMeta(name=f"g{number}"), spec=spec))
    for number in range(rng.randint(1, 12)):
        objects += _pod(rng, number, rng.choice(names), zone_of)
    for app in ("web", "db"):
        if rng.random() < 0.5:
            objects.append(budget(rng.randint(1, 2), app))
    return objects


def _pod(rng: random.Random, number: int, node: str, zone_of: dict[str, str]) -> list[KubeObject]:
    alike = make.selecting({"app": rng.choice(("web", "db"))})
    key = rng.choice((make.HOSTNAME, make.ZONE))
    term = PodAffinityTerm(topology_key=key, label_selector=alike)
    fields: dict[str, object] = {"cpu": rng.choice(("100m", "300m", "700m"))}
    say = rng.random()
    if say < 0.15:
        fields["apart"] = [term]
    elif say < 0.25:
        fields["near"] = [term]
    elif say < 0.45:
        fields["spread"] = [
            TopologySpreadConstraint(
                max_skew=rng.randint(1, 2), topology_key=key, label_selector=alike
            )
        ]
    made: list[KubeObject] = []
    if rng.random() < 0.4:
        affinity = make.nodes_with(make.ZONE, zone_of[node]) if rng.random() < 0.7 else None
        made += volume(f"c{number}", node_affinity=affinity)
        made.append(make.attachment(f"pv-c{number}", node, attacher=DRIVER))
        fields["pvcs"] = [f"c{number}"]
    kind = rng.choice((web, db))
    return [*made, kind(f"p{number}", node, **fields)]


@settings(max_examples=seeds(25), deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_a_plan_can_be_carried_out(seed: int) -> None:
    objects = cluster(seed)
    options = {"scaleDownUtilizationThreshold": 0.9, "slotsUtilization": False}
    plan = Cluster(objects).scale_down({**options, "maxDrainParallelism": seed % 3 + 1})
    assert replay.violations(objects, plan) == []


def test_the_clusters_are_worth_it() -> None:
    drained = moved = 0
    for seed in range(20):
        plan = Cluster(cluster(seed)).scale_down(
            {"scaleDownUtilizationThreshold": 0.9, "slotsUtilization": False}
        )
        drained += sum(bool(node.moves) for node in plan.going)
        moved += sum(len(node.moves) for node in plan.going)
    assert drained > 5
    assert moved > 10


def test_a_decision_leaves_the_snapshot_as_it_was() -> None:
    for seed in range(15):
        objects = cluster(seed)
        inputs = Cluster(objects).inputs({**AT_ONCE, "scaleDownUtilizationThreshold": 0.9})
        snapshot = inputs.cluster.snapshot
        before = contents(snapshot)
        decision.decide(ScaleDownInputs.of(inputs, objects))
        assert contents(snapshot) == before


def contents(snapshot: Snapshot) -> dict[str, object]:
    size = snapshot.table.size
    return {
        "used": [column.data[:size].tolist() for column in snapshot.columns.used],
        "slots": {one.name: one.used.data[:size].tolist() for one in snapshot.slots.drivers()},
        "alive": snapshot.table.alive.data[:size].tolist(),
        "pods": {key: (record.node_name, record.row) for key, record in snapshot.pods.items()},
        "nodes": {name: record.row for name, record in snapshot.nodes.items()},
    }
