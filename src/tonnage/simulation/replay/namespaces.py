"""Namespaces of a replay.

Every kind has a watch of its own, so a trace may show an object before its namespace, or show no
namespace at all: one that is on its way out, or one that the recorder had no right to read.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from tonnage.simulation import scenario_files

Tree: TypeAlias = dict[str, Any]
Arrival: TypeAlias = tuple[float, tuple[str, str], Tree]
"""When, plural and name, and what comes."""

PLURAL = "namespaces"


def in_time(arrivals: Iterable[Arrival]) -> list[Arrival]:
    """The same in order of time, namespaces no later than the first object in them."""
    arrivals = list(arrivals)
    first: dict[str, float] = {}
    for at, _, tree in arrivals:
        namespace = tree["metadata"].get("namespace", "")
        first[namespace] = min(at, first.get(namespace, at))
    moved = [
        (min(at, first.get(key[1], at)) if key[0] == PLURAL else at, key, tree)
        for at, key, tree in arrivals
    ]
    return sorted(moved, key=lambda arrival: (arrival[0], arrival[1][0] != PLURAL))


def missing(objects: Sequence[Tree], arrivals: Iterable[Arrival]) -> Iterator[Tree]:
    """Namespaces that objects at the beginning need, and those that are never shown."""
    arrivals = list(arrivals)
    coming = {key[1] for _, key, _ in arrivals if key[0] == PLURAL}
    later = [tree for _, _, tree in arrivals if tree["metadata"].get("namespace") not in coming]
    yield from scenario_files.missing_namespaces([*objects, *later])
