"""The limits of the in-tree plugins of 2018, for schedulers that still read their keys.

A plugin works with one cloud; asking it on a node of another is an error, as it was then. The
number comes from the catalogue where the type is known, and from the plugin's own rule where not.
"""

from typing import NamedTuple

from tonnage.groups import catalogue
from tonnage.groups.limits import instance_type
from tonnage.nodeagent.effective_limit import MachineSlots
from tonnage.objects import limit_keys
from tonnage.objects.nodes import Node


class IntreeLimit(NamedTuple):
    key: str
    number: int
    reason: str


def provider_of(node: Node) -> str:
    """The cloud a node is of, as its id begins: `aws:///eu-west-1a/i-0abc`; empty without one."""
    return node.spec.provider_id.partition("://")[0]


def plugin_of(node: Node) -> str | None:
    """The in-tree plugin that has disks for this node."""
    provider = provider_of(node)
    return next((one for one, cloud in limit_keys.PROVIDERS.items() if cloud == provider), None)


def volume_limit(
    plugin: str, node: Node, *, machine: MachineSlots | None, env_max: int | None
) -> IntreeLimit:
    """The limit of an in-tree plugin on a node, which has to be of its cloud.

    `env_max` is `KUBE_MAX_PD_VOLS` and goes before everything; `machine` is what the catalogue
    has for this very machine.
    """
    kind = instance_type(node)
    # Asked for in any case: it is what refuses a plugin of another cloud.
    by_rule = catalogue.intree_limit(plugin, kind, provider=provider_of(node))
    key = limit_keys.INTREE_KEYS[plugin]
    if env_max is not None:
        return IntreeLimit(key, env_max, "KUBE_MAX_PD_VOLS")
    if machine is not None:
        return IntreeLimit(key, machine.count, machine.formula)
    return IntreeLimit(key, by_rule, f"the in-tree plugin's rule for {kind or 'an unknown type'}")
