"""What if, when nodes are to go: budgets that are not there, nodes that go in any case."""

from collections.abc import Iterable

import msgspec

from tonnage.errors import InputError
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.phrases import alternatives
from tonnage.objects.workloads import PodDisruptionBudget

IGNORE_BUDGET = "ignore-pdb"
REMOVE_NODE = "remove-node"


class WhatIfs(msgspec.Struct, frozen=True):
    """What is taken to be otherwise: budgets that are not there, nodes that are to go."""

    ignored_budgets: tuple[str, ...]
    wanted: tuple[str, ...]
    rest: tuple[str, ...]
    """Changes of the cluster itself."""


def supposed(what_ifs: Iterable[str]) -> WhatIfs:
    """Sort changes by whom they are for."""
    budgets, nodes, rest = [], [], []
    for text in what_ifs:
        form, _, value = text.partition("=")
        if form == IGNORE_BUDGET:
            budgets.append(value if "/" in value else f"default/{value}")
        elif form == REMOVE_NODE:
            nodes.append(value)
        else:
            rest.append(text)
    return WhatIfs(tuple(budgets), tuple(nodes), tuple(rest))


def check(objects: Iterable[KubeObject], changes: WhatIfs) -> None:
    """Refuse what-ifs about what is not there."""
    budgets = {one.metadata.key for one in objects if isinstance(one, PodDisruptionBudget)}
    nodes = {one.metadata.name for one in objects if isinstance(one, Node)}
    for name in changes.ignored_budgets:
        if name not in budgets:
            raise InputError(
                f"what-if {IGNORE_BUDGET}={name}: no such PodDisruptionBudget;"
                f" {alternatives(name, budgets)}"
            )
    for name in changes.wanted:
        if name not in nodes:
            raise InputError(
                f"what-if {REMOVE_NODE}={name}: no such node; {alternatives(name, nodes)}"
            )
