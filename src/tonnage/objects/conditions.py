"""Conditions in the status of objects."""

from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod


def is_ready(obj: Node | Pod) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in obj.status.conditions)
