"""Clusters made by chance, with trouble of all kinds for a while; a seed says everything.

Two drivers, one of which opted in, two zones, groups in one zone each, pods with a volume of
either driver, of both or of none. Slots run out long before anything else does.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tonnage.embedded.cloud import CapacityShortage, CloudBehaviour, CloudOutage
from tonnage.embedded.world import Delay, DriverBehaviour, WorldBehaviour
from tonnage.embedded.world.behaviour import Flapping
from tonnage.objects import codec, kinds
from tonnage.objects.labels import ZONE
from tonnage.objects.nodes import Taint
from tonnage.objects.scenarios import API_VERSION, NodeGroup
from tonnage.simulation import scenario
from tonnage.simulation.scenario import ScenarioAction, Simulation, Spec, Tree

Spell = TypeVar("Spell", CloudOutage, CapacityShortage)

OPTED_IN = "ebs.csi.aws.com"
PLAIN = "disk.example.com"
DRIVERS = (OPTED_IN, PLAIN)
ZONES = ("east", "west")
STARTUP_TAINT = "example.com/driver-not-ready"

WORKLOADS = {
    "fast": (OPTED_IN,),
    "plain": (PLAIN,),
    "both": (OPTED_IN, PLAIN),
    "none": (),
}
"""The drivers of each workload's volumes, one volume of each."""

TROUBLE = 480.0
QUIET = 840.0
PATIENCE = 180.0
"""Seconds that the autoscaler waits for machines, nodes and drivers."""
LONGEST_BACKOFF = 60.0
AGEING = PATIENCE + 60.0
"""Seconds before trouble begins, where the first nodes are to be past every deadline by then."""


def by_chance(seed: int) -> Simulation:
    """The cluster of a seed: bursts and failures, and then a long quiet."""
    dice = random.Random(f"explore {seed}")
    limits = {OPTED_IN: dice.randint(2, 5), PLAIN: dice.randint(2, 5)}
    zones = ZONES[: dice.choice((1, 2, 2))]
    groups = tuple(
        _group(f"{zone}-{number}", zone, limits, dice)
        for zone in zones
        for number in range(dice.choice((1, 1, 2)))
    )
    nodes = sum(group.spec.max_size for group in groups)
    tainted = dice.random() < 0.3
    spec = Spec(
        description="made by the race explorer",
        seed=seed,
        duration=TROUBLE + QUIET,
        # Nobody looks at the samples.
        sample_every=TROUBLE + QUIET,
        options=_options(tainted=tainted, replacing=dice.random() < 0.3),
        scheduler={"bindTimeout": 120.0},
        world=_world(limits, groups, dice, tainted=tainted),
        cloud=_cloud(zones, dice, tainted=tainted),
        script=tuple(_script(nodes, limits, groups, dice)),
    )
    return Simulation(
        name=f"explore-{seed}",
        spec=spec,
        groups=groups,
        objects=(
            *storage(OPTED_IN, preventPodSchedulingIfMissing=True),
            *storage(PLAIN),
            *(workload(name, dict.fromkeys(WORKLOADS[name], "1Gi")) for name in WORKLOADS),
        ),
    )


def aged(simulation: Simulation, *, seconds: float = AGEING) -> Simulation:
    """The same trouble, so much later."""
    spec, replace = simulation.spec, msgspec.structs.replace
    cloud = replace(
        spec.cloud,
        shortages=tuple(_later(shortage, seconds) for shortage in spec.cloud.shortages),
        outages=tuple(_later(outage, seconds) for outage in spec.cloud.outages),
    )
    script = tuple(replace(action, at=action.at + seconds) for action in spec.script)
    later = replace(spec, duration=spec.duration + seconds, cloud=cloud, script=script)
    return replace(simulation, spec=later)


def _later(one: Spell, seconds: float) -> Spell:
    until = one.until + seconds if one.until is not None else None
    return msgspec.structs.replace(one, since=one.since + seconds, until=until)


