"""Local disks for clusters made by chance: a driver that publishes what each node has left.

They are laid over a cluster that `random_scenarios` made, so that all else stays as it is.
"""

import random
from collections.abc import Iterator

import msgspec

from tonnage.embedded.world import DriverBehaviour
from tonnage.objects.scenarios import NodeGroup, StorageCapacity
from tonnage.objects.storage import NodeDriver
from tonnage.simulation import random_scenarios, scenario
from tonnage.simulation.random_scenarios import OPTED_IN, TROUBLE
from tonnage.simulation.scenario import ScenarioAction, Simulation

LOCAL = "local.example.com"
WORKLOADS = {"local": {LOCAL: 10}, "pair": {LOCAL: 15, OPTED_IN: 1}}
"""GiB of the volumes of each workload, by driver."""


def with_disks(simulation: Simulation) -> Simulation:
    """The cluster, every second one with local disks; the simulation's seed says all about them."""
    dice = random.Random(f"disks {simulation.spec.seed}")
    if dice.random() < 0.5:
        return simulation
    spec, gib = simulation.spec, dice.choice((20, 35, 50))
    driver = DriverBehaviour(
        name=LOCAL,
        capacity=f"{gib}Gi",
        published_after=random_scenarios.delay(dice, 5.0),
        registers_after=random_scenarios.delay(dice, 30.0),
        never_chance=dice.choice((0.0, 0.0, 0.0, 0.1)),
    )
    nodes = sum(group.spec.max_size for group in simulation.groups)
    script = (*spec.script, *_script(nodes, gib, dice))
    world = msgspec.structs.replace(spec.world, drivers=(*spec.world.drivers, driver))
    return msgspec.structs.replace(
        simulation,
        spec=msgspec.structs.replace(spec, world=world, script=script),
        groups=tuple(_with_disk(group, gib) for group in simulation.groups),
        objects=(
            *simulation.objects,
            *random_scenarios.storage(LOCAL, attachRequired=False, storageCapacity=True),
            *(
                random_scenarios.workload(
                    name, {driver: f"{size}Gi" for driver, size in sizes.items()}
                )
                for name, sizes in WORKLOADS.items()
            ),
        ),
    )


def _with_disk(group: NodeGroup, gib: int) -> NodeGroup:
    template = group.spec.template
    assert template is not None
    assert template.csi_node is not None
    entry = NodeDriver(name=LOCAL, node_id="t", topology_keys=(f"topology.{LOCAL}/node",))
    drivers = (*template.csi_node.spec.drivers, entry)
    replace = msgspec.structs.replace
    with_disk = replace(
        template,
        csi_node=replace(template.csi_node, spec=replace(template.csi_node.spec, drivers=drivers)),
        storage_capacity=(StorageCapacity(storage_class_name=LOCAL, capacity=f"{gib}Gi"),),
    )
    return replace(group, spec=replace(group.spec, template=with_disk))


def _script(nodes: int, gib: int, dice: random.Random) -> Iterator[ScenarioAction]:
    """Bursts, and now and then a driver that crashes; at the end at most half of all space."""
    for _ in range(dice.randint(1, 4)):
        at = round(dice.uniform(1.0, TROUBLE), 2)
        if dice.random() < 0.2:
            lasts = round(dice.uniform(5.0, 120.0), 2)
            yield ScenarioAction(
                at=at, crash=scenario.Crash(driver=LOCAL, nodes=("*",), lasts=lasts)
            )
        else:
            yield ScenarioAction(
                at=at, scale=_scaling(dice.choice(list(WORKLOADS)), nodes, gib, dice)
            )
    for workload in WORKLOADS:
        yield ScenarioAction(at=TROUBLE, scale=_scaling(workload, nodes, gib, dice))


def _scaling(workload: str, nodes: int, gib: int, dice: random.Random) -> scenario.Scaling:
    most = nodes * (gib // WORKLOADS[workload][LOCAL])
    return scenario.Scaling(
        kind="StatefulSet", name=workload, replicas=dice.randint(0, most // (2 * len(WORKLOADS)))
    )
