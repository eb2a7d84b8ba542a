"""Nodes that are drained, with the note of their pods that scale-down writes."""

from typing import Any

import msgspec

from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.workloads import StatefulSet
from tonnage.service import moving_pods
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

SET = OwnerReference(
    api_version="apps/v1", kind="StatefulSet", name="db", uid="set", controller=True
)
OWNER = StatefulSet(metadata=ObjectMeta(name=SET.name, namespace="default", uid=SET.uid))
"""What `SET` names; a server removes pods whose owner is not there."""
REPLICAS = OwnerReference(
    api_version="apps.kruise.io/v1alpha1", kind="CloneSet", name="web", uid="c", controller=True
)
LASTS = 600.0


def note_of(clock: VirtualClock, moves: dict[str, Pod], *, lasts: float = LASTS) -> str:
    """What is written on a node whose pods move, each to the node it stands beside."""
    now = clock.now().timestamp()
    return moving_pods.note(
        ((pod, node) for node, pod in moves.items()), now=now, until=now + lasts
    )


def drained(name: str, note: str, **more: Any) -> Node:
    """A node that is marked, and says where its pods go."""
    made = builders.node(name, **more)
    meta = msgspec.structs.replace(made.metadata, annotations={moving_pods.NOTE: note})
    return msgspec.structs.replace(made, metadata=meta)