def _options(*, tainted: bool, replacing: bool) -> dict[str, Any]:
    return {
        "maxNodeProvisionTime": PATIENCE,
        "maxNodeStartupTime": PATIENCE,
        "driverRegistrationTimeout": PATIENCE,
        "initialNodeGroupBackoffDuration": LONGEST_BACKOFF / 2,
        "maxNodeGroupBackoffDuration": LONGEST_BACKOFF,
        # Trouble is meant to hit most of so small a cluster.
        "okTotalUnreadyCount": 1000,
        "replaceUnreadyDrivers": replacing,
        "startupTaints": [STARTUP_TAINT] if tainted else [],
        # Nobody reads these.
        "writeStatusConfigmap": False,
        "decisionRecordingSize": 0,
    }


def _group(name: str, zone: str, limits: dict[str, int], dice: random.Random) -> NodeGroup:
    least = dice.randint(0, 1)
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    drivers = [
        {"name": driver, "nodeID": "t", "topologyKeys": [ZONE], "allocatable": {"count": limit}}
        for driver, limit in limits.items()
    ]
    tree = {
        "apiVersion": API_VERSION,
        "kind": "NodeGroup",
        "metadata": {"name": name},
        "spec": {
            "minSize": least,
            "maxSize": dice.randint(2, 5),
            "targetSize": dice.randint(least, 2),
            "pricePerHour": "1",
            "template": {
                "node": {
                    "metadata": {"labels": {ZONE: zone}},
                    "status": {"capacity": room, "allocatable": room},
                },
                "csiNode": {"spec": {"drivers": drivers}},
            },
        },
    }
    row = kinds.by_kind(API_VERSION, "NodeGroup")
    assert row is not None
    made = codec.convert(tree, row)
    assert isinstance(made, NodeGroup)
    return made


def _world(
    limits: dict[str, int], groups: Sequence[NodeGroup], dice: random.Random, *, tainted: bool
) -> WorldBehaviour:
    never = dice.choice((0.0, 0.0, 0.1))
    drivers = tuple(
        DriverBehaviour(
            name=driver,
            limit=limit,
            topology={ZONE: ZONE},
            registers_after=delay(dice, 60.0),
            never_chance=never,
            startup_taint=STARTUP_TAINT if tainted and driver == OPTED_IN else "",
        )
        for driver, limit in limits.items()
    )
    unsteady = Flapping(
        nodes=(f"{dice.choice(groups).metadata.name}-2*",),
        up=Delay(20.0, 90.0),
        down=Delay(5.0, 40.0),
    )
    return WorldBehaviour(
        start=delay(dice, 30.0),
        never_start_chance=dice.choice((0.0, 0.0, 0.1)),
        flapping=(unsteady,) if dice.random() < 0.2 else (),
        pod_start=delay(dice, 5.0),
        pod_stop=delay(dice, 20.0),
        provision=delay(dice, 5.0),
        attach=delay(dice, 10.0),
        detach=delay(dice, 60.0),
        attach_failure_chance=dice.choice((0.0, 0.2)),
        csi_node_at_start=dice.random() < 0.7,
        drivers=drivers,
    )


def _cloud(zones: Sequence[str], dice: random.Random, *, tainted: bool) -> CloudBehaviour:
    begin = dice.uniform(0.0, TROUBLE / 2)
    end = begin + dice.uniform(30.0, 300.0)
    shortage = CapacityShortage(since=begin, until=end, zones=(dice.choice(zones),))
    return CloudBehaviour(
        start=delay(dice, 60.0),
        fails_after=delay(dice, 60.0),
        failure_chance=dice.choice((0.0, 0.1, 0.3)),
        shortages=(shortage,) if dice.random() < 0.4 else (),
        outages=(CloudOutage(since=begin, until=end),) if dice.random() < 0.2 else (),
        never_register_chance=dice.choice((0.0, 0.0, 0.1)),
        startup_taints=(Taint(key=STARTUP_TAINT, effect="NoSchedule"),) if tainted else (),
    )


