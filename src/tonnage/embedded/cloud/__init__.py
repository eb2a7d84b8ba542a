"""A cloud that is only played: machines of node groups, what they cost, and what goes wrong.

behaviour    what the cloud is like: delays, failures, shortages
machines     the machines there are, and the bill
cloud        the provider of node groups that an autoscaler is given

It belongs to the world, not to the autoscaler: one that is started again finds the same machines.
"""

from tonnage.embedded.cloud.behaviour import CapacityShortage, CloudBehaviour, CloudOutage
from tonnage.embedded.cloud.cloud import SimulatedCloud
from tonnage.embedded.cloud.machines import Bill, CloudMachine, GroupBill

__all__ = [
    "Bill",
    "CapacityShortage",
    "CloudBehaviour",
    "CloudMachine",
    "CloudOutage",
    "GroupBill",
    "SimulatedCloud",
]
