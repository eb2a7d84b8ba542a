"""What surrounds a control plane and is only played here: kubelets, CSI drivers, storage.

It works on any API server, real or not, and in virtual time too: all it does goes through the
client and the clock it was given, and what happens to an object depends on the seed and on the
object's name alone, never on the order of events.

    behaviour    what the world is like: delays, failures, drivers
    controllers  what makes pods of workloads, where the server has nobody who does
    world        all of it together
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
