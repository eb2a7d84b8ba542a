"""The taints of nodes that may go or are going, and the cordon: keys and values are upstream's.

Changes are made to the version of the node that was seen, so nobody's change is ever undone.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from tonnage.autoscaler.context import AutoscalingContext
from tonnage.cluster import errors
from tonnage.groups.passing_taints import DELETION_CANDIDATE, MAKING_ROOM, TO_BE_DELETED
from tonnage.objects.nodes import Node, Taint
from tonnage.service.moving_pods import NOTE

CORDONED = "tonnage.dev/cordoned-for-removal"
"""Says that the cordon is ours: what somebody else has cordoned stays so."""

_HARD = "NoSchedule"

_PAUSE = 0.75
_PATIENCE = 5.0
"""Seconds between two attempts to change a node that others change too, and for all of them."""

Change: TypeAlias = dict[str, object]
"""A merge patch."""


def has(node: Node, key: str) -> bool:
    return any(taint.key == key for taint in node.spec.taints)


def since(node: Node, key: str) -> float | None:
    """When the taint was set, as its value tells."""
    for taint in node.spec.taints:
        if taint.key == key and taint.value.isdecimal():
            return float(taint.value)
    return None


def to_be_deleted(node: Node, *, now: float, cordon: bool, note: str = "") -> Change | None:
    """Keep pods off a node that is going, with a note of its pods that move; `None` if it is so."""
    told: dict[str, str] = {}
    if note and node.metadata.annotations.get(NOTE) != note:
        told[NOTE] = note
    spec: dict[str, object] = {}
    if not has(node, TO_BE_DELETED):
        taint = Taint(key=TO_BE_DELETED, value=str(int(now)), effect="NoSchedule")
        spec["taints"] = [*_written(node), _entry(taint)]
        if cordon and not node.spec.unschedulable:
            told[CORDONED] = "true"
            spec["unschedulable"] = True
    change: Change = {"metadata": {"annotations": told}} if told else {}
    if spec:
        change["spec"] = spec
    return change or None


def not_deleted(node: Node) -> Change | None:
    """Let pods come back to a node that stays after all; `None` if nothing keeps them off."""
    ours = [key for key in (CORDONED, NOTE) if key in node.metadata.annotations]
    if not has(node, TO_BE_DELETED) and not ours:
        return None
    spec: dict[str, object] = {"taints": _without(node, TO_BE_DELETED)}
    if CORDONED in ours:
        spec["unschedulable"] = None
    change: Change = {"metadata": {"annotations": dict.fromkeys(ours)}} if ours else {}
    return {**change, "spec": spec}


def unmarked(node: Node) -> Node:
    """The node as it would be without our marks."""
    ours = CORDONED in node.metadata.annotations
    kept = tuple(taint for taint in node.spec.taints if taint.key != TO_BE_DELETED)
    cordoned = node.spec.unschedulable and not ours
    spec = msgspec.structs.replace(node.spec, taints=kept, unschedulable=cordoned)
    return msgspec.structs.replace(node, spec=spec)


def candidate(node: Node, *, now: float) -> Change | None:
    """Have the scheduler prefer others to a node that may go."""
    if has(node, DELETION_CANDIDATE):
        return None
    taint = Taint(key=DELETION_CANDIDATE, value=str(int(now)), effect="PreferNoSchedule")
    return {"spec": {"taints": [*_written(node), _entry(taint)]}}


def no_candidate(node: Node) -> Change | None:
    if not has(node, DELETION_CANDIDATE):
        return None
    return {"spec": {"taints": _without(node, DELETION_CANDIDATE)}}


def making_room(node: Node) -> Change | None:
    """Keep pods from coming back to a node that stays and has to make room for others."""
    if has(node, MAKING_ROOM):
        return None
    return {"spec": {"taints": [*_written(node), _entry(Taint(key=MAKING_ROOM, effect=_HARD))]}}


def room_made(node: Node) -> Change | None:
    if not has(node, MAKING_ROOM):
        return None
    return {"spec": {"taints": _without(node, MAKING_ROOM)}}


class NodeChanger:
    """Changes one node at a time; against others who change it too, again for a few seconds."""

    def __init__(self, context: AutoscalingContext) -> None:
        self._world = context.world
        self._client = context.client
        self._clock = context.clock

    async def change(self, name: str, change: Callable[[Node], Change | None]) -> Node | None:
        """The node as it is afterwards; `None` if it is gone."""
        node = self._world.node(name)
        end = self._clock.monotonic() + _PATIENCE
        try:
            while True:
                if node is None or change(node) is None:
                    # What is known may be old: whether there is nothing to do is asked for once.
                    node = await self._client.get(Node, name)
                    if change(node) is None:
                        return node
                try:
                    return await self._client.patch(Node, name, _guarded(node, change(node) or {}))
                except errors.Conflict:
                    if self._clock.monotonic() >= end:
                        raise
                await self._clock.sleep(_PAUSE)
                node = await self._client.get(Node, name)
        except errors.NotFound:
            return None


def _guarded(node: Node, change: Change) -> Change:
    told = change.get("metadata", {})
    assert isinstance(told, dict)
    meta = {**told, "uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}
    return {**change, "metadata": meta}


def _written(node: Node) -> list[dict[str, object]]:
    return [_entry(taint) for taint in node.spec.taints]


def _without(node: Node, key: str) -> list[dict[str, object]] | None:
    return [_entry(taint) for taint in node.spec.taints if taint.key != key] or None


def _entry(taint: Taint) -> dict[str, object]:
    entry: dict[str, object] = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        entry["value"] = taint.value
    if taint.time_added:
        entry["timeAdded"] = taint.time_added
    return entry
