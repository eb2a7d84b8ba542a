"""What surrounds a control plane and is only played here: kubelets, CSI drivers, storage.

It works on any API server, real or not, and in virtual time too: all it does goes through the
client and the clock it was given, and what happens to an object depends on the seed and on the
object's name alone, never on the order of events.

    world        all of it together; begin here
    behaviour    what the world is like: delays, failures, drivers, and chance by a seed
    kubelets     nodes become Ready, pods run and end; `drivers` register on them, `mounts` hold up
    attach_detach, external_attacher, external_provisioner, claim_binder, node_lifecycle
                 the controllers around volumes and nodes, by their upstream names
    controllers  what makes pods of workloads, where the server has nobody who does
    local_capacity
                 space of drivers on nodes, published
    caches, keyed_tasks, work_queue, event_writer, pod_index, pod_volumes, node_patches
                 what they share
"""

from tonnage.embedded.world.behaviour import (
    Delay,
    DriverBehaviour,
    DriverLimitChange,
    Flapping,
    WorldBehaviour,
)
from tonnage.embedded.world.run_times import RUNS_FOR
from tonnage.embedded.world.world import EmbeddedWorld

__all__ = [
    "RUNS_FOR",
    "Delay",
    "DriverBehaviour",
    "DriverLimitChange",
    "EmbeddedWorld",
    "Flapping",
    "WorldBehaviour",
]
