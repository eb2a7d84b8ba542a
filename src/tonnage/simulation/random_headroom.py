"""Attach slots that are kept free in clusters made by chance.

It is laid over a cluster of `random_scenarios`, so that everything else in it stays as it is.
"""

import random

import msgspec

from tonnage.simulation.random_scenarios import DRIVERS
from tonnage.simulation.scenario import Simulation


def is_chosen(seed: int) -> bool:
    """Whether slots are kept free in the cluster of a seed: in every third one."""
    return random.Random(f"headroom {seed}").random() < 0.33


def with_headroom(simulation: Simulation) -> Simulation:
    """The same cluster, with some slots of a driver or two to be kept free."""
    dice = random.Random(f"how much {simulation.spec.seed}")
    entries = [
        {"driver": driver, "slots": dice.randint(1, 6), "perZone": dice.random() < 0.5}
        for driver in dice.sample(DRIVERS, dice.choice((1, 1, 2)))
    ]
    options = {**simulation.spec.options, "headroom": entries}
    spec = msgspec.structs.replace(simulation.spec, options=options)
    return msgspec.structs.replace(simulation, spec=spec)
