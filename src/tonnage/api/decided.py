"""Deciding as a command does it: within the time that the options give, asking whom they name."""

import math
import time

from tonnage.groups.inputs import Inputs
from tonnage.providers import grpc_expander
from tonnage.scaleup import decision
from tonnage.scaleup.costly_pods import OwnTime
from tonnage.scaleup.decision import Decision


def decided(inputs: Inputs) -> Decision:
    """The decision on these inputs."""
    end = time.monotonic() + (inputs.options.time_budget or math.inf)
    with grpc_expander.expanders(inputs.options) as asked:
        return decision.decide(
            inputs,
            out_of_time=lambda: time.monotonic() >= end,
            own_time=OwnTime(time.monotonic, inputs.options.set_apart_time_budget or math.inf),
            outside=asked,
        )