def delay(dice: random.Random, most: float) -> Delay:
    """Between two times that are as likely as any others."""
    ends = sorted(round(dice.uniform(0.1, most), 2) for _ in range(2))
    return Delay(*ends)


def _script(
    nodes: int, limits: dict[str, int], groups: Sequence[NodeGroup], dice: random.Random
) -> Iterator[ScenarioAction]:
    """Bursts and trouble; at the end about as many pods as there are slots for, or fewer.

    Often one thing follows another within seconds: that is when races are run.
    """
    names = [group.metadata.name for group in groups]
    at = 0.0
    for _ in range(dice.randint(4, 12)):
        soon, anytime = at + dice.uniform(0.1, 6.0), dice.uniform(1.0, TROUBLE)
        at = round(soon if dice.random() < 0.5 and soon < TROUBLE else anytime, 2)
        lasts = round(dice.uniform(5.0, 120.0), 2)
        where = (dice.choice(("*", dice.choice(names), "*-1*", "*-2*")),)
        driver = dice.choice(DRIVERS)
        burst = _scaling(dice.choice(list(WORKLOADS)), nodes, limits, dice)
        crash = scenario.Crash(driver=driver, nodes=where, lasts=lasts)
        limit = dice.randint(1, limits[driver] + 2)
        change = scenario.LimitChangeAction(driver=driver, nodes=where, limit=limit)
        cut = scenario.Cut(
            kinds=dice.choice(((), ("Node",), ("CSINode",), ("Pod",))),
            answers=dice.choice(("none", "empty")),
            lasts=lasts,
        )
        yield dice.choice(
            (
                ScenarioAction(at=at, scale=burst),
                ScenarioAction(at=at, scale=burst),
                ScenarioAction(at=at, scale=burst),
                ScenarioAction(at=at, crash=crash),
                ScenarioAction(at=at, not_ready=scenario.NodeOutage(nodes=where, lasts=lasts)),
                ScenarioAction(at=at, set_limit=change),
                ScenarioAction(at=at, cut=cut),
                ScenarioAction(at=at, restart="autoscaler"),
                ScenarioAction(at=at, restart="scheduler"),
            )
        )
    for workload in WORKLOADS:
        yield ScenarioAction(at=TROUBLE, scale=_scaling(workload, nodes, limits, dice))


def _scaling(
    workload: str, nodes: int, limits: dict[str, int], dice: random.Random
) -> scenario.Scaling:
    """Up to half of what the groups could ever have; two workloads share each driver."""
    drivers = WORKLOADS[workload]
    slots = nodes * min((limits[driver] for driver in drivers), default=3)
    kind = "StatefulSet" if drivers else "Deployment"
    return scenario.Scaling(kind=kind, name=workload, replicas=dice.randint(0, slots // 2))


def storage(driver: str, **spec: bool) -> Iterator[Tree]:
    """A driver whose volumes are made once it is known where, and the class that is named like it.

    Its volumes are attached, unless the spec says otherwise.
    """
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": driver},
        "provisioner": driver,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": driver},
        "spec": {"attachRequired": True, **spec},
    }


def workload(name: str, sizes: Mapping[str, str]) -> Tree:
    """Pods with a volume of each driver, of that size."""
    container = {"name": "main", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}
    common = {
        "replicas": 0,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
    }
    claims = [
        {
            "metadata": {"name": driver.partition(".")[0]},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": driver,
                "resources": {"requests": {"storage": size}},
            },
        }
        for driver, size in sizes.items()
    ]
    stateful = {
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "volumeClaimTemplates": claims,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet" if sizes else "Deployment",
        "metadata": {"name": name},
        "spec": {**common, **(stateful if sizes else {})},
    }
