"""Nodes that volumes need: the last one that claims' bound volumes can be used on stays.

Unless a group can bring another like it: its template says where that would be.
"""

from typing import NamedTuple

import numpy as np

from tonnage.objects import selectors
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.nodes import Node
from tonnage.objects.pods import NodeSelector
from tonnage.scaledown.facts import NodeFacts
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.snapshot.rows import Bools


class Reach(NamedTuple):
    """Volumes that can be used on the same nodes: one of them, how many, the rows, and the groups
    that can bring such a node back."""

    volume: str
    volumes: int
    rows: Bools
    groups: tuple[str, ...]


class VolumeZones:
    """Where bound volumes of existing claims can be used; every reach keeps at least one node."""

    def __init__(self, inputs: ScaleDownInputs) -> None:
        self._of_row: dict[int, list[int]] = {}
        self._reaches: list[Reach] = []
        if inputs.options.keep_zones_of_volumes and not inputs.options.as_upstream:
            self._reaches = _reaches(inputs)
        for number, reach in enumerate(self._reaches):
            for row in np.flatnonzero(reach.rows).tolist():
                self._of_row.setdefault(row, []).append(number)

    def guard(self) -> "ZoneGuard":
        """A count of its own, for one attempt."""
        return ZoneGuard(self)

    def of(self, row: int) -> list[int]:
        """The reaches a row is part of."""
        return self._of_row.get(row, [])

    def reach(self, number: int) -> Reach:
        return self._reaches[number]

    def last_on(self, facts: NodeFacts) -> Reach | None:
        """Volumes that can be used on this node and no other, if there are any."""
        for number in self.of(facts.row):
            reach = self._reaches[number]
            if int(reach.rows.sum()) == 1:
                return reach
        return None


class ZoneGuard:
    """Called with a node that is about to go: whether it may. If so, it counts as gone."""

    def __init__(self, zones: VolumeZones) -> None:
        self._zones = zones
        self._left: dict[int, int] = {}

    def __call__(self, facts: NodeFacts) -> bool:
        numbers = self._zones.of(facts.row)
        for number in numbers:
            reach = self._zones.reach(number)
            left = self._left.setdefault(number, int(reach.rows.sum()))
            if left <= 1 and not reach.groups:
                return False
        for number in numbers:
            self._left[number] -= 1
        return True

    def put_back(self, facts: NodeFacts) -> None:
        """It did not go after all."""
        for number in self._zones.of(facts.row):
            self._left[number] += 1


def _reaches(inputs: ScaleDownInputs) -> list[Reach]:
    cluster = inputs.cluster
    storage = cluster.snapshot.storage
    found: dict[NodeSelector, tuple[str, int]] = {}
    for claim in storage.claims.values():
        volume = storage.volume(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is None or volume.spec.node_affinity is None:
            continue
        required = volume.spec.node_affinity.required
        if required is None:
            continue
        known = found.get(required)
        found[required] = (volume.metadata.name, known[1] + 1 if known else 1)
    snapshot = cluster.snapshot
    present = np.zeros(snapshot.table.size, dtype=np.bool_)
    present[[record.row for record in snapshot.nodes.values()]] = True
    new_nodes = _NewNodes(inputs)
    reaches = []
    for required, (name, count) in found.items():
        rows = present & snapshot.columns.labels.matching_nodes(required, by_name=True)
        if rows.any():
            reaches.append(Reach(name, count, rows, new_nodes.groups_with(required)))
    return reaches


class _NewNodes:
    """What nodes that groups can bring would carry, of the labels that volumes ask for.

    Volumes ask for the same few labels, and nodes of a group carry the same values of most: each
    set of values is looked at once per volume, not each node.
    """

    def __init__(self, inputs: ScaleDownInputs) -> None:
        nodes, templates = inputs.inputs.nodes, inputs.assessed.templates.by_group
        self._alike = {
            group.id: [
                templates[group.id].node,
                *(nodes[name] for name in group.nodes if name in nodes),
            ]
            for group in inputs.groups
            if group.id in templates and group.max_size > 0
        }
        self._carried: dict[frozenset[str], dict[str, list[dict[str, str]]]] = {}

    def groups_with(self, required: NodeSelector) -> tuple[str, ...]:
        """Groups whose new nodes the volumes can be used on, wherever the provider puts them."""
        asked = (one.key for term in required.node_selector_terms for one in term.match_expressions)
        keys = frozenset(asked) - {HOSTNAME}  # the name of a new node is another
        if keys not in self._carried:
            self._carried[keys] = {id: _carried(keys, each) for id, each in self._alike.items()}
        return tuple(
            id
            for id, carried in self._carried[keys].items()
            if all(selectors.node_matches(required, labels, None) for labels in carried)
        )


def _carried(keys: frozenset[str], nodes: list[Node]) -> list[dict[str, str]]:
    """The different sets of values that these nodes have for the keys."""
    found = {tuple(node.metadata.labels.get(key) for key in keys) for node in nodes}
    return [
        {key: value for key, value in zip(keys, values, strict=True) if value is not None}
        for values in found
    ]
